#include "skyward/io/plain_http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "skyward/io/http_fixture.h"

namespace skyward::io {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// What comes of a server that answers so.
Result<PlainReply> hear(const std::string& answer) {
  HttpServerFixture server([&](const HttpServerFixture::Received&) { return answer; });
  const std::string url = server.url("");
  return send_plain_http(
      {.address = "127.0.0.1", .port = std::stoi(url.substr(url.rfind(':') + 1)), .path = "/"},
      10s);
}

TEST(PlainHttp, SaysWhyThereIsNoAnswer) {
  const auto refused = send_plain_http({.address = "127.0.0.1", .port = 1, .path = "/"}, 1s);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("127.0.0.1:1 did not answer"));
  EXPECT_EQ(send_plain_http({.address = "metadata", .path = "/"}, 1s).error().kind,
            ErrorKind::invalid);
}

TEST(PlainHttp, TheLengthSaysWhereABodyEnds) {
  const auto reply = hear("HTTP/1.1 404 No\r\nContent-Length: 3\r\n\r\nabcdef");
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 404);
  EXPECT_EQ(reply->body, "abc");
}

TEST(PlainHttp, RefusesWhatItCannotRead) {
  for (const auto& [answer, why] :
       {std::pair("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nabc", "no length"),
        std::pair("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
                  "chunks"),
        std::pair("HTTP/1.1 what\r\n\r\n", "no status"),
        std::pair("SSH-2.0\r\n\r\n", "no status")}) {
    const auto reply = hear(answer);
    ASSERT_FALSE(reply) << answer;
    EXPECT_THAT(reply.error().message, HasSubstr(why)) << answer;
  }
}

}  // namespace
}  // namespace skyward::io

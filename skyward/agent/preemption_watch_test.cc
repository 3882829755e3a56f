#include "skyward/agent/preemption_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "skyward/agent/file_notice.h"
#include "skyward/io/file.h"
#include "skyward/io/http_fixture.h"
#include "skyward/io/machine.h"

namespace skyward::agent {
namespace {

using namespace std::chrono_literals;

constexpr Time kStart = Time{} + 1h;
constexpr std::int64_t kWall = 1'900'000'000;  // 2030-03-17T17:46:40Z

io::PlainReply reply(const io::PlainRequest& to, int status, std::string body) {
  return {.status = status, .body = std::move(body), .request_path = to.path};
}

TEST(Ec2Notice, TimeAndActionAreRead) {
  EXPECT_EQ(
      parse_instance_action(R"({"action": "terminate", "time": "2030-03-17T17:48:40Z"})", kWall),
      (Announcement{2min, "terminate"}));
  EXPECT_EQ(parse_instance_action(R"({"action":"stop","time":"2030-03-17T17:46:00Z"})", kWall),
            (Announcement{0s, "stop"}))
      << "it is over";
  EXPECT_EQ(parse_instance_action(R"({"action":"stop","time":"9999-12-31T23:59:59Z"})", kWall),
            (Announcement{1h, "stop"}));
  EXPECT_EQ(parse_instance_action(R"({"action":"hibernate","time":"soon"})", kWall),
            (Announcement{2min, "hibernate"}));
  for (const char* nothing : {"", "null", "{}", R"({"action":""})", R"({"action":7})",
                              R"({"action)", R"({"action":"x)"}) {
    EXPECT_FALSE(parse_instance_action(nothing, kWall)) << nothing;
  }
  for (const char* wrong : {"2030-13-17T17:48:40Z", "2030-03-17 17:48:40Z", "2030-03-17T17:48:40",
                            "2030-03-17T25:48:40Z", "2030-02-30T17:48:40Z"}) {
    const std::string text = std::string(R"({"action":"stop","time":")") + wrong + "\"}";
    EXPECT_EQ(parse_instance_action(text, kWall)->left, 2min) << wrong;
  }
}

TEST(Ec2Notice, FirstATokenThenTheAction) {
  Ec2Watch watch;
  const io::PlainRequest first = next_request(watch, kStart);
  EXPECT_EQ(first.method, "PUT");
  EXPECT_EQ(first.headers.at(0).second, "21600");
  EXPECT_TRUE(on_reply(watch, reply(first, 200, "secret"), kStart, kWall).ask_again);

  const io::PlainRequest second = next_request(watch, kStart);
  EXPECT_EQ(second.method, "GET");
  EXPECT_EQ(second.headers.at(0),
            std::pair(std::string("X-aws-ec2-metadata-token"), std::string("secret")));
  const NoticeReply none = on_reply(watch, reply(second, 404, "not found"), kStart, kWall);
  EXPECT_FALSE(none.ask_again || none.announcement);
  const NoticeReply heard =
      on_reply(watch, reply(second, 200, R"({"action":"stop"})"), kStart, kWall);
  EXPECT_EQ(heard.announcement, (Announcement{2min, "stop"}));

  EXPECT_EQ(next_request(watch, kStart + 6h).method, "PUT") << "the token is old";
}

TEST(Ec2Notice, WhatGoesWrongIsTriedAgainAfterAPause) {
  Ec2Watch watch;
  const io::PlainRequest first = next_request(watch, kStart);
  EXPECT_FALSE(on_reply(watch, fail(ErrorKind::unavailable, "no route"), kStart, kWall).ask_again);
  EXPECT_FALSE(on_reply(watch, reply(first, 403, "no"), kStart, kWall).ask_again);
  EXPECT_FALSE(on_reply(watch, reply(first, 200, "two\r\nlines"), kStart, kWall).ask_again);
  EXPECT_EQ(next_request(watch, kStart).method, "PUT");
  on_reply(watch, reply(first, 200, "secret"), kStart, kWall);
  const io::PlainRequest second = next_request(watch, kStart);
  EXPECT_FALSE(on_reply(watch, reply(second, 401, ""), kStart, kWall).ask_again);
  EXPECT_EQ(next_request(watch, kStart).method, "PUT") << "the token was refused";
}

// A metadata service that has nothing to say twice, and then has.
TEST(Ec2Notice, TheServiceIsAskedUntilItSaysSomething) {
  int asked = 0;
  io::HttpServerFixture service([&](const io::HttpServerFixture::Received& request) {
    const auto answer = [](std::string status, std::string body) {
      return "HTTP/1.1 " + status + "\r\ncontent-length: " + std::to_string(body.size()) +
             "\r\n\r\n" + body;
    };
    if (request.head.starts_with("PUT /latest/api/token ")) return answer("200 OK", "secret");
    if (!request.head.contains("X-aws-ec2-metadata-token: secret")) return answer("401 No", "");
    if (++asked < 3) return answer("404 Not Found", "nothing");
    return answer("200 OK", R"({"action": "terminate", "time": "2000-01-01T00:00:00Z"})");
  });
  const std::string url = service.url("");
  io::EventLoop loop;
  std::string said;
  PreemptionWatch notice(
      loop,
      {.address = "127.0.0.1", .port = std::stoi(url.substr(url.rfind(':') + 1)), .pause = 1ms},
      [&](Duration left, const std::string& reason) {
        said = std::to_string(left / 1s) + " " + reason;
        loop.stop();
      });
  loop.start_timer(io::EventLoop::now() + 20s, [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(said, "0 EC2 will terminate this machine");
  EXPECT_GE(asked, 3);
}

TEST(FileNotice, IsReadOnceTheFileIsThere) {
  EXPECT_EQ(parse_file_notice("1500 a storm comes\n"),
            (Announcement{.left = 1500ms, .action = "a storm comes"}));
  EXPECT_EQ(parse_file_notice("1500 gr\xFC\n"),
            (Announcement{.left = 1500ms, .action = "gr\xEF\xBF\xBD"}));
  for (const char* text : {"", "soon", "-3 x"}) EXPECT_FALSE(parse_file_notice(text)) << text;

  const std::string path = ::testing::TempDir() + "/notice-" + io::random_hex(8);
  io::EventLoop loop;
  std::string said;
  FileNotice notice(loop, path, [&](Duration left, const std::string& reason) {
    said = std::to_string(left / 1ms) + " " + reason;
    loop.stop();
  });
  loop.start_timer(io::EventLoop::now() + 60ms,
                   [&] { ASSERT_TRUE(io::write_private_file(path, "250 it is over")); });
  loop.start_timer(io::EventLoop::now() + 20s, [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(said, "250 it is over");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace skyward::agent

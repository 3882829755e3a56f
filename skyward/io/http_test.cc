#include "skyward/io/http.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

#include "skyward/io/event_loop.h"
#include "skyward/io/http_fixture.h"
#include "skyward/io/machine.h"
#include "skyward/io/process.h"
#include "skyward/io/tcp_socket.h"

namespace skyward::io {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

Time soon() { return EventLoop::now() + 20s; }

HttpRequest to(const std::string& url) {
  HttpRequest request;
  request.url = url;
  request.direct = true;
  return request;
}

TEST(Http, SendsWhatItIsToldAndReturnsWhatCame) {
  HttpServerFixture::Received seen;
  HttpServerFixture server([&](const HttpServerFixture::Received& received) {
    seen = received;
    return HttpServerFixture::reply(418, "body of it", "X-One: 1\r\nx-ONE: 2\r\nEmpty:\r\n");
  });
  const auto http = make_http();
  HttpRequest request = to(server.url("/a/../b?c=d%20e"));
  request.method = "POST";
  request.headers = {{"X-Given", "yes"}, {"Content-Type", "text/plain"}};
  request.body = std::string("a\0b", 3);
  const auto reply = http->send(request, soon());
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 418);
  EXPECT_EQ(reply->body, "body of it");
  EXPECT_EQ(reply->header("x-one"), "1");
  EXPECT_EQ(reply->header("none"), "");
  EXPECT_THAT(seen.head, HasSubstr("POST /a/../b?c=d%20e HTTP/1.1\r\n"));
  EXPECT_THAT(seen.head, HasSubstr("X-Given: yes"));
  EXPECT_THAT(seen.head, HasSubstr("Content-Type: text/plain"));
  EXPECT_THAT(seen.head, Not(HasSubstr("Expect")));
  EXPECT_EQ(seen.body, request.body);
}

TEST(Http, MethodsWithAndWithoutABody) {
  HttpServerFixture::Received seen;
  HttpServerFixture server([&](const HttpServerFixture::Received& received) {
    seen = received;
    return HttpServerFixture::reply(200, received.head.starts_with("HEAD") ? "" : "x");
  });
  const auto http = make_http();
  for (const char* method : {"GET", "PUT", "DELETE", "HEAD", "POST"}) {
    HttpRequest request = to(server.url("/p"));
    request.method = method;
    const auto reply = http->send(request, soon());
    ASSERT_TRUE(reply) << method << ": " << reply.error().message;
    EXPECT_EQ(reply->status, 200);
    EXPECT_THAT(seen.head, HasSubstr(std::string(method) + " /p HTTP/1.1\r\n"));
    EXPECT_THAT(seen.head, Not(HasSubstr("Content-Type"))) << method;
    EXPECT_EQ(seen.body, "");
  }
}

TEST(Http, FollowsNoRedirectAndForgetsAProvisionalReply) {
  HttpServerFixture server([](const HttpServerFixture::Received&) {
    return "HTTP/1.1 103 Early Hints\r\nX-Early: 1\r\n\r\n" +
           HttpServerFixture::reply(302, "", "Location: http://127.0.0.1:1/\r\n");
  });
  const auto reply = make_http()->send(to(server.url()), soon());
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 302);
  EXPECT_EQ(reply->header("X-Early"), "");
}

TEST(Http, AReplyThatIsTooLargeIsRefused) {
  HttpServerFixture server([](const HttpServerFixture::Received&) {
    return HttpServerFixture::reply(200, std::string(5000, 'x'));
  });
  HttpRequest request = to(server.url());
  request.max_reply_bytes = 4999;
  const auto http = make_http();
  const auto refused = http->send(request, soon());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::exhausted);
  request.max_reply_bytes = 5000;
  EXPECT_TRUE(http->send(request, soon()));
}

TEST(Http, EachFailureHasItsKindAndNoSecrets) {
  const auto http = make_http();
  const auto port = free_tcp_port();
  ASSERT_TRUE(port);
  const auto nobody =
      http->send(to("http://127.0.0.1:" + std::to_string(*port) + "/x?token=secret"), soon());
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(nobody.error().message, HasSubstr("http://127.0.0.1:" + std::to_string(*port)));
  EXPECT_THAT(nobody.error().message, Not(HasSubstr("secret")));

  EXPECT_EQ(http->send(to("ftp://127.0.0.1/"), soon()).error().kind, ErrorKind::invalid);
  EXPECT_EQ(http->send(to("http://[bad"), soon()).error().kind, ErrorKind::invalid);
  EXPECT_EQ(http->send(to("http://127.0.0.1/"), EventLoop::now()).error().kind, ErrorKind::timeout);

  HttpServerFixture dropping([](const HttpServerFixture::Received&) { return std::string(); });
  const auto dropped = http->send(to(dropping.url()), soon());
  ASSERT_FALSE(dropped);
  EXPECT_EQ(dropped.error().kind, ErrorKind::unavailable);
}

// In a process of its own, which has the variable.
TEST(Http, AProxysPasswordIsNotShown) {
  constexpr const char* kProxy = "http://me:pa#secret@proxy.example";
  if (environment_variable("http_proxy") == kProxy) {
    HttpRequest request = to("http://cloud.example/");
    request.direct = false;
    const auto reply = make_http()->send(request, soon());
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().kind, ErrorKind::invalid);
    EXPECT_THAT(reply.error().message, HasSubstr("address of the proxy"));
    EXPECT_THAT(reply.error().message, Not(HasSubstr("secret")));
    return;
  }
  SpawnOptions again;
  again.command = {"/proc/self/exe", "--gtest_filter=Http.AProxysPasswordIsNotShown"};
  again.environment = {{"http_proxy", kProxy}, {"no_proxy", ""}, {"NO_PROXY", ""}};
  again.unset = {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX", "GTEST_OUTPUT"};
  const auto child = run_command(again, 60s);
  ASSERT_TRUE(child) << child.error().message;
  EXPECT_THAT(child->out, HasSubstr("[  PASSED  ] 1 test")) << child->err;
}

TEST(Http, ARequestOnAFreshConnectionIsSentOnce) {
  std::atomic<int> posts = 0;
  HttpServerFixture server([&](const HttpServerFixture::Received& received) {
    if (received.head.starts_with("GET")) return HttpServerFixture::reply(200, "kept");
    ++posts;
    return std::string();
  });
  const auto http = make_http();
  ASSERT_TRUE(http->send(to(server.url()), soon()));
  HttpRequest create = to(server.url());
  create.method = "POST";
  create.fresh_connection = true;
  const auto reply = http->send(create, soon());
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(posts, 1);
}

TEST(Http, TheDeadlineEndsAReplyThatNeverEnds) {
  HttpServerFixture server([](const HttpServerFixture::Received&) {
    return std::string("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome");
  });
  const auto reply = make_http()->send(to(server.url()), EventLoop::now() + 100ms);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().kind, ErrorKind::timeout);
}

TEST(Http, TrustsWhatTheRequestNamesThenTheUserThenTheSystem) {
  HttpRequest request;
  EXPECT_EQ(choose_certificates(request, std::nullopt, ""), "") << "libcurl knows";
  EXPECT_EQ(choose_certificates(request, std::nullopt, "/system.pem"), "/system.pem");
  EXPECT_EQ(choose_certificates(request, "/mine.pem", "/system.pem"), "/mine.pem");
  request.ca_file = "/bundle.pem";
  EXPECT_EQ(choose_certificates(request, "/mine.pem", "/system.pem"), "/bundle.pem");
}

TEST(Http, PercentEncoding) {
  EXPECT_EQ(percent_encode("aZ0-._~"), "aZ0-._~");
  EXPECT_EQ(percent_encode(std::string_view("/ +\0\xc3", 5)), "%2F%20%2B%00%C3");
  EXPECT_EQ(percent_encode("a/b c", "/"), "a/b%20c");
}

// Ends this program with a request under way, and says on the way out whether its connection stood.
void exit_during_a_request(bool in_background) {
  static int connection = -1;
  std::atexit([] {
    char bytes[4096];
    ssize_t size = 0;
    while ((size = ::recv(connection, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) continue;
    std::fputs(size == 0 ? "closed\n" : "open\n", stderr);
  });
  auto bound = listen_tcp("127.0.0.1");
  if (!bound) std::exit(2);
  const std::string url = "http://127.0.0.1:" + std::to_string(bound->port);
  std::thread([url, in_background] {
    std::optional<BackgroundRequests> requests;
    if (in_background) requests.emplace();
    (void)make_http()->send(to(url), EventLoop::now() + 60s);
  }).detach();
  pollfd ready{.fd = bound->socket.get(), .events = POLLIN, .revents = 0};
  if (::poll(&ready, 1, 60'000) != 1) std::exit(3);
  ::fcntl(bound->socket.get(), F_SETFL, 0);
  connection = ::accept4(bound->socket.get(), nullptr, nullptr, SOCK_CLOEXEC);
  std::exit(0);
}

TEST(HttpDeathTest, ExitBreaksOffWhatNobodyWaitsFor) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  bool ended_well = false;
  bool broken_off = false;
  const auto note_end = [&](int status) {
    ended_well = ::testing::ExitedWithCode(0)(status);
    return true;
  };
  const auto note_words = [&](const std::string& said) {
    broken_off = ended_well && said.contains("closed");
    return true;
  };
  // exit() does not wait long for the request, and a busy machine may miss that deadline.
  for (int attempt = 0; attempt < 3 && !broken_off; ++attempt) {
    EXPECT_EXIT(exit_during_a_request(true), note_end, ::testing::Truly(note_words));
  }
  EXPECT_TRUE(broken_off);
}

TEST(HttpDeathTest, ExitLeavesWhatSomebodyWaitsFor) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_during_a_request(false), ::testing::ExitedWithCode(0), "open");
}

}  // namespace
}  // namespace skyward::io

#include "skyward/engine/link_attempt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>

#include "skyward/io/no_files_fixture.h"
#include "skyward/io/own_process.h"
#include "skyward/io/tracer_fixture.h"
#include "skyward/spec/limits.h"

namespace skyward::engine {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST(AttemptTest, ACommandThatCannotBeEndedIsLeftBehind) {
  io::EventLoop loop;
  const std::string file = testing::TempDir() + "attempt-" + std::to_string(io::process_id());
  provider::Connection connection;
  connection.command = {"sh", "-c", "echo $$ >\"$0\"; mv \"$0\" \"$0.there\"; exec sleep 1000",
                        file};
  bool gone = false;
  LinkAttempt attempt(loop, connection, true, {},
                      {.on_reached = [] {},
                       .on_open = [] {},
                       .on_frame = [](io::Incoming) {},
                       .on_idle = [] {},
                       .on_end = [](const LinkAttempt::End&) { FAIL() << "it was stopped"; },
                       .on_gone =
                           [&] {
                             gone = true;
                             loop.stop();
                           }});
  std::optional<io::Tracer> tracer;
  Time stopped{};
  const std::function<void()> stop_when_started = [&] {
    pid_t child = 0;
    if (!(std::ifstream(file + ".there") >> child)) {
      loop.start_timer(io::EventLoop::now() + 10ms, stop_when_started);
      return;
    }
    tracer.emplace(child);
    stopped = io::EventLoop::now();
    attempt.stop(0s);
    loop.start_timer(stopped + 60s, [&] {
      ADD_FAILURE() << "it is not left behind";
      loop.stop();
    });
  };
  stop_when_started();
  loop.run();
  std::filesystem::remove(file + ".there");
  EXPECT_TRUE(gone);
  if (!tracer->holds()) GTEST_SKIP() << "this system allows no tracing";
  EXPECT_GE(io::EventLoop::now() - stopped, kKillTimeout);
}

TEST(AttemptTest, ALackOfFilesPassesAndAMissingProgramDoesNot) {
  io::EventLoop first;
  io::EventLoop second;  // made while there are files
  provider::Connection connection;
  connection.command = {"/no/such/program"};
  const auto how_it_ends = [&](io::EventLoop& loop) {
    std::optional<ConnectionEnd> end;
    LinkAttempt attempt(loop, connection, true, {},
                        {.on_reached = [] {},
                         .on_open = [] {},
                         .on_frame = [](io::Incoming) {},
                         .on_idle = [] {},
                         .on_end = [&](const LinkAttempt::End& ended) { end = ended; },
                         .on_gone = [&] { loop.stop(); }});
    loop.run();
    return end;
  };
  const auto missing = how_it_ends(first);
  ASSERT_TRUE(missing);
  EXPECT_TRUE(missing->means.permanent) << missing->error.message;

  std::optional<ConnectionEnd> short_of_files;
  {
    const io::NoFiles no_files;
    short_of_files = how_it_ends(second);
  }
  ASSERT_TRUE(short_of_files);
  EXPECT_FALSE(short_of_files->means.permanent) << short_of_files->error.message;
  EXPECT_EQ(short_of_files->error.kind, ErrorKind::exhausted);
}

TEST(AttemptTest, ALoginShellThatRefusesIsPermanent) {
  io::EventLoop loop;
  provider::Connection connection;
  connection.command = {"sh", "-c", "echo 'This account is currently not available.'; exit 1"};
  connection.permanent_errors = {"account is currently not available"};
  std::optional<LinkAttempt::End> end;
  LinkAttempt attempt(loop, connection, false, {.line = "true", .agents = {}, .files = {}},
                      {.on_reached = [] {},
                       .on_open = [] {},
                       .on_frame = [](io::Incoming) {},
                       .on_idle = [] {},
                       .on_end = [&](LinkAttempt::End told) { end = std::move(told); },
                       .on_gone = [&] { loop.stop(); }});
  loop.run();
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->means.permanent) << end->error.message;
  EXPECT_EQ(end->error.kind, ErrorKind::denied);
}

// The end of a command that says this.
ConnectionEnd end_of_one_that_says(const std::string& words) {
  io::EventLoop loop;
  provider::Connection connection;
  connection.command = {"sh", "-c", "printf '%s\\n' \"$0\" >&2; exit 255", words};
  connection.hopeless_errors = {"Connection refused"};
  ConnectionEnd end;
  LinkAttempt attempt(loop, connection, true, {},
                      {.on_reached = [] {},
                       .on_open = [] {},
                       .on_frame = [](io::Incoming) {},
                       .on_idle = [] {},
                       .on_end = [&](const LinkAttempt::End& told) { end = told; },
                       .on_gone = [&] { loop.stop(); }});
  loop.run();
  return end;
}
LinkPolicy::End meaning_of(const std::string& words) { return end_of_one_that_says(words).means; }

TEST(AttemptTest, QuotesNothingThatIsNotUtf8) {
  EXPECT_THAT(end_of_one_that_says("gr\xFC\xDF").error.message,
              HasSubstr("; it wrote: gr\xEF\xBF\xBD\xEF\xBF\xBD"));
  std::string long_words;  // of which the end is quoted, from the middle of a letter on
  for (int i = 0; i < 3000; ++i) long_words += "\xC3\xA9";
  EXPECT_THAT(end_of_one_that_says(long_words).error.message,
              HasSubstr("; it wrote: \xEF\xBF\xBD\xC3\xA9"));
}

TEST(AttemptTest, SaysWhetherTheMachineRefused) {
  const LinkPolicy::End refused =
      meaning_of("ssh: connect to host 192.0.2.7 port 22: Connection refused");
  EXPECT_TRUE(refused.refused);
  EXPECT_TRUE(refused.hopeless);
  const LinkPolicy::End silent = meaning_of(
      "Control socket connect(/run/me/m-1): Connection refused\n"
      "ssh: connect to host 192.0.2.7 port 22: Connection timed out");
  EXPECT_FALSE(silent.refused) << "the socket of a master connection that has died";
  EXPECT_FALSE(silent.hopeless);
}

TEST(AttemptTest, SaysWhetherThisComputerHasANetwork) {
  const auto is_offline = [](const std::string& words) { return meaning_of(words).offline; };
  const std::string ssh = "ssh: connect to host 192.0.2.7 port 22: ";
  EXPECT_TRUE(is_offline(ssh + "Network is unreachable"));
  EXPECT_TRUE(
      is_offline("ssh: Could not resolve hostname lab-3: Temporary failure in name "
                 "resolution"));
  EXPECT_TRUE(
      is_offline("Unable to connect to the server: dial tcp 192.0.2.7:443: connect: network "
                 "is unreachable"));
  EXPECT_FALSE(is_offline(ssh + "Connection timed out"));
  EXPECT_FALSE(is_offline(ssh + "Connection refused"));
  EXPECT_FALSE(is_offline(ssh + "No route to host"))
      << "its neighbours say so of a host that is off";
  EXPECT_FALSE(is_offline("ssh: Could not resolve hostname lab-3: Name or service not known"));
  EXPECT_FALSE(is_offline("channel 0: open failed: connect failed: Network is unreachable"))
      << "a jump host's network";
  EXPECT_FALSE(
      is_offline("Error from server: error dialing backend: dial tcp 192.0.2.7:10250: "
                 "connect: network is unreachable"));
}

}  // namespace
}  // namespace skyward::engine

#include "skyward/engine/link_attempt.h"

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
    loop.start_timer(stopped + kKillTimeout + 5s, [&] { loop.stop(); });
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

}  // namespace
}  // namespace skyward::engine

#include "skyward/io/start_thread.h"

#include <gtest/gtest.h>

#include <optional>
#include <system_error>
#include <vector>

#include "skyward/io/event_loop.h"
#include "skyward/io/no_threads_fixture.h"
#include "skyward/io/shared_memory.h"

namespace skyward::io {
namespace {

bool is_blocked(int signal) {
  sigset_t blocked;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return ::sigismember(&blocked, signal) == 1;
}

TEST(StartThread, OursHaveNoSignalsButThoseOfTheirOwnBugs) {
  bool interrupts = true;
  bool faults = false;
  start_thread([&] {
    interrupts = !is_blocked(SIGINT) || !is_blocked(SIGCHLD);
    faults = !is_blocked(SIGSEGV) && !is_blocked(SIGBUS) && !is_blocked(SIGFPE);
  }).join();
  EXPECT_FALSE(interrupts);
  EXPECT_TRUE(faults);
  EXPECT_FALSE(is_blocked(SIGINT));
}

TEST(StartThread, AFailureLeavesTheSignalsAsTheyWere) {
  const NoThreads none;
  EXPECT_THROW(start_thread([] {}), std::system_error);
  EXPECT_FALSE(is_blocked(SIGINT));
}

TEST(StartThread, WithoutThreadsTheLoopDoesBlockingWorkItself) {
  EventLoop loop;
  bool worked = false;
  loop.post([&] {
    const NoThreads none;
    loop.run_blocking([&] { worked = true; }, [&] { loop.stop(); });
  });
  loop.run();
  EXPECT_TRUE(worked);
  EXPECT_FALSE(is_blocked(SIGINT));
}

TEST(StartThread, WithoutThreadsOneCopiesAll) {
  Bytes from(std::size_t{9} << 20 | 17);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 >> 3);
  for (const bool can_start : {true, false}) {
    std::optional<NoThreads> none;
    if (!can_start) none.emplace();
    Bytes to(from.size());
    copy_bytes(to.data(), from, 4);
    EXPECT_TRUE(to == from);
    EXPECT_FALSE(is_blocked(SIGINT));
  }
}

}  // namespace
}  // namespace skyward::io

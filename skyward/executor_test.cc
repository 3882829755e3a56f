// Executors from end to end: this program, its workers and real agents on this machine.

#include "skyward/pool/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <exception>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "skyward/skyward.h"

namespace skyward {
namespace {

using namespace std::chrono_literals;

int double_there(int number) { return 2 * number; }
bool wait_until_cancelled_there() {
  while (!cancelled()) std::this_thread::yield();
  return true;
}
struct Unwritable {
  template <typename Archive>
  void save(Archive&) const {
    throw std::runtime_error("no");
  }
  template <typename Archive>
  void load(Archive&) {}
};
void take_it_there(Unwritable) {}
constexpr auto doubled = compute<double_there>;
constexpr auto blocks = compute<wait_until_cancelled_there>;
constexpr auto take_it = compute<take_it_there>;

PoolOptions silent(int nodes) { return {.nodes = nodes, .display = Display::quiet}; }

TEST(Executor, ManyThreadsShareItsLimit) {
  constexpr int kThreads = 8;
  constexpr int kCalls = 100;
  constexpr int kLimit = 16;
  ComputePool pool(silent(2));
  Executor executor(pool, kLimit);
  std::atomic<int> most = 0;
  std::vector<std::future<int>> sums;
  for (int thread = 0; thread < kThreads; ++thread) {
    sums.push_back(std::async(std::launch::async, [&executor, &most, thread] {
      std::vector<Future<int>> futures;
      for (int i = 0; i < kCalls; ++i) {
        futures.push_back(executor.submit(doubled(thread)));
        int before = most;
        const int now = executor.in_flight();
        while (now > before && !most.compare_exchange_weak(before, now)) {
        }
      }
      int sum = 0;
      for (Future<int>& future : futures) sum += future.get();
      return sum;
    }));
  }
  for (int thread = 0; thread < kThreads; ++thread) {
    EXPECT_EQ(sums[static_cast<std::size_t>(thread)].get(), 2 * thread * kCalls);
  }
  EXPECT_TRUE(executor.wait());
  EXPECT_EQ(executor.in_flight(), 0);
  EXPECT_LE(most, kLimit);
}

TEST(Executor, ACallTooManyWaitsForAnotherToFinish) {
  ComputePool pool(silent(1));
  Executor executor(pool, 2);
  Future<bool> first = executor.submit(blocks());
  Future<bool> second = executor.submit(blocks());
  std::future<int> third =
      std::async(std::launch::async, [&executor] { return executor.submit(doubled(4)).get(); });
  EXPECT_EQ(third.wait_for(20ms), std::future_status::timeout);
  EXPECT_FALSE(executor.wait(1ms));
  EXPECT_EQ(executor.in_flight(), 2);
  first.cancel();
  second.cancel();
  EXPECT_EQ(third.get(), 8);
}

TEST(Executor, ItsEndWaitsForItsCalls) {
  ComputePool pool(silent(1));
  std::vector<Future<int>> futures;
  {
    Executor executor(pool);
    for (int i = 0; i < 20; ++i) futures.push_back(executor.submit(doubled(i)));
  }
  EXPECT_TRUE(std::ranges::all_of(futures, [](const auto& future) { return future.done(); }));
}

TEST(Executor, ItsEndWaitsForTheCallbacksOfItsCalls) {
  ComputePool pool(silent(1));
  for (int round = 0; round < 100; ++round) {
    bool called = false;
    {
      Executor executor(pool);
      executor.submit(doubled(round)).on_done([&called] {
        // The end of the block has time to come first.
        for (int i = 0; i < 1000; ++i) std::this_thread::yield();
        called = true;
      });
    }
    ASSERT_TRUE(called) << "round " << round;
  }
}

TEST(Executor, AnExceptionLeavesItAtOnce) {
  ComputePool pool(silent(1));
  try {
    Executor executor(pool);
    (void)executor.submit(blocks());  // it would wait for ever
    throw std::runtime_error("away");
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "away");
  }
}

TEST(Executor, ACallThatCannotBeSentTakesNoPlace) {
  ComputePool pool(silent(1));
  Executor executor(pool, 1);
  EXPECT_THROW((void)executor.submit(take_it({})), std::exception);
  EXPECT_EQ(executor.in_flight(), 0);
  EXPECT_EQ(executor.submit(doubled(1)).get(), 2);
}

TEST(Executor, AClosingPoolEndsTheWaitForAPlace) {
  ComputePool pool(silent(1));
  Executor executor(pool, 1);
  Future<bool> running = executor.submit(blocks());
  std::future<void> blocked =
      std::async(std::launch::async, [&executor] { (void)executor.submit(doubled(1)); });
  EXPECT_EQ(blocked.wait_for(20ms), std::future_status::timeout);
  pool.close();
  EXPECT_THROW(blocked.get(), NotProvisionedError);
  EXPECT_THROW(running.get(), CancelledError);
}

struct Loose {
  struct promise_type {
    Loose get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

TEST(Executor, ItsFuturesHaveCallbacksAndCanBeAwaited) {
  ComputePool pool(silent(1));
  Executor executor(pool, 1);
  std::promise<void> told;
  Future<int> future = executor.submit(doubled(2));
  future.on_done([&told] { told.set_value(); });
  told.get_future().get();
  EXPECT_EQ(future.get(), 4);
  std::promise<int> sum;
  const auto add_up = [&]() -> Loose {
    const int one = co_await executor.submit(doubled(1));
    sum.set_value(one + co_await executor.submit(doubled(2)));
  };
  add_up();
  EXPECT_EQ(sum.get_future().get(), 6);
}

TEST(Executor, ALimitIsPositive) {
  ComputePool pool(silent(1));
  EXPECT_THROW(Executor(pool, 0), ConfigurationError);
}

}  // namespace
}  // namespace skyward

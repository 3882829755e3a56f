// C++ pools from end to end: this program, its workers (the same program) and real agents on this
// machine.

#include "skyward/pool/compute_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <errno.h>  // program_invocation_short_name
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <future>
#include <latch>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "skyward/io/no_threads_fixture.h"
#include "skyward/pool/executable.h"
#include "skyward/skyward.h"

namespace skyward {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

int add_there(int a, int b) { return a + b; }
std::string shout_there(const std::string& text) { return text + "!"; }
void nothing_there() {}
std::pair<int, int> place_there() {
  const InstanceInfo& info = instance_info();
  return {info.global_worker_index(), info.total_workers()};
}
int throw_there(const std::string& text) {
  std::puts("about to fail");
  throw std::invalid_argument(text);
}
struct BadRow : std::runtime_error {
  using std::runtime_error::runtime_error;
  int row = 0;
  std::vector<double> values;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(row, values);
  }
};
const ThrownType<BadRow> bad_row;

struct OnlyText : std::logic_error {
  using std::logic_error::logic_error;
};
const ThrownType<OnlyText> only_text;

int throw_row_there(int row, std::size_t values) {
  BadRow error("row " + std::to_string(row) + " is bad");
  error.row = row;
  error.values.assign(values, 0.5);
  throw error;
}
int throw_text_there(const std::string& text) { throw OnlyText(text); }
int fail_if_odd_there(int number) {
  if (number % 2 != 0) throw std::out_of_range(std::to_string(number));
  return number;
}
void yield_there(Sink<int>& out, int to) {
  std::puts("counting");
  for (int i = 0; i < to; ++i) out.put(i);
}
void yield_and_fail_there(Sink<std::string>& out, int to) {
  for (int i = 0; i < to; ++i) out.put(std::to_string(i));
  throw std::out_of_range("no more");
}
void arrays_there(Sink<std::vector<double>>& out, int count, std::size_t size) {
  for (int i = 0; i < count; ++i) out.put(std::vector<double>(size, i));
}
int print_there(const std::string& text) {
  std::puts(text.c_str());
  std::fprintf(stderr, "%s, on stderr\n", text.c_str());
  return 0;
}
bool wait_there() {
  while (!cancelled()) std::this_thread::yield();
  return true;
}
int abort_there() { std::abort(); }
std::vector<double> reverse_there(std::span<const double> values) {
  return {values.rbegin(), values.rend()};
}
std::string variable_there(const std::string& name) {
  const char* value = std::getenv(name.c_str());  // the point of the test
  return value == nullptr ? "" : value;
}
std::vector<int> my_part_there(const std::vector<int>& all) { return shard(all); }

std::string thread_name_there() {
  std::string name;
  std::getline(std::ifstream("/proc/thread-self/comm"), name);
  return name;
}
constexpr auto add = compute<add_there>;
constexpr auto thread_name = compute<thread_name_there>;
constexpr auto shout = compute<shout_there>;
constexpr auto nothing = compute<nothing_there>;
constexpr auto place = compute<place_there>;
constexpr auto fails = compute<throw_there>;
constexpr auto yields = compute<yield_there>;
constexpr auto yields_and_fails = compute<yield_and_fail_there>;
constexpr auto arrays = compute<arrays_there>;
constexpr auto fails_at = compute<throw_row_there>;
constexpr auto fails_with = compute<throw_text_there>;
constexpr auto fails_if_odd = compute<fail_if_odd_there>;
constexpr auto prints = compute<print_there>;
constexpr auto waits = compute<wait_there>;
constexpr auto aborts = compute<abort_there>;
constexpr auto reverse = compute<reverse_there>;
constexpr auto variable = compute<variable_there>;
constexpr auto my_part = compute<my_part_there>;

PoolOptions quiet(int nodes, int concurrency = 1) {
  return {.nodes = nodes, .concurrency = concurrency, .display = Display::quiet};
}

TEST(ComputePool, CallsBatchesAndBroadcasts) {
  ComputePool pool(quiet(3));
  EXPECT_TRUE(pool.is_active());
  EXPECT_EQ(pool.instance_count(), 3);
  EXPECT_EQ(add(40, 2) >> pool, 42);
  nothing() >> pool;
  EXPECT_EQ((add(1, 2) & shout("three") & nothing()) >> pool,
            std::tuple(3, std::string("three!"), std::monostate{}));
  std::vector<Pending<int>> calls;
  std::vector<int> expected;
  for (int i = 0; i < 200; ++i) {
    calls.push_back(add(i, 1));
    expected.push_back(i + 1);
  }
  EXPECT_EQ(gather(calls) >> pool, expected);
  EXPECT_THAT(gather(std::vector<Pending<int>>{}) >> pool, IsEmpty());
  EXPECT_THAT(broadcast(place(), pool),
              ElementsAre(std::pair(0, 3), std::pair(1, 3), std::pair(2, 3)));
  EXPECT_EQ(place().on_node(2) >> pool, std::pair(2, 3));
  EXPECT_THAT(pool.broadcast(my_part({0, 1, 2, 3})),
              ElementsAre(ElementsAre(0, 3), ElementsAre(1), ElementsAre(2)));
  EXPECT_EQ(pool.broadcast(nothing()).size(), 3U);
}

TEST(ComputePool, ExceptionsOfThrownTypesArriveAsThemselves) {
  ComputePool pool(quiet(1));
  for (const std::size_t values : {std::size_t{3}, std::size_t{100'000}}) {  // the latter in a blob
    try {
      fails_at(7, values) >> pool;
      FAIL() << "nothing was thrown";
    } catch (const BadRow& error) {
      EXPECT_STREQ(error.what(), "row 7 is bad");
      EXPECT_EQ(error.row, 7);
      EXPECT_EQ(error.values, std::vector<double>(values, 0.5));
      try {
        std::rethrow_if_nested(error);
        FAIL() << "it does not say where it was thrown";
      } catch (const RemoteError& where) {
        EXPECT_EQ(where.node(), 0);
        EXPECT_THAT(where.type(), HasSubstr("BadRow"));
      }
    }
  }
  EXPECT_THROW(fails_with("oh") >> pool, OnlyText);
  EXPECT_THROW(fails("not registered") >> pool, RemoteError);
}

TEST(ComputePool, FailuresMayStandAmongTheResults) {
  ComputePool pool(quiet(2));
  std::vector<Pending<int>> calls;
  for (int i = 0; i < 10; ++i) calls.push_back(fails_if_odd(i));
  const std::vector<Attempt<int>> attempts = gather(calls).return_exceptions() >> pool;
  ASSERT_EQ(attempts.size(), 10U);
  for (int i = 0; i < 10; ++i) {
    const Attempt<int>& attempt = attempts[static_cast<std::size_t>(i)];
    ASSERT_EQ(attempt.has_value(), i % 2 == 0) << i;
    if (attempt) {
      EXPECT_EQ(*attempt, i);
    } else {
      EXPECT_THROW(std::rethrow_exception(attempt.error()), RemoteError);
    }
  }
}

TEST(ComputePool, FunctionsWithASinkAreStreams) {
  ComputePool pool(quiet(1));
  int expected = 0;
  for (const int number : yields(1000) >> pool) EXPECT_EQ(number, expected++);
  EXPECT_EQ(expected, 1000);
  for (const int number : yields(0) >> pool) ADD_FAILURE() << number;

  std::vector<std::string> texts;
  try {
    for (std::string& text : yields_and_fails(20) >> pool) texts.push_back(std::move(text));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const RemoteError& error) {
    EXPECT_EQ(error.message(), "no more");
  }
  EXPECT_EQ(texts.size(), 20U);

  constexpr std::size_t kLarge = 100'000;  // in a blob
  double sum = 0;
  for (const auto& array : arrays(5, kLarge) >> pool) {
    sum += std::accumulate(array.begin(), array.end(), 0.0);
  }
  EXPECT_EQ(sum, 10.0 * kLarge);

  std::vector<int> here;
  Sink<int> sink([&](const int& number) { here.push_back(number); });
  yields.local(sink, 3);
  EXPECT_THAT(here, ElementsAre(0, 1, 2));
}

TEST(ComputePool, AStreamThatIsDroppedStopsItsFunction) {
  ComputePool pool(quiet(1));
  {
    Stream<int> endless = yields(std::numeric_limits<int>::max()) >> pool;
    EXPECT_EQ(endless.next(), 0);
    EXPECT_EQ(endless.next(), 1);
  }
  EXPECT_EQ(add(1, 2) >> pool, 3);  // on the same worker
}

TEST(ComputePool, CallsBehindAStreamWaitForIt) {
  ComputePool pool(quiet(1));
  Stream<int> stream = yields(100) >> pool;
  Future<int> behind = submit(add(1, 2), pool);
  int expected = 0;
  while (const auto number = stream.next()) EXPECT_EQ(*number, expected++);
  EXPECT_EQ(expected, 100);
  EXPECT_EQ(behind.get(), 3);
}

// The least that a coroutine needs.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

TEST(ComputePool, CoroutinesAwaitFutures) {
  ComputePool pool(quiet(2));
  constexpr int kCoroutines = 50;
  std::latch done(kCoroutines + 1);
  std::mutex mutex;
  std::vector<int> sums;
  const auto twice = [&](int number) -> Detached {
    const int once = co_await pool.submit(add(number, number));
    const int sum = co_await pool.submit(add(once, once));
    {
      const std::scoped_lock lock(mutex);
      sums.push_back(sum);
    }
    done.count_down();
  };
  std::string failure;
  const auto failing = [&]() -> Detached {
    try {
      co_await pool.submit(fails("in a coroutine"));
    } catch (const RemoteError& error) {
      failure = error.message();
    }
    co_await pool.submit(nothing());
    done.count_down();
  };
  for (int i = 0; i < kCoroutines; ++i) twice(i);
  failing();
  done.wait();
  std::ranges::sort(sums);
  ASSERT_EQ(sums.size(), static_cast<std::size_t>(kCoroutines));
  for (int i = 0; i < kCoroutines; ++i) EXPECT_EQ(sums[static_cast<std::size_t>(i)], 4 * i);
  EXPECT_EQ(failure, "in a coroutine");
}

TEST(ComputePool, LargeArraysComeBackWhole) {
  ComputePool pool(quiet(2));
  std::vector<double> values(std::size_t{2} << 20);
  std::iota(values.begin(), values.end(), 0.0);
  const std::vector<double> expected(values.rbegin(), values.rend());
  for (const auto& reversed : broadcast(reverse(values), pool)) EXPECT_EQ(reversed, expected);
}

TEST(ComputePool, RemoteExceptionsKeepTypeTextAndOutput) {
  ComputePool pool(quiet(1));
  try {
    fails("learning rate must be positive") >> pool;
    FAIL() << "nothing was thrown";
  } catch (const RemoteError& error) {
    EXPECT_EQ(error.type(), "std::invalid_argument");
    EXPECT_EQ(error.message(), "learning rate must be positive");
    EXPECT_EQ(error.node(), 0);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("throw_there"), HasSubstr("about to fail")));
  }
  EXPECT_THROW((add(1, 1) & fails("second")) >> pool, ExecutionError);
  EXPECT_EQ(add(1, 1) >> pool, 2);
}

TEST(ComputePool, FirstFailureInOrderIsThrown) {
  ComputePool pool(quiet(2));
  try {
    gather(std::vector{fails("first"), fails("second")}) >> pool;
    FAIL() << "nothing was thrown";
  } catch (const RemoteError& error) {
    EXPECT_EQ(error.message(), "first");
  }
}

TEST(ComputePool, FuturesWaitAndCancel) {
  ComputePool pool(quiet(1));
  Future<bool> future = submit(waits(), pool);
  EXPECT_FALSE(future.wait(1ms));
  EXPECT_FALSE(future.done());
  future.cancel();
  EXPECT_THROW(future.get(), CancelledError);
  EXPECT_THROW(waits().with_timeout(50ms) >> pool, TimeoutError);
  EXPECT_EQ(pool.submit(add(1, 1)).get(), 2);
}

TEST(ComputePool, AResultIsGivenOnce) {
  ComputePool pool(quiet(1));
  Future<int> sum = submit(add(1, 2), pool);
  EXPECT_TRUE(sum.wait(kForever));
  EXPECT_EQ(sum.get(), 3);
  const auto taken = [](const std::function<void()>& again) {
    try {
      again();
    } catch (const SkywardError& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_THAT(taken([&] { sum.get(); }), HasSubstr("was already taken"));
  Future<void> done = submit(nothing(), pool);
  done.get();
  EXPECT_THAT(taken([&] { done.get(); }), HasSubstr("was already taken"));
  Future<bool> running = submit(waits(), pool);
  const Future<bool> moved = std::move(running);
  // NOLINTNEXTLINE(bugprone-use-after-move): that it tells so is the point.
  EXPECT_THAT(taken([&] { running.get(); }), HasSubstr("was moved from"));
  EXPECT_THAT(taken([] { Handle().take(); }), HasSubstr("refers to no task"));
  EXPECT_FALSE(moved.done());
}

TEST(ComputePool, AStreamTellsItsEndFromALongPause) {
  ComputePool pool(quiet(1));
  Handle handle = pool.untyped().submit(waits().to_call({}));
  wire::Payload item;
  EXPECT_EQ(handle.next(item, 1ms), NextItem::time_over);
  handle.cancel();
  EXPECT_EQ(handle.next(item, kForever), NextItem::ended);
  EXPECT_THROW(throw_error(handle.take().error), CancelledError);
}

TEST(ComputePool, PlacesThatAreNotThereAreRefused) {
  ComputePool pool(quiet(2));
  const auto refusal = [&](std::uint32_t node) {
    try {
      place().on_node(node) >> pool;
    } catch (const ConfigurationError& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_THAT(refusal(2), HasSubstr("is called on node 2, but there are 2; they count from 0"));
  EXPECT_THAT(refusal(static_cast<std::uint32_t>(-1)), HasSubstr("node -1"));
  Call call = place().to_call({});
  call.options.node = NodeId{0};
  call.options.worker = 1;
  EXPECT_THROW(pool.untyped().submit(call), ConfigurationError);
  EXPECT_THROW(pool.untyped().submit(Call{}), ConfigurationError);
  EXPECT_EQ(place().on_node(1) >> pool, std::pair(1, 2));
}

TEST(ComputePool, AForkedChildLeavesItAlone) {
  auto pool = std::make_unique<ComputePool>(quiet(1));
  const pid_t child = fork();
  if (child == 0) {
    bool refused = false;
    try {
      add(1, 1) >> *pool;
    } catch (const NotProvisionedError&) {
      refused = true;
    }
    const bool open = pool->is_active();
    pool.reset();  // returns
    _exit(refused && !open ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(add(1, 1) >> *pool, 2);
}

// Calls `ask` in a forked child, which must be refused with NotProvisionedError at once.
template <typename Ask>
bool is_refused_in_a_child(Ask ask) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    try {
      ask();
    } catch (const NotProvisionedError&) {
      _exit(0);
    } catch (...) {
      _exit(2);
    }
    _exit(1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status == 0;
}

TEST(ComputePool, AForkedChildCannotWaitForItsParentsCalls) {
  ComputePool pool(quiet(1));
  Handle handle = pool.untyped().submit(waits().to_call({}));
  wire::Payload item;
  EXPECT_TRUE(is_refused_in_a_child([&] { handle.wait(kForever); }));
  EXPECT_TRUE(is_refused_in_a_child([&] { handle.done(); }));
  EXPECT_TRUE(is_refused_in_a_child([&] { handle.take(); }));
  EXPECT_TRUE(is_refused_in_a_child([&] { handle.cancel(); }));
  EXPECT_TRUE(is_refused_in_a_child([&] { handle.next(item, kForever); }));
  EXPECT_TRUE(is_refused_in_a_child([&] { handle.on_done([] {}); }));
  std::optional<Executor> executor(std::in_place, pool);
  Future<bool> future = executor->submit(waits());
  EXPECT_TRUE(is_refused_in_a_child([&] { executor->wait(); }));
  EXPECT_TRUE(is_refused_in_a_child([&] { (void)executor->submit(waits()); }));
  Stream<int> stream = yields(1) >> pool;
  EXPECT_TRUE(is_refused_in_a_child([&] {
    executor.reset();  // neither waits nor throws
    {
      const Stream<int> dropped = std::move(stream);
    }
    handle.done();
  }));
  future.cancel();
  Pool& untyped = pool.untyped();
  EXPECT_TRUE(is_refused_in_a_child([&] { untyped.store({}); }));
  EXPECT_TRUE(is_refused_in_a_child([&] { untyped.open(); }));
  EXPECT_TRUE(is_refused_in_a_child([&] { untyped.spec(); }));
  EXPECT_TRUE(is_refused_in_a_child([&] { untyped.job_id(); }));
  EXPECT_TRUE(is_refused_in_a_child([&] { untyped.chosen_provider(); }));
  EXPECT_FALSE(handle.done());
  handle.cancel();
  EXPECT_TRUE(handle.wait(kForever));
}

TEST(ComputePool, CallbacksMayCancelWhileAnotherThreadCloses) {
  for (int round = 0; round < 20; ++round) {
    ComputePool pool(quiet(1));
    std::vector<Handle> handles =
        pool.untyped().submit(std::vector<Call>(50, nothing().to_call({})));
    for (Handle& handle : handles) {
      handle.on_done([&handles] {
        for (Handle& other : handles) other.cancel();
      });
    }
    handles.front().wait(10s);
    pool.close();
  }
}

TEST(ComputePool, ACallbackOfAFutureMayThrow) {
  ComputePool pool(quiet(1));
  testing::internal::CaptureStderr();
  for (int call = 0; call < 2; ++call) {
    submit(nothing(), pool).on_done([] { throw std::runtime_error("no such row"); });
  }
  EXPECT_EQ(add(1, 1) >> pool, 2);
  pool.close();  // waits for the callbacks
  const std::string printed = testing::internal::GetCapturedStderr();
  const std::string line = "skyward: a callback of a future threw an exception: no such row\n";
  EXPECT_EQ(printed, line + line);
}

TEST(ComputePool, ACallbackOfAFutureMayCloseIt) {
  for (const bool one_of_several : {false, true}) {
    std::optional<ComputePool> pool;
    std::optional<MultiPool> pools;
    if (one_of_several) {
      pools.emplace(std::vector{quiet(1), quiet(1)});
    } else {
      pool.emplace(quiet(1));
    }
    std::promise<void> closed;
    ComputePool& used = one_of_several ? (*pools)[0] : *pool;
    submit(nothing(), used).on_done([&] {
      pool.reset();
      pools.reset();
      closed.set_value();
    });
    closed.get_future().wait();
  }
}

TEST(ComputePool, ACallbackMayCloseAPoolWhoseEventsCloseAnother) {
  ComputePool other(quiet(1));
  std::atomic<bool> closes{false};
  PoolOptions options = quiet(1);
  options.on_event = [&](const Event&) {
    if (closes) other.close();
  };
  ComputePool pool(options);
  std::promise<void> closed;
  submit(nothing(), pool).on_done([&] {
    closes = true;
    pool.close();
    closed.set_value();
  });
  closed.get_future().wait();
  EXPECT_FALSE(other.is_active());
}

TEST(ComputePool, WorkersAreThisVeryProgramUnderItsName) {
  EXPECT_EQ(*this_executable(), "/proc/" + std::to_string(getpid()) + "/exe");
  ComputePool pool(quiet(1));
  EXPECT_EQ(thread_name() >> pool, program_invocation_short_name);
}

TEST(ComputePool, SeveralThreadsMayCloseIt) {
  for (int round = 0; round < 20; ++round) {
    ComputePool pool(quiet(1));
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&pool] { pool.close(); });
  }
}

TEST(ComputePool, ItsOwnThreadCannotCloseIt) {
  ComputePool pool(quiet(1));
  std::promise<std::string> told;
  Handle handle = pool.untyped().submit(waits().to_call({}));  // has not ended by then
  handle.on_done([&] {
    try {
      pool.untyped().close();
      told.set_value("closed");
    } catch (const SkywardError& error) {
      told.set_value(error.what());
    }
  });
  handle.cancel();
  EXPECT_THAT(told.get_future().get(), HasSubstr("called from Handle::on_done()"));
  EXPECT_TRUE(pool.is_active());
}

TEST(ComputePool, CrashHitsOneTaskOnly) {
  ComputePool pool(quiet(1));
  EXPECT_THROW(aborts() >> pool, ExecutionError);
  EXPECT_EQ(add(1, 1) >> pool, 2);
}

TEST(ComputePool, EventsArriveInOrderAndLinesCarryTheirNode) {
  std::mutex mutex;
  std::vector<std::string> names;
  std::vector<std::string> lines;
  PoolOptions options = quiet(2);
  options.on_event = [&](const Event& event) {
    const std::lock_guard lock(mutex);
    names.emplace_back(event_name(event));
    match(event, [&](const LogLine& line) {
      lines.push_back(std::to_string(line.node) + " " + line.stream + " " + line.line);
    });
  };
  {
    ComputePool pool(options);
    prints("hello").on_node(1) >> pool;
  }
  EXPECT_THAT(lines, Contains("1 stdout hello"));
  EXPECT_THAT(lines, Contains("1 stderr hello, on stderr"));
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(names.back(), "PoolStopped");
  const auto started = std::ranges::find(names, "PoolStarted");
  EXPECT_LT(started, std::ranges::find(names, "LogLine"));
  EXPECT_LT(started, std::ranges::find(names, "PoolStopping"));
}

// On a busy machine, on_event may get a few of the lines too late.
TEST(ComputePool, OnEventGetsTheLinesOfATaskBeforeItsResult) {
  constexpr int kCalls = 50;
  std::atomic<int> lines = 0;
  PoolOptions options = quiet(1);
  options.on_event = [&lines](const Event& event) {
    match(event, [&lines](const LogLine& line) {
      if (line.stream != "stdout") return;
      std::promise<void>().get_future().wait_for(1ms);  // it takes its time
      ++lines;
    });
  };
  ComputePool pool(options);
  int in_time = 0;
  for (int i = 0; i < kCalls; ++i) {
    const int before = lines;
    EXPECT_EQ(prints("one line") >> pool, 0);
    if (lines > before) ++in_time;
  }
  EXPECT_GT(in_time, kCalls / 2);
}

TEST(ComputePool, WhatOnEventThrowsDoesNotHurt) {
  PoolOptions options = quiet(1);
  options.on_event = [](const Event&) { throw std::runtime_error("no"); };
  ComputePool pool(options);
  EXPECT_EQ(add(1, 1) >> pool, 2);
}

TEST(ComputePool, OnEventMayCloseIt) {
  std::promise<void> closed;
  ComputePool* pool = nullptr;
  PoolOptions options = quiet(1);
  options.on_event = [&](const Event& event) {
    match(event, [&](const LogLine& line) {
      if (line.stream != "stdout") return;
      pool->close();
      closed.set_value();
    });
  };
  ComputePool opened(options);
  pool = &opened;
  const Future<int> printing = submit(prints("now"), opened);
  closed.get_future().get();
  EXPECT_FALSE(opened.is_active());
  EXPECT_TRUE(printing.done());
  opened.close();
}

TEST(ComputePool, OnEventMayDestroyIt) {
  std::promise<void> destroyed;
  std::unique_ptr<ComputePool> pool;
  PoolOptions options = quiet(1);
  options.on_event = [&](const Event& event) {
    match(event, [&](const LogLine& line) {
      if (line.stream != "stdout") return;
      pool.reset();
      destroyed.set_value();
    });
  };
  pool = std::make_unique<ComputePool>(options);
  const Future<int> printing = submit(prints("now"), *pool);
  destroyed.get_future().get();
  EXPECT_TRUE(printing.done());
}

TEST(ComputePool, LimitsOfTimeArePositive) {
  EXPECT_THROW((void)nothing().with_timeout(0s), ConfigurationError);
  EXPECT_THROW((void)(nothing() & add(1, 2)).with_timeout(-1s), ConfigurationError);
  PoolOptions options = quiet(1);
  options.timeout = std::chrono::hours(24 * 365 * 300);
  ComputePool pool(options);
  EXPECT_THROW(waits().with_timeout(50ms) >> pool, TimeoutError);
  Future<int> sum = submit(add(1, 2).with_timeout(std::chrono::hours::max()), pool);
  EXPECT_TRUE(sum.wait(std::chrono::seconds::max()));
  std::promise<void> told;
  sum.on_done([&told] { told.set_value(); });
  told.get_future().get();
  EXPECT_EQ(sum.get(), 3);
}

// Cannot be written down.
struct Unsendable {
  template <typename Archive>
  void save(Archive&) const {
    throw std::runtime_error("no");
  }
  template <typename Archive>
  void load(Archive&) {}
};
std::atomic<int> counted_there{0};
int count_there() { return ++counted_there; }
void take_there(Unsendable) {}
constexpr auto count = compute<count_there>;
constexpr auto take = compute<take_there>;

TEST(ComputePool, ABatchThatCannotBeWrittenDownSendsNothing) {
  ComputePool pool(quiet(1));
  EXPECT_THROW((count() & take({})) >> pool, std::runtime_error);
  EXPECT_EQ(count() >> pool, 1);
}

TEST(ComputePool, EnvironmentReachesTheWorkers) {
  PoolOptions options = quiet(1);
  options.image.env = {{"FIRST", "image"}, {"SECOND", "image"}};
  options.env = {{"SECOND", "pool"}};
  ComputePool pool(options);
  EXPECT_EQ((variable("FIRST") & variable("SECOND")) >> pool,
            std::tuple(std::string("image"), std::string("pool")));
}

TEST(ComputePool, ManyThreadsMayUseIt) {
  ComputePool pool(quiet(2, 2));
  std::vector<std::future<int>> sums;
  for (int thread = 0; thread < 8; ++thread) {
    sums.push_back(std::async(std::launch::async, [&pool, thread] {
      int sum = 0;
      for (int i = 0; i < 50; ++i) sum += add(thread, i) >> pool;
      return sum;
    }));
  }
  for (int thread = 0; thread < 8; ++thread) {
    EXPECT_EQ(sums[static_cast<std::size_t>(thread)].get(), 50 * thread + 49 * 25);
  }
}

TEST(ComputePool, WrongRequestsAreRefusedBeforeAnythingStarts) {
  EXPECT_THROW(ComputePool(quiet(0)), ConfigurationError);
  PoolOptions python = quiet(1);
  python.image.pip = {"numpy"};
  EXPECT_THROW(ComputePool{python}, ConfigurationError);
  PoolOptions unknown = quiet(1);
  unknown.provider = ProviderSpec{.name = "no such cloud", .settings = {}};
  EXPECT_THROW(ComputePool{unknown}, ConfigurationError);
}

TEST(ComputePool, ClosedPoolRefusesCalls) {
  ComputePool pool(quiet(1));
  Future<bool> unfinished = submit(waits(), pool);
  pool.close();
  EXPECT_FALSE(pool.is_active());
  EXPECT_EQ(pool.instance_count(), 0);
  EXPECT_THROW(unfinished.get(), SkywardError);
  EXPECT_THROW(add(1, 1) >> pool, NotProvisionedError);
  pool.close();
}

TEST(ComputePool, WorkerThatForgotInitIsExplained) {
  PoolOptions options = quiet(1);
  options.env = {{"SKYWARD_TEST_FORGETS_INIT", "1"}};
  try {
    ComputePool pool(options);
    FAIL() << "the pool opened";
  } catch (const SkywardError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the first line of main, and open pools inside main"));
  }
}

TEST(ComputePool, AnotherProviderStandsInForOneWithoutMachines) {
  PoolOptions options = quiet(2);
  options.provider = SSH{.hosts = {"192.0.2.1"}};
  options.other_providers = {Local{}};
  std::vector<std::string> told;
  std::mutex mutex;
  int stopped = 0;
  options.on_event = [&](const Event& event) {
    const std::lock_guard lock(mutex);
    match(
        event, [&](const ErrorEvent& error) { told.push_back(error.message); },
        [&](const PoolStopped&) { ++stopped; });
  };
  for (const char* selection : {"first", "cheapest", "available"}) {
    options.selection = selection;
    ComputePool pool(options);
    EXPECT_EQ(pool.untyped().spec().provider.name, "local");
    EXPECT_EQ(pool.untyped().chosen_provider(), 1U);
    EXPECT_EQ(add(1, 2) >> pool, 3);
  }
  EXPECT_EQ(stopped, 3);
  ASSERT_EQ(told.size(), 1U) << "only \"first\" tries what has nothing";
  EXPECT_THAT(told.front(), AllOf(HasSubstr("ssh failed"), HasSubstr("trying local")));
}

TEST(ComputePool, WhenAllProvidersFailEachIsTold) {
  PoolOptions options = quiet(2);
  options.provider = SSH{.hosts = {"192.0.2.1"}};
  options.other_providers = {SSH{.hosts = {"192.0.2.2"}}};
  try {
    ComputePool pool(options);
    FAIL() << "the pool opened";
  } catch (const AllProvidersFailedError& error) {
    ASSERT_EQ(error.errors().size(), 2U);
    EXPECT_EQ(error.errors()[1].provider, "ssh");
    EXPECT_EQ(error.errors()[1].error.kind, ErrorKind::invalid);
    EXPECT_THAT(error.what(), HasSubstr("has 1 host"));
  }
  options.selection = "cheepest";
  EXPECT_THROW(ComputePool{options}, ConfigurationError);
}

TEST(MultiPool, OpensAllOrNothing) {
  {
    MultiPool pools({quiet(1), quiet(2)});
    EXPECT_EQ(add(1, 1) >> pools[0], 2);
    EXPECT_EQ(broadcast(place(), pools[1]).size(), 2U);
  }
  int stopped = 0;
  std::mutex mutex;
  PoolOptions good = quiet(1);
  good.on_event = [&](const Event& event) {
    const std::lock_guard lock(mutex);
    match(event, [&](const PoolStopped&) { ++stopped; });
  };
  EXPECT_THROW(MultiPool({good, quiet(0), good}), ConfigurationError);
  EXPECT_EQ(stopped, 2);
}

TEST(MultiPool, OnEventMayDestroyIt) {
  std::optional<MultiPool> pools;
  std::promise<void> submitted;  // this thread no longer uses the pools
  std::promise<void> destroyed;
  PoolOptions options = quiet(1);
  options.collect_tasks = true;
  options.on_event = [&](const Event& event) {
    if (!std::holds_alternative<TaskStarted>(event)) return;
    submitted.get_future().wait();
    pools.reset();
    destroyed.set_value();
  };
  pools.emplace(std::vector{quiet(1), options, quiet(1)});
  const Future<void> call = submit(nothing(), (*pools)[1]);
  submitted.set_value();
  destroyed.get_future().wait();
}

TEST(MultiPool, WithoutThreadsItThrows) {
  const io::NoThreads none;
  EXPECT_THROW(MultiPool({quiet(1), quiet(1)}), std::system_error);
}

}  // namespace
}  // namespace skyward

// gather() of many calls, which travel in groups: from end to end, with real agents.

#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "skyward/engine/loop.h"
#include "skyward/skyward.h"

namespace skyward::gather_test {
namespace {

constexpr int kCalls = 4000;
constexpr int kSpecial = 1700;  // a call in the middle of a group

int same_there(int number) { return number; }
void nothing_there(int) {}
int fail_there(int number) {
  if (number == kSpecial || number == kSpecial + 3) throw std::out_of_range(std::to_string(number));
  return number;
}
int abort_there(int number) {
  if (number == kSpecial) std::abort();
  return number;
}
std::vector<double> grow_there(int number) {
  return std::vector<double>(number % 700 == 0 ? 100'000 : 1, number);
}
std::size_t measure_there(const std::vector<double>& values) { return values.size(); }
void await_file(const std::string& file) {
  const Time limit = engine::EngineLoop::now() + std::chrono::seconds(60);
  while (!std::filesystem::exists(file)) {
    if (engine::EngineLoop::now() > limit) throw std::runtime_error("nobody came");
    std::this_thread::yield();
  }
}
// One call waits for the one behind it, which must come to another process for that.
int meet_there(int number, const std::string& file) {
  if (number == kSpecial) await_file(file);
  if (number == kSpecial + 1) std::ofstream(file) << "here";
  return number;
}
// The same; and then, the first time, it kills its agent.
int lose_there(int number, const std::string& file) {
  meet_there(number, file);
  const std::string killed = file + "-killed";
  if (number != kSpecial || std::filesystem::exists(killed)) return number;
  std::ofstream(killed) << "here";
  kill(getppid(), SIGKILL);
  while (true) pause();
}
bool wait_there(int number) {
  if (number != kSpecial) return false;
  std::puts("waiting");
  while (!cancelled()) std::this_thread::yield();
  return true;
}

constexpr auto same = compute<same_there>;
constexpr auto nothing = compute<nothing_there>;
constexpr auto fails = compute<fail_there>;
constexpr auto aborts = compute<abort_there>;
constexpr auto grows = compute<grow_there>;
constexpr auto measures = compute<measure_there>;
constexpr auto meets = compute<meet_there>;
constexpr auto loses = compute<lose_there>;
constexpr auto waits = compute<wait_there>;

PoolOptions quiet(int nodes) { return {.nodes = nodes, .display = Display::quiet}; }

template <typename Function, typename... Rest>
auto many(Function function, const Rest&... rest) {
  std::vector<decltype(function(0, rest...))> calls;
  for (int i = 0; i < kCalls; ++i) calls.push_back(function(i, rest...));
  return calls;
}

// The name of a file in a folder of its own.
class NewFile {
 public:
  NewFile() {
    std::string folder = std::filesystem::temp_directory_path() / "skyward-gather-XXXXXX";
    folder_ = mkdtemp(folder.data());
  }
  ~NewFile() { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ / "file"; }

 private:
  std::filesystem::path folder_;
};

void expect_numbers(const std::vector<int>& values) {
  ASSERT_EQ(values.size(), static_cast<std::size_t>(kCalls));
  for (int i = 0; i < kCalls; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], i);
}

TEST(Gather, SendsQuickCallsInGroups) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "no call is quick enough for a group under the thread sanitizer";
#endif
  ComputePool pool(quiet(2));
  const Time limit = engine::EngineLoop::now() + std::chrono::seconds(60);
  bool in_groups = false;
  while (!in_groups && engine::EngineLoop::now() < limit) {  // a busy machine is not quick
    const std::uint64_t before = pool.untyped().tasks_sent();
    expect_numbers(gather(many(same)) >> pool);
    in_groups = pool.untyped().tasks_sent() - before < kCalls / 2;
  }
  EXPECT_TRUE(in_groups);
  EXPECT_EQ(pool.untyped().tasks_unfinished(), 0U);
}

TEST(Gather, CallsWithoutResultsAreCounted) {
  ComputePool pool(quiet(2));
  const std::vector<std::monostate> none = gather(many(nothing)) >> pool;
  EXPECT_EQ(none.size(), static_cast<std::size_t>(kCalls));
}

TEST(Gather, CallsWithOptionsGoAlone) {
  ComputePool pool(quiet(1));
  auto calls = many(same);
  calls.back() = calls.back().with_retries(1);
  expect_numbers(gather(calls) >> pool);
  EXPECT_EQ(pool.untyped().tasks_sent(), static_cast<std::uint64_t>(kCalls));
}

TEST(Gather, EachCallOfAGroupHasItsOwnError) {
  ComputePool pool(quiet(2));
  const auto attempts = gather(many(fails)).return_exceptions() >> pool;
  ASSERT_EQ(attempts.size(), static_cast<std::size_t>(kCalls));
  for (int i = 0; i < kCalls; ++i) {
    const auto& attempt = attempts[static_cast<std::size_t>(i)];
    const bool failed = i == kSpecial || i == kSpecial + 3;
    ASSERT_EQ(attempt.has_value(), !failed) << i;
    EXPECT_EQ(attempt.value_or(i), i);
  }
  try {
    (void)(gather(many(fails)) >> pool);
    FAIL() << "nothing was thrown";
  } catch (const RemoteError& error) {
    EXPECT_EQ(error.message(), std::to_string(kSpecial));  // the first one in order
  }
  EXPECT_EQ(pool.untyped().tasks_unfinished(), 0U);
}

TEST(Gather, ACrashHitsOneCallOfAGroup) {
  ComputePool pool(quiet(2));
  const auto attempts = gather(many(aborts)).return_exceptions() >> pool;
  for (int i = 0; i < kCalls; ++i) {
    const auto& attempt = attempts[static_cast<std::size_t>(i)];
    ASSERT_EQ(attempt.has_value(), i != kSpecial) << i;
    EXPECT_EQ(attempt.value_or(i), i);
  }
}

TEST(Gather, ASlowCallHoldsUpNoneBehindIt) {
  const NewFile file;
  ComputePool pool(quiet(2));
  expect_numbers(gather(many(meets, file.path())) >> pool);
}

TEST(Gather, AGroupGoesOnElsewhereWhenItsMachineIsLost) {
  const NewFile file;
  ComputePool pool(quiet(2));
  expect_numbers(gather(many(loses, file.path())) >> pool);
  EXPECT_TRUE(std::filesystem::exists(file.path() + "-killed"));
}

TEST(Gather, LargeArgumentsAndResultsArriveWhole) {
  ComputePool pool(quiet(2));
  const auto values = gather(many(grows)) >> pool;
  std::vector<Pending<std::size_t>> calls;
  for (const auto& one : values) calls.push_back(measures(one));
  const std::vector<std::size_t> sizes = gather(calls) >> pool;
  for (int i = 0; i < kCalls; ++i) {
    const auto place = static_cast<std::size_t>(i);
    ASSERT_EQ(values[place], grow_there(i)) << i;
    ASSERT_EQ(sizes[place], values[place].size()) << i;
  }
}

TEST(Gather, EndsWhenThePoolIsClosed) {
  PoolOptions options = quiet(1);
  ComputePool* self = nullptr;
  options.on_event = [&self](const Event& event) {
    if (std::holds_alternative<LogLine>(event)) self->close();
  };
  ComputePool pool(std::move(options));
  self = &pool;
  const auto attempts = gather(many(waits)).return_exceptions() >> pool;
  ASSERT_EQ(attempts.size(), static_cast<std::size_t>(kCalls));
  EXPECT_TRUE(attempts[0].has_value());
  EXPECT_FALSE(attempts[kSpecial].has_value());
}

TEST(Gather, AClosedPoolRefusesIt) {
  ComputePool pool(quiet(1));
  pool.close();
  EXPECT_THROW((void)(gather(many(same)) >> pool), NotProvisionedError);
  EXPECT_THROW((void)(gather(many(same)).return_exceptions() >> pool), NotProvisionedError);
}

}  // namespace
}  // namespace skyward::gather_test

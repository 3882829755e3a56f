// Calls that run again when they fail: this program, its workers and real agents on this machine.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "skyward/skyward.h"

namespace skyward {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

// One line in the file for each attempt, this one included.
int attempts_so_far(const std::string& file) {
  std::ofstream(file, std::ios::app) << instance_info().global_worker_index() << "\n";
  std::ifstream written(file);
  int lines = 0;
  for (std::string line; std::getline(written, line);) ++lines;
  return lines;
}

int third_time_there(const std::string& file) {
  const int attempt = attempts_so_far(file);
  if (attempt == 1) throw std::invalid_argument("first\nand more");
  if (attempt == 2) std::abort();
  return attempt;
}
int second_time_there(const std::string& folder) {
  const int worker = instance_info().global_worker_index();
  if (attempts_so_far(folder + "/" + std::to_string(worker)) == 1) throw std::runtime_error("no");
  return worker;
}
void never_there() { throw std::runtime_error("never"); }
bool wait_for_the_end_there() {
  while (!cancelled()) std::this_thread::yield();
  return true;
}
constexpr auto third_time = compute<third_time_there>;
constexpr auto second_time = compute<second_time_there>;
constexpr auto never = compute<never_there>;
constexpr auto stays = compute<wait_for_the_end_there>;

// A pool, and the text of its Error events.
class Retries : public ::testing::Test {
 protected:
  Retries() {
    std::string name = ::testing::TempDir() + "retries-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~Retries() override { std::filesystem::remove_all(folder_); }

  PoolOptions quiet(int nodes) {
    return {.nodes = nodes, .display = Display::quiet, .on_event = [this](const Event& event) {
              if (const auto* error = std::get_if<ErrorEvent>(&event)) {
                const std::scoped_lock lock(mutex_);
                told_.push_back(error->message);
                if (told_.size() == 1) first_.set_value();
              }
            }};
  }
  std::vector<std::string> told() {
    const std::scoped_lock lock(mutex_);
    return told_;
  }

  std::string folder_;
  std::promise<void> first_;

 private:
  std::mutex mutex_;
  std::vector<std::string> told_;
};

TEST_F(Retries, ACallRunsAgainWhenItThrowsAndWhenItsWorkerDies) {
  ComputePool pool(quiet(1));
  std::promise<void> done;
  Future<int> future = submit(third_time(folder_ + "/calls").with_retries(2), pool);
  future.on_done([&done] { done.set_value(); });
  EXPECT_EQ(future.get(), 3);
  done.get_future().get();
  pool.close();
  EXPECT_THAT(
      told(),
      ElementsAre("skyward::third_time_there failed: std::invalid_argument: first; attempt 2 "
                  "of 3",
                  AllOf(HasSubstr("the worker process died"), HasSubstr("; attempt 3 of 3"))));
}

TEST_F(Retries, TheLastFailureIsThrown) {
  ComputePool pool(quiet(1));
  EXPECT_THROW(third_time(folder_ + "/once") >> pool, RemoteError);
  EXPECT_THROW(third_time(folder_ + "/twice").with_retries(1) >> pool, ExecutionError);
  const auto calls = gather(std::vector{never().with_retries(1), never()});
  EXPECT_THAT(calls.return_exceptions() >> pool, SizeIs(2));
  pool.close();
  EXPECT_THAT(told(), SizeIs(2));
}

TEST_F(Retries, ABroadcastIsRetriedWhereItFailed) {
  ComputePool pool(quiet(3));
  EXPECT_THAT(pool.broadcast(second_time(folder_).with_retries(1)), ElementsAre(0, 1, 2));
}

TEST_F(Retries, WhatWasStoppedIsNotRetried) {
  ComputePool pool(quiet(1));
  EXPECT_THROW(stays().with_timeout(50ms).with_retries(5) >> pool, TimeoutError);
  Future<bool> future = submit(stays().with_retries(5), pool);
  future.cancel();
  EXPECT_THROW(future.get(), CancelledError);
  pool.close();
  EXPECT_THAT(told(), IsEmpty());
}

TEST_F(Retries, ACallThatIsCancelledBetweenAttemptsEnds) {
  ComputePool pool(quiet(1));
  Future<void> future = submit(never().with_retries(1000), pool);
  first_.get_future().get();
  future.cancel();
  EXPECT_THROW(future.get(), SkywardError);
  EXPECT_THAT(told(), Each(StartsWith("skyward::never_there failed:")));
}

TEST_F(Retries, APoolThatClosesRetriesNothing) {
  ComputePool pool(quiet(1));
  Future<void> future = submit(never().with_retries(1000), pool);
  first_.get_future().get();
  pool.close();
  EXPECT_TRUE(future.done());
  EXPECT_THROW(future.get(), SkywardError);
}

}  // namespace
}  // namespace skyward

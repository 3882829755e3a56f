#include "skyward/io/forks.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <thread>

namespace skyward::io {
namespace {

struct Counter {
  std::mutex mutex;
  int count = 0;
};

// Whether `check` holds in a forked child.
template <typename Check>
bool holds_in_child(Check check) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(check() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(ForksTest, AChildHasAnotherGenerationThanItsParent) {
  const std::uint64_t here = process_generation();
  EXPECT_TRUE(holds_in_child([here] {
    return process_generation() == here + 1 &&
           holds_in_child([here] { return process_generation() == here + 2; });
  }));
  EXPECT_EQ(process_generation(), here);
}

TEST(ForksTest, CountsTheForksOfThisProcessAlone) {
  const std::uint64_t before = forks_made();
  EXPECT_TRUE(holds_in_child([] { return forks_made() == 0; }));
  EXPECT_EQ(forks_made(), before + 1);
}

TEST(ForksTest, AChildStartsWithOneOfItsOwnThoughItsParentsIsLocked) {
  auto& counter = of_this_process<Counter>();
  counter.count = 3;
  EXPECT_EQ(&of_this_process<Counter>(), &counter);
  const std::scoped_lock held(counter.mutex);
  EXPECT_TRUE(holds_in_child([&counter] {
    auto& own = of_this_process<Counter>();
    const std::unique_lock lock(own.mutex, std::try_to_lock);
    return &own != &counter && lock.owns_lock() && own.count == 0;
  }));
}

TEST(ForksTest, ThreadsShareOne) {
  struct Shared {
    int value = 0;
  };
  Shared* seen = nullptr;
  std::thread([&seen] { seen = &of_this_process<Shared>(); }).join();
  EXPECT_EQ(seen, &of_this_process<Shared>());
}

}  // namespace
}  // namespace skyward::io

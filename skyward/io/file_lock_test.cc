#include "skyward/io/file_lock.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <stop_token>
#include <thread>

#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"

namespace skyward::io {
namespace {

class FileLockTest : public ::testing::Test {
 protected:
  FileLockTest() { EXPECT_TRUE(make_private_directory(root_)); }
  ~FileLockTest() override { (void)remove_tree(root_); }

  const std::string root_ = ::testing::TempDir() + "skyward-lock-" + random_hex(12);
  const std::string path_ = root_ + "/lock";
};

TEST_F(FileLockTest, HasOneHolder) {
  auto first = FileLock::try_lock(path_);
  ASSERT_TRUE(first);
  EXPECT_FALSE(FileLock::try_lock(path_));
  EXPECT_FALSE(FileLock::try_lock(path_)) << "who asks in vain takes nothing away";
  first.reset();
  EXPECT_TRUE(FileLock::try_lock(path_));
  EXPECT_EQ(list_directory(root_), std::vector<std::string>{"lock"});
}

TEST_F(FileLockTest, HoldsADirectoryWhateverHappensInIt) {
  auto first = FileLock::try_lock_directory(root_);
  ASSERT_TRUE(first);
  EXPECT_FALSE(FileLock::try_lock_directory(root_));
  EXPECT_TRUE(FileLock::try_lock(path_)) << "its files have locks of their own";
  const std::string moved = root_ + "-moved";
  ASSERT_EQ(::rename(root_.c_str(), moved.c_str()), 0);
  EXPECT_FALSE(FileLock::try_lock_directory(moved));
  first.reset();
  EXPECT_TRUE(FileLock::try_lock_directory(moved));
  EXPECT_FALSE(FileLock::try_lock_directory(moved + "/lock"));
  EXPECT_FALSE(FileLock::try_lock_directory(root_)) << "it makes nothing";
  ASSERT_EQ(::rename(moved.c_str(), root_.c_str()), 0);
}

TEST_F(FileLockTest, SaysWhoHoldsIt) {
  EXPECT_FALSE(FileLock::holder(path_));
  EXPECT_TRUE(list_directory(root_).empty()) << "who asks makes nothing";
  auto lock = FileLock::try_lock(path_);
  EXPECT_EQ(FileLock::holder(path_), ::getpid());
  EXPECT_EQ(FileLock::holder(path_), ::getpid()) << "who asks takes nothing away";
  lock.reset();
  EXPECT_FALSE(FileLock::holder(path_));
}

TEST_F(FileLockTest, IsWatchedAfterItsFileIsGone) {
  auto lock = FileLock::try_lock(path_);
  const LockWatch watch(path_);
  ASSERT_TRUE(remove_tree(root_));
  EXPECT_FALSE(FileLock::holder(path_));
  EXPECT_EQ(watch.holder(), ::getpid());
  lock.reset();
  EXPECT_FALSE(watch.holder());
}

TEST_F(FileLockTest, IsNotTakenAwayByWhoWatches) {
  FileLock::try_lock(path_).reset();
  const LockWatch watch(path_);
  EXPECT_FALSE(watch.holder());
  EXPECT_TRUE(FileLock::try_lock(path_)) << "the watch still has the file open";
}

TEST_F(FileLockTest, IsNotTakenAwayByWhoAsks) {
  FileLock::try_lock(path_).reset();
  std::jthread asking([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) (void)FileLock::holder(path_);
  });
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(FileLock::try_lock(path_)) << i;
}

TEST_F(FileLockTest, IsNoPipe) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(FileLock::holder(path_)) << "and who asks does not wait";
}

// A home on a network may be away for a while: its owner may still be at work.
TEST_F(FileLockTest, IsHeldWhereNobodyCanLook) {
  const std::string no_name(5000, 'a');
  EXPECT_EQ(FileLock::holder(root_ + "/" + no_name), 0);
  EXPECT_FALSE(FileLock::holder(root_ + "/none/lock"));
}

TEST_F(FileLockTest, IsNotAForkedChilds) {
  auto lock = FileLock::try_lock(path_);
  ASSERT_TRUE(lock);
  std::array<int, 2> line{};
  std::array<int, 2> begun{};
  ASSERT_EQ(::pipe(line.data()), 0);
  ASSERT_EQ(::pipe(begun.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // It lives until the other end is closed, and can lock files of its own.
    ::close(line[1]);
    char end = 0;
    if (::write(begun[1], &end, 1) != 1) ::_exit(2);
    const bool ended = ::read(line[0], &end, 1) == 0;
    const bool able = FileLock::try_lock(root_ + "/own") != nullptr;
    lock.reset();
    ::_exit(ended && able ? 0 : 1);
  }
  ::close(line[0]);
  ::close(begun[1]);
  char started = 0;
  ASSERT_EQ(::read(begun[0], &started, 1), 1);
  ::close(begun[0]);
  EXPECT_FALSE(FileLock::try_lock(path_)) << "it is this process's still";
  lock.reset();
  EXPECT_TRUE(FileLock::try_lock(path_)) << "the child has kept it";
  ::close(line[1]);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace skyward::io

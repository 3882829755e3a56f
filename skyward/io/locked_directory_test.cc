#include "skyward/io/locked_directory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"

namespace skyward::io {
namespace {

class LockedDirectoryTest : public ::testing::Test {
 protected:
  LockedDirectoryTest() { EXPECT_TRUE(make_private_directory(root_)); }
  ~LockedDirectoryTest() override { (void)remove_tree(root_); }

  // What goes, of the names that begin with "mine".
  std::vector<std::string> removed() const {
    std::vector<std::string> paths;
    LockedDirectory::remove_abandoned(
        root_, [](std::string_view name) { return name.starts_with("mine"); },
        [&](const std::string& path) {
          EXPECT_TRUE(is_directory(path));
          EXPECT_FALSE(FileLock::try_lock_directory(path)) << "somebody else could take it";
          paths.push_back(path);
        });
    return paths;
  }

  const std::string root_ = ::testing::TempDir() + "skyward-locked-" + random_hex(12);
};

TEST_F(LockedDirectoryTest, IsAbandonedWhenItsHolderIsGone) {
  auto held = LockedDirectory::make(root_, "mine-1");
  ASSERT_TRUE(held);
  const std::string path = root_ + "/mine-1";
  EXPECT_EQ((*held)->path(), path);
  EXPECT_EQ(list_directory(root_), std::vector<std::string>{"mine-1"});
  EXPECT_TRUE(removed().empty());

  held->reset();
  std::ofstream(path + "/file") << "x";
  EXPECT_EQ(removed(), std::vector<std::string>{path});
  EXPECT_TRUE(list_directory(root_).empty());
}

TEST_F(LockedDirectoryTest, IsRemovedByItsHolderWithoutAnOpenFileInIt) {
  const auto held = LockedDirectory::make(root_, "mine-1");
  ASSERT_TRUE(held);
  const std::string path = (*held)->path();
  std::filesystem::create_hard_link(path + "/lock", root_ + "/lock");
  EXPECT_TRUE((*held)->remove());
  EXPECT_FALSE(is_directory(path));
  EXPECT_TRUE(FileLock::try_lock(root_ + "/lock")) << "it was still open";
}

TEST_F(LockedDirectoryTest, IsHeldWithoutItsFile) {
  const auto held = LockedDirectory::make(root_, "mine-1");
  ASSERT_TRUE(held);
  ASSERT_TRUE(std::filesystem::remove(root_ + "/mine-1/lock"));  // it was old, and lay in /tmp
  EXPECT_TRUE(removed().empty());
}

TEST_F(LockedDirectoryTest, TakesNoneThatIsThere) {
  const auto held = LockedDirectory::make(root_, "mine-1");
  ASSERT_TRUE(held);
  const auto again = LockedDirectory::make(root_, "mine-1");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().kind, ErrorKind::unavailable);
  EXPECT_NE(again.error().message.find(root_ + "/mine-1"), std::string::npos);
  EXPECT_EQ(list_directory(root_), std::vector<std::string>{"mine-1"}) << "nothing is left behind";
}

TEST_F(LockedDirectoryTest, WhatAKilledProcessHadBegunToMakeGoesAfterAnHour) {
  for (const char* name :
       {"new-0123456789ab", "new-0123456789ac", "new-0123456789ad", "new-york"}) {
    ASSERT_TRUE(make_private_directory(root_ + "/" + name));
  }
  const auto held = FileLock::try_lock_directory(root_ + "/new-0123456789ac");
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(2);
  for (const char* name : {"new-0123456789ab", "new-0123456789ac", "new-york"}) {
    std::filesystem::last_write_time(root_ + "/" + name, long_ago);
  }
  EXPECT_TRUE(removed().empty());
  EXPECT_EQ(list_directory(root_),
            (std::vector<std::string>{"new-0123456789ac", "new-0123456789ad", "new-york"}));
}

TEST_F(LockedDirectoryTest, LeavesOthersAlone) {
  ASSERT_TRUE(make_private_directory(root_ + "/theirs"));
  std::ofstream(root_ + "/mine-file") << "x";
  EXPECT_TRUE(removed().empty());
  EXPECT_EQ(list_directory(root_), (std::vector<std::string>{"mine-file", "theirs"}));
}

}  // namespace
}  // namespace skyward::io

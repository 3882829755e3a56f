#include "skyward/io/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"

namespace skyward::io {
namespace {

class File : public ::testing::Test {
 protected:
  ~File() override { (void)remove_tree(root_); }
  const std::string root_ = ::testing::TempDir() + "skyward-file-" + random_hex(12);
};

TEST_F(File, IsWrittenWholeForThisUserAlone) {
  const std::string path = root_ + "/a/b/c";
  ASSERT_TRUE(write_private_file(path, "one"));
  const std::string text(100'000, 'x');
  ASSERT_TRUE(write_private_file(path, text));
  EXPECT_EQ(read_file(path).value(), text);
  struct stat found{};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600U);
  ASSERT_EQ(::stat((root_ + "/a").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700U);
  EXPECT_EQ(list_directory(root_ + "/a/b"), std::vector<std::string>{"c"}) << "nothing beside it";
}

TEST_F(File, WhatCannotBeReadOrWrittenIsNamed) {
  const auto none = read_file(root_ + "/none");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::invalid);
  EXPECT_TRUE(none.error().message.contains(root_ + "/none"));

  ASSERT_TRUE(write_private_file(root_ + "/file", "12345"));
  EXPECT_EQ(read_file(root_ + "/file", 4).error().kind, ErrorKind::exhausted);
  EXPECT_TRUE(read_file(root_ + "/file", 5));
  EXPECT_FALSE(write_private_file(root_ + "/file/below", "x"));
  EXPECT_FALSE(read_file(root_)) << "a directory";
}

}  // namespace
}  // namespace skyward::io

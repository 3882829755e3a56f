#include "skyward/io/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "skyward/io/machine.h"
#include "skyward/io/no_files_fixture.h"
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
  const auto below = write_private_file(root_ + "/file/below", "x");
  ASSERT_FALSE(below);
  EXPECT_TRUE(below.error().message.contains("Not a directory")) << below.error().message;
  EXPECT_FALSE(read_file(root_)) << "a directory";
}

TEST_F(File, WhatCannotBeWrittenNowMayBeLater) {
  ASSERT_TRUE(make_private_directory(root_));
  Status written;
  {
    const NoFiles none_left;
    written = write_private_file(root_ + "/file", "x");
  }
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().kind, ErrorKind::unavailable) << written.error().message;
}

TEST_F(File, WhatOthersMayHaveWrittenIsNotRead) {
  const std::string path = root_ + "/file";
  EXPECT_EQ(read_safely(path, false).error().kind, ErrorKind::invalid) << "there is none";
  ASSERT_TRUE(write_private_file(path, "text"));
  EXPECT_EQ(read_safely(path, false), "text");
  EXPECT_EQ(read_safely(path, false, 3).error().kind, ErrorKind::exhausted);
  EXPECT_EQ(read_safely(root_, false).error().message, root_ + " is a directory");
  EXPECT_EQ(read_safely(root_, false).error().hint, "move it away");
  for (const unsigned mode : {0620U, 0602U}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const auto read = read_safely(path, false);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().kind, ErrorKind::denied);
    EXPECT_EQ(read.error().hint, "run 'chmod go-w " + path + "'");
  }
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  const std::string link = root_ + "/link";
  ASSERT_EQ(::symlink(path.c_str(), link.c_str()), 0);
  EXPECT_EQ(read_safely(link, true), "text");
  EXPECT_EQ(read_safely(link, false).error().kind, ErrorKind::denied);
  // A pipe would keep whoever opens it until somebody writes.
  const std::string pipe = root_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(read_safely(pipe, false).error().message, pipe + " is not a regular file");
  if (::geteuid() == 0) {  // who may give files away
    ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
    EXPECT_EQ(read_safely(path, false).error().message, path + " belongs to another user");
  }
}

TEST_F(File, WhatTheUserNamesMayBelongToAnotherUserAlone) {
  const std::string path = root_ + "/folder/file";
  ASSERT_TRUE(write_private_file(path, "text"));
  const std::string link = root_ + "/link";
  ASSERT_EQ(::symlink(path.c_str(), link.c_str()), 0);
  EXPECT_EQ(read_named(link), "text");
  EXPECT_EQ(read_named(root_ + "/none").error().kind, ErrorKind::invalid);
  EXPECT_EQ(read_named(root_).error().message, root_ + " is a directory");
  EXPECT_EQ(read_named(root_).error().hint, "give the path of a file");
  EXPECT_EQ(read_named(path, 3).error().hint, "check that it is the right file");
  ASSERT_EQ(::chmod(path.c_str(), 0664), 0);
  EXPECT_EQ(read_named(link).error().hint, "run 'chmod go-w " + link + "'");
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give files away";
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  EXPECT_EQ(read_named(link), "text");
  const std::string folder = std::filesystem::canonical(root_ + "/folder");
  ASSERT_EQ(::chmod(folder.c_str(), 0777), 0);
  EXPECT_EQ(read_named(link).error().message, "other users may write to " + folder)
      << "they may have replaced it";
  ASSERT_EQ(::chmod(folder.c_str(), 01777), 0);
  EXPECT_EQ(read_named(link), "text");
  ASSERT_EQ(::chown(folder.c_str(), 65533, 65533), 0);
  EXPECT_EQ(read_named(link).error().message, folder + " belongs to another user than " + link);
  ASSERT_EQ(::chown(folder.c_str(), 65534, 65534), 0);
  EXPECT_EQ(read_named(link), "text");
}

TEST_F(File, PathsWithoutLinksOnTheWay) {
  ASSERT_TRUE(write_private_file(root_ + "/a/file", ""));
  ASSERT_EQ(::symlink((root_ + "/a").c_str(), (root_ + "/b").c_str()), 0);
  EXPECT_EQ(resolved_path(root_ + "/b/../b/./file").value(),
            std::filesystem::canonical(root_).string() + "/a/file");
  EXPECT_EQ(resolved_path("file").value(), std::filesystem::current_path().string() + "/file");
  EXPECT_FALSE(resolved_path(root_ + "/none/file"));
  EXPECT_TRUE(exists(root_ + "/b"));
  EXPECT_FALSE(exists(root_ + "/none"));
}

}  // namespace
}  // namespace skyward::io

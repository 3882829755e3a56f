#include "skyward/io/private_directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "skyward/io/machine.h"

namespace skyward::io {
namespace {

namespace fs = std::filesystem;

class PrivateDirectory : public testing::Test {
 protected:
  PrivateDirectory() : root_(testing::TempDir() + "skyward-" + random_hex(8)) {
    EXPECT_TRUE(make_private_directory(root_));
  }
  ~PrivateDirectory() override { EXPECT_TRUE(remove_tree(root_)); }

  static mode_t mode(const std::string& path) {
    struct stat status{};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0);
    return status.st_mode & 0777;
  }

  const std::string root_;
};

TEST_F(PrivateDirectory, IsMadeForItsOwnerOnly) {
  EXPECT_EQ(mode(root_), 0700u);
  EXPECT_EQ(make_private_directory(root_).error().kind, ErrorKind::invalid);
  EXPECT_EQ(make_private_directory(root_ + "/none/below").error().kind, ErrorKind::denied);
  EXPECT_TRUE(is_directory(root_));
  EXPECT_FALSE(is_directory(root_ + "/none"));
  EXPECT_TRUE(list_directory(root_ + "/none").empty());
}

TEST_F(PrivateDirectory, CanBeMadeLaterWhereTheDiskIsFull) {
  constexpr int kNoMounts = 77;
  const pid_t child = ::fork();
  if (child == 0) {
    if ((::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", root_.c_str(), "tmpfs", 0, "nr_inodes=1") != 0) {
      ::_exit(kNoMounts);
    }
    const Status made = make_private_directory(root_ + "/a");
    ::_exit(!made && made.error().kind == ErrorKind::unavailable ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == kNoMounts) GTEST_SKIP() << "this user may not mount";
  EXPECT_EQ(status, 0);
}

TEST_F(PrivateDirectory, IsNotThatOfAnotherUser) {
  EXPECT_TRUE(is_own_directory(root_));
  EXPECT_FALSE(is_own_directory(root_ + "/none"));
  fs::create_directory_symlink(root_, root_ + "/link");
  EXPECT_FALSE(is_own_directory(root_ + "/link"));
  if (::geteuid() != 0) {
    EXPECT_FALSE(is_own_directory("/"));
    return;
  }
  const std::string path = root_ + "/foreign";
  EXPECT_TRUE(make_private_directory(path));
  ASSERT_EQ(::chown(path.c_str(), 1, 1), 0);
  EXPECT_FALSE(is_own_directory(path));
}

TEST_F(PrivateDirectory, TakesItsOwnAndNoOneElses) {
  const std::string path = root_ + "/state";
  EXPECT_TRUE(ensure_private_directory(path));
  ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  EXPECT_TRUE(ensure_private_directory(path));
  EXPECT_EQ(mode(path), 0700u);
  ASSERT_EQ(::chmod(path.c_str(), 0777), 0);
  EXPECT_EQ(ensure_private_directory(path).error().kind, ErrorKind::denied);

  fs::create_directory_symlink(root_, root_ + "/link");
  EXPECT_TRUE(ensure_private_directory(root_ + "/link")) << "this user's own, to this user's own";
  for (const char* target : {"state", "none"}) {
    SCOPED_TRACE(target);
    fs::create_directory_symlink(target, root_ + "/to-" + target);
    EXPECT_EQ(ensure_private_directory(root_ + "/to-" + target).error().kind, ErrorKind::denied);
  }
  EXPECT_FALSE(is_directory(root_ + "/link"));
  EXPECT_TRUE(is_writable_directory(root_ + "/link"));
  EXPECT_FALSE(is_writable_directory(root_ + "/none"));
  EXPECT_FALSE(is_writable_directory("/etc/passwd"));
}

TEST_F(PrivateDirectory, FilesThatStayAreOnADisk) {
  const std::string here = fs::current_path();  // the build folder; /tmp may be memory
  EXPECT_EQ(first_on_disk({"/dev/shm", here}), here);
  EXPECT_EQ(first_on_disk({here, "/"}), here);
  EXPECT_EQ(first_on_disk({"/dev/shm", root_ + "/none"}), "/dev/shm");
  EXPECT_EQ(first_on_disk({root_ + "/none", "/dev/shm"}), "/dev/shm") << "better than none";
  EXPECT_EQ(first_on_disk({root_ + "/none", "/none"}), root_ + "/none");
}

TEST_F(PrivateDirectory, OthersMaySeeWhatIsOnNoKnownDisk) {
  EXPECT_TRUE(is_on_local_disk("/dev/shm"));
  EXPECT_FALSE(is_on_local_disk("/proc"));
  EXPECT_FALSE(is_on_local_disk(root_ + "/none"));
}

// systemd-tmpfiles takes an exclusive lock on a directory before it looks into it.
TEST_F(PrivateDirectory, ALockedOneIsPassedByWhenOldFilesAreRemoved) {
  const FileDescriptor other(::open(root_.c_str(), O_RDONLY | O_DIRECTORY));
  {
    const FileDescriptor lock = lock_directory(root_);
    EXPECT_TRUE(lock);
    EXPECT_NE(::flock(other.get(), LOCK_EX | LOCK_NB), 0);
  }
  EXPECT_EQ(::flock(other.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_FALSE(lock_directory(root_ + "/none"));
}

TEST_F(PrivateDirectory, RemovalDoesNotFollowLinksAndOvercomesReadOnly) {
  ASSERT_TRUE(make_private_directory(root_ + "/kept"));
  std::ofstream(root_ + "/kept/file") << "x";
  ASSERT_TRUE(make_private_directory(root_ + "/gone"));
  ASSERT_TRUE(make_private_directory(root_ + "/gone/locked"));
  std::ofstream(root_ + "/gone/locked/file") << "x";
  fs::create_directory_symlink(root_ + "/kept", root_ + "/gone/locked/link");
  ASSERT_EQ(::chmod((root_ + "/kept").c_str(), 0500), 0);
  ASSERT_EQ(::chmod((root_ + "/gone/locked").c_str(), 0500), 0);

  const Status removed = remove_tree(root_ + "/gone");
  EXPECT_TRUE(removed) << removed.error().message;
  EXPECT_FALSE(fs::exists(root_ + "/gone"));
  EXPECT_TRUE(fs::exists(root_ + "/kept/file"));
  EXPECT_EQ(mode(root_ + "/kept"), 0500u);

  fs::create_directory_symlink(root_ + "/kept", root_ + "/link");
  EXPECT_TRUE(remove_tree(root_ + "/link"));
  EXPECT_TRUE(fs::exists(root_ + "/kept/file"));
  EXPECT_TRUE(remove_tree(root_ + "/none"));
}

TEST_F(PrivateDirectory, RemovalLeavesWhatIsMountedThere) {
  const fs::path top = fs::canonical(root_) / "node 1";
  for (const char* name : {"work/data", "work/other", "logs"}) {
    fs::create_directories(top / name);
    std::ofstream(top / name / "file") << "x";
  }
  std::string escaped = top / "work/data";
  escaped.replace(escaped.find(' '), 1, "\\040");
  const std::string list = root_ + "/mounts";
  std::ofstream(list) << "22 1 0:5 / /proc rw - proc proc rw\n36 22 0:40 /its " << escaped
                      << " rw,relatime - nfs server:/data rw\n";

  fs::create_directory_symlink(root_, root_ + "/link");
  const Status removed = remove_tree(root_ + "/link/node 1", list);
  ASSERT_FALSE(removed);
  EXPECT_NE(removed.error().message.find(top / "work/data"), std::string::npos);
  EXPECT_TRUE(fs::exists(top / "work/data/file"));
  EXPECT_FALSE(fs::exists(top / "work/other"));
  EXPECT_FALSE(fs::exists(top / "logs"));
  for (const char* name : {"work/data", "work/data/", "work/data/.", "work/./data//"}) {
    EXPECT_FALSE(remove_tree(top / name, list)) << name << " is the mount itself";
  }
  EXPECT_FALSE(remove_tree(top, root_)) << "nobody knows what is mounted";
  EXPECT_TRUE(fs::exists(top / "work/data/file"));
  EXPECT_TRUE(remove_tree(top / "work/data/file", list)) << "asked for, and no mount";
  EXPECT_TRUE(remove_tree(top));
}

// In some chroots and containers /proc is not mounted.
TEST_F(PrivateDirectory, RemovalNeedsNoListOfMounts) {
  fs::create_directories(root_ + "/gone/below");
  std::ofstream(root_ + "/gone/below/file") << "x";
  const Status removed = remove_tree(root_ + "/gone", root_ + "/none");
  EXPECT_TRUE(removed) << removed.error().message;
  EXPECT_FALSE(fs::exists(root_ + "/gone"));
}

TEST_F(PrivateDirectory, RemovalSeesWhatTheKernelHasMounted) {
  fs::create_directories(root_ + "/gone/bound");
  fs::create_directories(root_ + "/kept");
  std::ofstream(root_ + "/kept/file") << "x";
  constexpr int kNoMounts = 77;
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string bound = root_ + "/gone/bound";
    if ((::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount((root_ + "/kept").c_str(), bound.c_str(), nullptr, MS_BIND, nullptr) != 0) {
      ::_exit(kNoMounts);
    }
    const bool by_list = remove_tree(root_ + "/gone").has_value();
    const bool by_looking = remove_tree(root_ + "/gone", root_ + "/none").has_value();
    ::_exit(by_list || by_looking ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == kNoMounts) GTEST_SKIP() << "this user may not mount";
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(fs::exists(root_ + "/kept/file"));
}

}  // namespace
}  // namespace skyward::io

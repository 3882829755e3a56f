#include "skyward/io/file_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

namespace skyward::io {
namespace {

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

TEST(FileDescriptor, ClosesWhatItOwnsOnce) {
  const int number = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  {
    FileDescriptor first(number);
    FileDescriptor second(std::move(first));
    EXPECT_FALSE(first);
    EXPECT_TRUE(second);
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(FileDescriptor, AssigningClosesTheOldOne) {
  const int first = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int second = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  FileDescriptor owner(first);
  owner = FileDescriptor(second);
  EXPECT_FALSE(is_open(first));
  EXPECT_EQ(owner.release(), second);
  EXPECT_TRUE(is_open(second));
  ::close(second);
}

TEST(FileDescriptor, PairsAreNonBlockingAndCloseOnExec) {
  auto pipe = make_pipe();
  auto pair = make_socket_pair();
  ASSERT_TRUE(pipe);
  ASSERT_TRUE(pair);
  for (const int number :
       {pipe->read.get(), pipe->write.get(), pair->ours.get(), pair->theirs.get()}) {
    EXPECT_TRUE(::fcntl(number, F_GETFD) & FD_CLOEXEC);
    EXPECT_TRUE(::fcntl(number, F_GETFL) & O_NONBLOCK);
  }
  ASSERT_TRUE(set_non_blocking(pipe->read.get(), false));
  EXPECT_FALSE(::fcntl(pipe->read.get(), F_GETFL) & O_NONBLOCK);
}

TEST(FileDescriptor, FailuresNameTheDescriptor) {
  const Status status = set_non_blocking(-1, true);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::invalid);
  EXPECT_NE(status.error().message.find("descriptor -1"), std::string::npos);
  EXPECT_EQ(errno_text(ECONNREFUSED), "Connection refused (errno 111)");
}

}  // namespace
}  // namespace skyward::io

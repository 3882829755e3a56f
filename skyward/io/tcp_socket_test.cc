#include "skyward/io/tcp_socket.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>
#include <string>

#include "skyward/io/file.h"

namespace skyward::io {
namespace {

// Of the kernel's table: destination and mask of the default route are zero.
bool has_default_route() {
  std::istringstream table(read_file("/proc/net/route").value_or(std::string()));
  std::string card, destination, rest;
  while (table >> card >> destination && std::getline(table, rest)) {
    if (destination == "00000000") return true;
  }
  return false;
}

TEST(TcpSocket, KnowsWhetherThereIsAWayToTheWorld) {
  if (!has_default_route()) GTEST_SKIP() << "this machine has no default route";
  EXPECT_TRUE(has_network());
}

TEST(TcpSocket, KnowsThatAnEmptyNamespaceHasNoNetwork) {
  constexpr int kNoNamespaces = 77;
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
      ::_exit(kNoNamespaces);
    }
    ::_exit(has_network() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == kNoNamespaces) GTEST_SKIP() << "this user may make no namespaces";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace skyward::io

#pragma once

// For tests: a program that ignores SIGCHLD, so that the kernel keeps no exit codes of its
// children.

#include <signal.h>

namespace skyward::io {

class IgnoredChildren {
 public:
  IgnoredChildren() : before_(::signal(SIGCHLD, SIG_IGN)) {}
  ~IgnoredChildren() { ::signal(SIGCHLD, before_); }
  IgnoredChildren(const IgnoredChildren&) = delete;
  IgnoredChildren& operator=(const IgnoredChildren&) = delete;

 private:
  const sighandler_t before_;
};

}  // namespace skyward::io

#pragma once

// Blocks SIGPIPE in this thread while the guard exists, so that writing to a pipe whose reader is
// gone fails with EPIPE instead of killing the user's program. (Sockets have MSG_NOSIGNAL; pipes
// have nothing.) The program's own handling of the signal is untouched.

#include <signal.h>

#include <ctime>

namespace skyward::io {

class SigpipeGuard {
 public:
  SigpipeGuard() {
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::sigemptyset(&only_sigpipe_);
    ::sigaddset(&only_sigpipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &only_sigpipe_, &previous_);
  }
  ~SigpipeGuard() {
    // Takes the signal that a failed write left behind, before it could be delivered.
    const timespec at_once{};
    if (!was_pending_) ::sigtimedwait(&only_sigpipe_, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
  }
  SigpipeGuard(const SigpipeGuard&) = delete;
  SigpipeGuard& operator=(const SigpipeGuard&) = delete;

 private:
  sigset_t only_sigpipe_;
  sigset_t previous_;
  bool was_pending_ = false;
};

}  // namespace skyward::io

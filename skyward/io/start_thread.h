#pragma once

// Starts our threads in the user's process. Signals belong to the user's threads, so ours start
// with all of them blocked, except those that report a bug of the thread itself: blocked, they
// would kill the process without a message, and handlers that print a stack (faulthandler) would
// not see them.

#include <signal.h>

#include <thread>
#include <utility>

namespace skyward::io {

// For the calling thread, and those that it starts, while this exists.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    ::sigfillset(&blocked);
    for (const int bug : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::sigdelset(&blocked, bug);
    ::pthread_sigmask(SIG_SETMASK, &blocked, &previous_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t previous_;
};

// Throws std::system_error when the system has no more threads.
template <typename Work>
std::thread start_thread(Work work) {
  const SignalsBlocked blocked;
  return std::thread(std::move(work));
}

}  // namespace skyward::io

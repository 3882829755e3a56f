#pragma once

// For tests: a child that cannot be killed. A process whose tracer ignores it stays after SIGKILL,
// like one that waits for a silent file server.

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

namespace skyward::io {

// Another process that traces this one and ignores it, so that SIGKILL does not make it exit.
class Tracer {
 public:
  explicit Tracer(pid_t traced) {
    int ready[2];
    if (::pipe(ready) != 0) return;
    tracer_ = ::fork();
    if (tracer_ == 0) {
      const char answer = ::ptrace(PTRACE_SEIZE, traced, nullptr, nullptr) == 0 ? 'y' : 'n';
      (void)!::write(ready[1], &answer, 1);
      while (true) ::pause();
    }
    char answer = 'n';
    (void)!::read(ready[0], &answer, 1);
    holds_ = answer == 'y';
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Tracer() {
    ::kill(tracer_, SIGKILL);
    ::waitpid(tracer_, nullptr, 0);
  }
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;
  bool holds() const { return holds_; }

 private:
  pid_t tracer_ = -1;
  bool holds_ = false;
};

}  // namespace skyward::io

#pragma once

// The one loop thread of a process, and the only clock. Everything that a loop does happens in
// callbacks on the thread that calls run(); post() and stop() alone may be called from any thread.
// epoll inside, and one system call for each time that the loop sleeps.

#include <cstdint>
#include <functional>
#include <memory>

#include "skyward/base/time.h"

namespace skyward::io {

using Callback = std::function<void()>;

class EventLoop {
 public:
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Runs callbacks until stop(). Call once, from the loop thread.
  void run();
  // Makes run() return after the callback in progress. Any thread.
  void stop();

  // Monotonic now. Any thread.
  static Time now();
  // Microseconds since 1970. Any thread.
  static std::int64_t wall_us();

  // Runs `callback` on the loop thread, in the order of posting. Any thread; wakes the loop if it
  // sleeps.
  void post(Callback callback);
  // In a callback: at the end of this turn the loop spins until something is posted, for `limit` at
  // most. Descriptors and timers wait meanwhile.
  void linger(Duration limit);

  // Runs `callback` once at `deadline`. The id is never 0 and never used twice.
  using TimerId = std::uint64_t;
  TimerId start_timer(Time deadline, Callback callback);
  // A timer that has fired, or 0, is ignored.
  void cancel_timer(TimerId timer);

  // Calls `ready` every time `descriptor` (non-blocking, borrowed) may be read or written without
  // blocking, until unwatch(). Level-triggered for reading; `on_writable` is called only while
  // want_write(true).
  void watch(int descriptor, Callback on_readable, Callback on_writable = {});
  void want_write(int descriptor, bool wanted);
  // Must come before the descriptor is closed. Callbacks of it are not called afterwards.
  void unwatch(int descriptor);

  // Runs `work` on one of a few blocking threads, then `done` on the loop thread. For provider
  // calls, files, copying.
  void run_blocking(Callback work, Callback done);

  // SIGINT, SIGTERM, SIGCHLD … as callbacks. One watcher a signal.
  void watch_signal(int signal, Callback callback);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace skyward::io

#pragma once

// An event loop, and the clock for deadlines. Everything that a loop does happens in callbacks on
// the thread that calls run(); other threads may call post(), stop() and the two clocks. Uses
// epoll, with one system call for each time that the loop sleeps.

#include <cstdint>
#include <functional>
#include <memory>

#include "skyward/base/time.h"

namespace skyward::io {

using Callback = std::function<void()>;

class EventLoop {
 public:
  // Throws std::system_error when the process has no descriptor left.
  EventLoop();
  // Signals do what they did before they were watched.
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

  // Calls `on_readable` whenever `descriptor` (non-blocking, borrowed) can be read without
  // blocking, and `on_writable` whenever it can be written while want_write(true), until unwatch().
  void watch(int descriptor, Callback on_readable, Callback on_writable = {});
  void want_write(int descriptor, bool wanted);
  // Must come before the descriptor is closed. Callbacks of it are not called afterwards.
  void unwatch(int descriptor);

  // Runs `work`, which must not throw, on one of a few blocking threads, then `done` on the loop
  // thread. For provider calls, files, copying.
  void run_blocking(Callback work, Callback done);

  // SIGINT, SIGTERM, SIGCHLD … as callbacks. One watcher a signal.
  void watch_signal(int signal, Callback callback);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace skyward::io

#pragma once

// A timer for an owner that says in one place when it wants to be called next.

#include <functional>
#include <utility>

#include "skyward/base/time.h"
#include "skyward/io/event_loop.h"

namespace skyward::io {

class DeadlineTimer {
 public:
  // Calls `ring` at next_deadline(), or soon after it, again and again. The owner outlives the
  // call.
  DeadlineTimer(EventLoop& loop, std::function<Time()> next_deadline, Callback ring)
      : loop_(loop), next_deadline_(std::move(next_deadline)), ring_(std::move(ring)) {}
  ~DeadlineTimer() { stop(); }
  DeadlineTimer(const DeadlineTimer&) = delete;
  DeadlineTimer& operator=(const DeadlineTimer&) = delete;

  // To be called when the deadline may be another one. A later one is seen when the armed one has
  // come: a timer that rings too early does no harm.
  void arm() {
    const Time next = next_deadline_();
    if (next >= armed_) return;
    stop();
    armed_ = next;
    timer_ = loop_.start_timer(next, [this] {
      timer_ = 0;
      armed_ = kNever;
      ring_();
      arm();
    });
  }

  // Until arm() is called again.
  void stop() {
    loop_.cancel_timer(std::exchange(timer_, 0));
    armed_ = kNever;
  }

 private:
  EventLoop& loop_;
  std::function<Time()> next_deadline_;
  Callback ring_;
  Time armed_ = kNever;
  EventLoop::TimerId timer_ = 0;
};

}  // namespace skyward::io

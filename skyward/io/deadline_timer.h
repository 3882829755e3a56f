#pragma once

// A timer for an owner that computes its next deadline in one function.

#include <functional>
#include <utility>

#include "skyward/base/time.h"
#include "skyward/io/event_loop.h"

namespace skyward::io {

class DeadlineTimer {
 public:
  // Calls `ring` at each next_deadline(), or soon after it. The owner outlives the call.
  DeadlineTimer(EventLoop& loop, std::function<Time()> next_deadline, Callback ring)
      : loop_(loop), next_deadline_(std::move(next_deadline)), ring_(std::move(ring)) {}
  ~DeadlineTimer() { stop(); }
  DeadlineTimer(const DeadlineTimer&) = delete;
  DeadlineTimer& operator=(const DeadlineTimer&) = delete;

  // Call this when the deadline may have changed. A later deadline takes effect when the armed one
  // fires: a timer that fires too early does no harm.
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

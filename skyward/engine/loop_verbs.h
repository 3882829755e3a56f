#pragma once

// The calls of a provider: they block, so each runs on a thread of its own, one at a time and in
// order. The loop's blocking threads may all be busy with uploads, while a machine to be terminated
// costs money. One kind does not wait for its turn: what ends machines. While a provision waits for
// its machines, its thread does that in between (Provider::set_meanwhile), since lost machines cost
// money until then.

#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "skyward/io/event_loop.h"

namespace skyward::engine {

class Verbs {
 public:
  using Step = std::function<void()>;

  // The loop outlives this. All but run_urgent() is called on its thread. `idle` is called there
  // when a call has been answered and none is left.
  Verbs(io::EventLoop& loop, Step idle) : loop_(loop), idle_(std::move(idle)) {}
  // Waits for the running call.
  ~Verbs();
  Verbs(const Verbs&) = delete;
  Verbs& operator=(const Verbs&) = delete;

  // `call` runs when all before it are done, then `answer` on the loop.
  void add(Step call, Step answer);
  // Runs at its turn, or when run_urgent() is called before; urgent ones stay in order.
  void add_urgent(Step call, Step answer);

  // No call runs or waits.
  bool are_idle() const { return !running_ && verbs_.empty(); }

  // On the thread of the running call, at a moment at which the provider may be called.
  void run_urgent();

 private:
  struct Verb {
    Step call{};
    Step answer{};
  };

  void next();

  io::EventLoop& loop_;
  const Step idle_;
  std::deque<Verb> verbs_{};
  bool running_ = false;
  std::thread thread_;  // of the running call
  std::mutex mutex_;
  std::deque<Verb> urgent_{};  // under the mutex
};

}  // namespace skyward::engine

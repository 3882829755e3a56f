#pragma once

// Calls from many threads, or from a loop that is faster than the pool:
//
//   sky::Executor executor(pool);
//   for (const Row& row : rows) futures.push_back(executor.submit(parse(row)));
//   executor.wait();
//
// ComputePool::submit() never waits, so such a loop would keep the arguments of all its calls in
// memory. An executor lets only so many calls be in flight.

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "skyward/base/forever.h"
#include "skyward/base/time.h"
#include "skyward/call/pending.h"
#include "skyward/pool/compute_pool.h"
#include "skyward/pool/future.h"

namespace skyward {

// Enough to keep the slots of a large pool busy with short calls.
inline constexpr int kExecutorCalls = 1024;

// Thread-safe. The pool must outlive it.
class Executor {
 public:
  // `max_in_flight`: how many of its calls may be without a result at a time, queued or running.
  // Throws ConfigurationError unless it is positive.
  explicit Executor(ComputePool& pool, int max_in_flight = kExecutorCalls);
  // Waits for its calls, unless an exception leaves the block that it is in.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Sends the call. While too many calls are in flight, it waits for one to finish first.
  template <typename R>
  Future<R> submit(const Pending<R>& call) {
    Place place = take_place();
    Future<R> future = pool_.submit(call);
    future.handle_.after_done(std::move(place).freeing());
    return future;
  }

  // Waits until none of its calls is in flight and the callbacks of its pool have returned: true;
  // or until the limit is over: false. Cancelled and failed calls are finished, too: the futures
  // tell.
  bool wait(TimeLimit limit = kForever);
  int in_flight() const;

 private:
  struct Places;
  // One of the places; freed when this is destroyed, or by the function that it turns into.
  class Place {
   public:
    explicit Place(std::shared_ptr<Places> places) : places_(std::move(places)) {}
    Place(Place&&) noexcept = default;
    Place& operator=(Place&&) = delete;
    ~Place();
    std::function<void()> freeing() &&;

   private:
    std::shared_ptr<Places> places_;  // with the callbacks of its calls; null when moved from
  };
  Place take_place();

  ComputePool& pool_;
  std::shared_ptr<Places> places_;  // shared with callbacks that the engine's thread is still in
  const int exceptions_;            // in flight when it was made
};

}  // namespace skyward

#pragma once

// The caller's end of a task in flight: wait for its outcome, take it, cancel it. Any thread.

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <utility>

#include "skyward/base/forever.h"
#include "skyward/base/time.h"
#include "skyward/call/call.h"
#include "skyward/wire/payload.h"

namespace skyward {

struct TaskState;

// Why Handle::next() returned.
enum class NextItem : std::uint8_t {
  item,       // with an item
  ended,      // the stream has ended; take() returns its outcome
  time_over,  // neither, within the timeout
};

// The caller's end of a task in flight. Copies refer to the same task. Dropping all handles does
// not cancel. A handle that was default-constructed or moved from refers to none, and throws.
class Handle {
 public:
  Handle() = default;

  // The task's number; a retry has a new one.
  std::uint64_t task() const;
  const void* pool() const;  // its Pool::identity()
  bool done() const;
  // Waits until done or the timeout is over (kForever: no limit); returns done().
  bool wait(Duration timeout) const;
  // The outcome, moved out: once, when done. Throws otherwise.
  Outcome take();
  // How large the result is, before and after it is taken; 0 until it is there.
  std::uint64_t result_bytes() const;
  // The time inside the worker, likewise.
  double run_seconds() const;
  // Requests cancellation; the outcome will be `failed` with kind cancelled, unless it was already
  // on its way.
  void cancel();
  // Calls `callback` on the engine's thread when done, or at once if it is already; it must neither
  // block nor throw nor end the program, so it is no place for users' code (callbacks.h). Several
  // callbacks are called in order.
  void on_done(std::function<void()> callback);
  // Calls `callback` when those of on_done() have returned, or at once if it is done already. Once.
  void after_done(std::function<void()> callback);

  // For a stream: waits for the next item. Taking one lets the generator continue.
  NextItem next(wire::Payload& item, Duration timeout);
  // For a group, which waits for no reader: the items that are here.
  std::list<wire::Payload> take_items();
  bool has_items() const;
  // Calls `callback` on the engine's thread with each item; it must not block. Calls it at once for
  // those that are here.
  void on_item(std::function<void(const wire::Payload&)> callback);

 private:
  friend class TaskTable;
  explicit Handle(std::shared_ptr<TaskState> state) : state_(std::move(state)) {}
  TaskState& state() const;
  std::shared_ptr<TaskState> state_;
};

}  // namespace skyward

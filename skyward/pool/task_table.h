#pragma once

// The tasks of a pool that have no outcome yet, as their callers see them.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "skyward/engine/loop_access.h"
#include "skyward/pool/handle.h"
#include "skyward/pool/pace.h"
#include "skyward/spec/id.h"

namespace skyward {

// A task that runs again when it fails.
struct Retrying {
  Call call;
  std::uint32_t attempt = 1;  // the one in flight
};

// Shared by the caller's handles and the engine's thread.
struct TaskState {
  TaskId id;                // each attempt of a retry has its own: written with the mutex held
  std::uint64_t owner = 0;  // process_generation() of the process that has the pool
  std::shared_ptr<const FunctionBody> function;  // only where events report tasks
  std::shared_ptr<engine::LoopAccess> loop;
  std::shared_ptr<Pace> pace;

  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> done = false;  // set with the mutex held
  bool taken = false;
  bool cancelled = false;
  std::unique_ptr<Retrying> retrying;  // while retries are left; the engine's thread
  Outcome outcome;
  std::uint64_t result_bytes = 0;  // of the outcome, when it is taken, too
  std::list<wire::Payload> items;  // of a stream; others need no memory for it
  std::function<void()> on_done;
  std::function<void()> after_done;  // when on_done has returned
  std::function<void(const wire::Payload&)> on_item;

  // Wakes whoever waits, and calls on_done.
  void finish(Outcome result);
  void add_item(const wire::Payload& item);
  // Spins for as long as a quick answer may take, if spinning pays; the caller sleeps after that.
  // Returns how long it has spun.
  Duration wait_awake(Duration timeout) const;
};

// Any thread.
class TaskTable {
 public:
  using States = std::vector<std::shared_ptr<TaskState>>;

  void add(const States& states);
  void remove(const States& states);
  // Null when the task has its outcome already.
  std::shared_ptr<TaskState> find(TaskId task) const;
  std::shared_ptr<TaskState> take(TaskId task);
  std::size_t size() const;

  static std::vector<Handle> handles(States states);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<TaskId, std::shared_ptr<TaskState>> tasks_;
};

}  // namespace skyward

#pragma once

// What a pool's callers and the engine's thread share; pool_open.cc opens and closes it, pool.cc
// does the rest.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/engine/loop.h"
#include "skyward/engine/loop_access.h"
#include "skyward/io/forks.h"
#include "skyward/pool/event_queue.h"
#include "skyward/pool/pace.h"
#include "skyward/pool/pool.h"
#include "skyward/pool/stored_blobs.h"
#include "skyward/pool/task_table.h"

namespace skyward {

struct PoolState final : engine::Caller {
  const std::uint64_t owner = io::process_generation();
  PoolSpec asked;  // as it was given
  FailureLine failure_line;
  std::unique_ptr<engine::EngineLoop> loop;
  std::shared_ptr<engine::LoopAccess> access;  // to `loop`; set with the mutex held
  StoredBlobs blobs{engine::EngineLoop::new_secret()};
  std::shared_ptr<Pace> pace = std::make_shared<Pace>(engine::EngineLoop::usable_cpus());
  std::atomic<std::uint64_t> next_task{1};
  std::string job_id;

  mutable std::mutex mutex;
  std::condition_variable changed;
  enum class Phase : std::uint8_t { closed, opening, active, closing } phase = Phase::closed;
  std::optional<Status> opened_status;
  bool stopping = false;              // the engine has begun to close
  std::atomic<bool> expired = false;  // ... because its time is over
  bool loop_closed = true;
  Status left;                           // the machines that may be left since it was closed last
  std::atomic<bool> last_choice = true;  // no other provider is tried after this one
  PoolSpec spec;                         // with the provider that it has
  std::size_t chosen = 0;                // ... and its index among those that were given
  CostFinal bill;                        // of all engines since it was opened last
  bool billed = false;                   // the last engine's is in it
  bool bill_due = false;                 // the last event but one
  // The last event, while another provider is tried, which may refuse before it has an engine.
  std::optional<PoolStopped> held_back;

  TaskTable tasks;
  EventQueue events;

  // ---- engine::Caller, on the engine's thread
  void complete(TaskId task, Outcome outcome) override;
  bool may_linger() const override {
    return pace->is_quick() && !pace->is_callers_core(engine::EngineLoop::current_core());
  }
  void deliver_item(TaskId task, wire::Payload item) override;
  void retain_blob(const wire::Blob& blob) override { StoredBlobs::retain(blob); }
  bool keeps_memory() const override { return blobs.keeps_memory(); }
  void drop_unused_memory() override { blobs.drop_unused_memory(); }
  void emit(Event event) override;
  void emit_lines(std::vector<Event> lines) override { events.put(std::move(lines)); }
  void opened(Status status) override;
  void closed(Status machines_left) override;

  // See Pool::hurry().
  void hurry();
  // Wraps `poll` for a wait for the end: an exception from it hurries the close. The first one is
  // kept in `thrown`.
  std::function<void()> hurrying(const std::function<void()>& poll, std::exception_ptr& thrown);
  // Waits until the engine is done, then ends its thread. Returns which machines may be left.
  Status end_loop(const std::function<void()>& poll);
  void set_closed();
  void set_chosen(std::size_t place) {
    const std::scoped_lock lock(mutex);
    chosen = place;
  }

  void begin_opening();
  std::vector<std::size_t> order(const std::vector<PoolSpec>& choices,
                                 const std::function<void()>& poll) const;
  Status open_choice(const PoolSpec& choice, const std::function<void()>& poll);

  CostFinal bill_until_now() const {
    const std::scoped_lock lock(mutex);
    return bill;
  }
  // Puts it among the events, once, where no other provider follows.
  void put_bill();

  bool is_ours() const { return io::process_generation() == owner; }

  // Calls `use` with the loop of an open pool; false when it is not open.
  template <typename Use>
  bool with_open_loop(Use use) const {
    if (!is_ours()) return false;
    std::shared_ptr<engine::LoopAccess> open;
    {
      const std::scoped_lock lock(mutex);
      if (phase == Phase::active) open = access;
    }
    return open && open->borrow(std::move(use));
  }

  // Both throw NotProvisionedError.
  void check_owner() const;
  std::shared_ptr<engine::LoopAccess> active_loop() const;

  void check_options(const Call& call) const;
  std::vector<Handle> submit(std::vector<Call> calls);
  // Sends a failed task again if it has retries left and may succeed; on the engine's thread.
  bool send_again(const std::shared_ptr<TaskState>& state, const Outcome& outcome);
};

}  // namespace skyward

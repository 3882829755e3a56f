#pragma once

// The user of a simulated pool: opens it, submits in bursts, cancels, reads streams, closes it.
// Knows the right answer of each task and checks every answer against it.

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "sim/parameters.h"
#include "sim/simulator.h"
#include "sim/task_plan.h"
#include "sim/worker_process.h"
#include "skyward/engine/core.h"
#include "skyward/spec/event.h"

namespace skyward::sim {

class User {
 public:
  struct Pool {
    std::function<void(TaskId, wire::Call)> submit;
    std::function<void(TaskId)> cancel;
    std::function<void(TaskId, std::uint32_t)> item_taken;
    std::function<void()> close;
  };

  User(Simulator& simulator, const StormParameters& parameters, Pool pool);

  // From the pool.
  void opened(const Status& status);
  void complete(TaskId task, const wire::Outcome& outcome);
  void deliver_item(TaskId task, const wire::Payload& item);
  void retain_blob(const wire::Blob& blob);
  void event(const Event& event);
  void closed();

  bool is_closed() const { return closed_; }
  // When the pool last made progress.
  Time progress() const { return progress_; }
  std::string stuck_text() const;
  int answered() const { return answered_; }

 private:
  // A large array that tasks share.
  struct Array {
    int segment = 0;
    BlobId id;
    int uses = 0;
  };

  struct Asked {
    TaskPlan plan;
    Time at{};
    Duration timeout{};
    std::uint32_t window = 0;
    std::optional<Time> cancelled_at;
    std::uint32_t items = 0;
    std::uint32_t taken = 0;
    std::uint32_t attempt = 0;  // the one whose lines arrived last
    std::uint32_t lines = 0;    // how many of them
    std::vector<std::size_t> arrays;
  };

  void next_burst();
  void submit_one();
  void broadcast();
  TaskPlan draw_plan();
  TaskPlan draw_together();
  void submit(TaskPlan plan, std::optional<NodeId> node, std::optional<std::uint32_t> worker);
  void cancel_later(TaskId task);
  void take_item(TaskId task);
  void take_group_item(Asked& asked, TaskId task, const wire::Payload& item);
  void check_result(TaskId task, const Asked& asked, const wire::Outcome& outcome);
  void check_failure(TaskId task, const Asked& asked, const Error& error) const;
  bool may_be_lost(const Asked& asked, int attempts) const;
  void release_arrays(const Asked& asked);
  void renew(Array& array);
  void close_when_done();
  void close();

  Simulator& simulator_;
  StormParameters parameters_;
  Pool pool_;
  std::vector<std::shared_ptr<const wire::FunctionBody>> functions_;
  std::vector<Array> arrays_;
  std::unordered_map<TaskId, Asked> calls_;  // not answered yet
  std::set<TaskId> done_in_order_;           // answered with all their output
  std::uint64_t next_task_ = 1;
  std::uint64_t next_blob_ = 1;
  int resends_ = 0;  // groups that came back in part
  int left_;
  int answered_ = 0;
  Time progress_;
  bool opened_ = false;
  bool stopping_ = false;  // the pool reported that it stops
  bool closing_ = false;   // the user has closed it
  bool closed_ = false;
};

}  // namespace skyward::sim

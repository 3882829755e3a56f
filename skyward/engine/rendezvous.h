#pragma once

// Tasks that start together (CallOptions::together) wait here until every node takes tasks. Each of
// them would otherwise wait on its node for those that are not there, at addresses that may be old.
// A part of Tasks: pure; core_together_test.cc shows its rules.

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/spec/id.h"

namespace skyward::engine {

class Rendezvous {
 public:
  explicit Rendezvous(std::size_t nodes) : missing_(nodes) {}

  // Whether a node took tasks, and takes them now.
  void on_intake(bool did, bool does) {
    if (did) ++missing_;
    if (does) --missing_;
  }
  // A node will not come back, so no task can start any more. Keeps the first reason.
  void give_up(Error why) {
    if (!in_vain_) in_vain_ = std::move(why);
  }

  bool is_complete() const { return missing_ == 0; }
  const std::optional<Error>& in_vain() const { return in_vain_; }
  std::size_t missing() const { return missing_; }  // nodes

  void add(TaskId task) { waiting_.push_back(task); }
  // All of them, in order; some may be gone.
  std::vector<TaskId> take() { return std::exchange(waiting_, {}); }
  const std::vector<TaskId>& waiting() const { return waiting_; }

 private:
  std::size_t missing_;
  std::optional<Error> in_vain_;
  std::vector<TaskId> waiting_;
};

}  // namespace skyward::engine

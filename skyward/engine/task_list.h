#pragma once

// The tasks of one node, in no order. Each task holds its neighbours, so that adding and removing
// one needs no memory of the node's own: the nodes of a large pool do not fit in the cache. Pure.

#include <cstddef>
#include <cstdint>

#include "skyward/base/check.h"
#include "skyward/engine/task.h"

namespace skyward::engine {

class TaskList {
 public:
  // The task stays where it is until it is removed.
  void add(Task& task) {
    SKYWARD_CHECK(task.previous == nullptr && task.next == nullptr, "task {}", task.id.value);
    task.next = first_;
    if (first_ != nullptr) first_->previous = &task;
    first_ = &task;
    ++size_;
  }

  void remove(Task& task) {
    SKYWARD_CHECK(has(task), "task {}", task.id.value);
    if (task.next != nullptr) task.next->previous = task.previous;
    (task.previous != nullptr ? task.previous->next : first_) = task.next;
    task.next = task.previous = nullptr;
    --size_;
  }

  // By its neighbours: a task of another list may be taken for one of this.
  bool has(const Task& task) const {
    return (task.previous != nullptr ? task.previous->next : first_) == &task;
  }

  const Task* first() const { return first_; }  // Task::next follows
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  Task* first_ = nullptr;
  std::uint32_t size_ = 0;
};

}  // namespace skyward::engine

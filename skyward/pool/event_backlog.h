#pragma once

// Waiting events, in order and in bounded memory. When there are too many, those whose number is
// unlimited (output lines, metrics, events of tasks) are dropped from the middle: the first and the
// newest ones stay, and so does every other event. A notice replaces what is dropped.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "skyward/spec/event.h"

namespace skyward {

class EventBacklog {
 public:
  explicit EventBacklog(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  void push(Event event);
  // Takes up to `most` of the oldest events. A notice counts as one.
  void pop(std::vector<Event>& to, std::size_t most);
  // All that waits, to an empty one of the same size.
  void move_to(EventBacklog& other);
  // Drops events from the middle until no more than `most` are left, or none may be dropped.
  void shrink(std::size_t most);
  std::size_t size() const { return head_.size() + tail_.size(); }
  bool empty() const { return head_.empty() && tail_.empty(); }
  std::size_t bytes() const { return head_bytes_ + tail_bytes_; }
  void clear();

 private:
  // What may be dropped, as the notice counts it.
  enum Kind : std::uint8_t { kLine, kMetrics, kTask, kKinds, kKept = kKinds };
  using Counts = std::array<std::uint64_t, kKinds>;

  static std::size_t weight(const Event& event);
  static Kind kind_of(const Event& event);
  static Event notice(const Counts& missing);
  void drop_from_tail();

  const std::size_t max_bytes_;
  std::deque<Event> head_;
  std::deque<Event> tail_;  // after the dropped ones
  std::size_t head_bytes_ = 0;
  std::size_t tail_bytes_ = 0;
  Counts missing_{};  // between head and tail
};

}  // namespace skyward

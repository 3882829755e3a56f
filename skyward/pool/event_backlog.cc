#include "skyward/pool/event_backlog.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <variant>

namespace skyward {

// Those that are never dropped are few, and carry little beside their own size.
std::size_t EventBacklog::weight(const Event& event) {
  std::size_t text = 0;
  if (const auto* line = std::get_if<LogLine>(&event)) text = line->line.size();
  if (const auto* started = std::get_if<TaskStarted>(&event)) text = started->name.size();
  if (const auto* finished = std::get_if<TaskFinished>(&event)) text = finished->name.size();
  if (const auto* failed = std::get_if<TaskFailed>(&event)) {
    text = failed->name.size() + failed->reason.size();
  }
  return sizeof(Event) + text;
}

EventBacklog::Kind EventBacklog::kind_of(const Event& event) {
  if (std::holds_alternative<LogLine>(event)) return kLine;
  if (std::holds_alternative<Metrics>(event)) return kMetrics;
  const bool is_of_task = std::holds_alternative<TaskStarted>(event) ||
                          std::holds_alternative<TaskFinished>(event) ||
                          std::holds_alternative<TaskFailed>(event);
  return is_of_task ? kTask : kKept;
}

Event EventBacklog::notice(const Counts& missing) {
  const auto count_of = [](std::uint64_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  std::vector<std::string> parts;
  if (missing[kLine] > 0) parts.push_back(count_of(missing[kLine], "output line"));
  if (missing[kMetrics] > 0) parts.push_back(fmt::format("{} metrics", missing[kMetrics]));
  if (missing[kTask] > 0) parts.push_back(count_of(missing[kTask], "task event"));
  std::string what = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    what += (i + 1 == parts.size() ? " and " : ", ") + parts[i];
  }
  return ErrorEvent{what + " dropped: the consumer is too slow", std::nullopt};
}

void EventBacklog::push(Event event) {
  const std::size_t bytes = weight(event);
  if (tail_.empty() && missing_ == Counts{} && head_bytes_ + bytes <= max_bytes_ / 2) {
    head_bytes_ += bytes;
    head_.push_back(std::move(event));
    return;
  }
  tail_bytes_ += bytes;
  tail_.push_back(std::move(event));
  while (tail_bytes_ > max_bytes_ / 2 && tail_.size() > 1) drop_from_tail();
}

// The oldest of the tail goes, or moves to the head.
void EventBacklog::drop_from_tail() {
  const std::size_t bytes = weight(tail_.front());
  tail_bytes_ -= bytes;
  if (const Kind kind = kind_of(tail_.front()); kind != kKept) {
    ++missing_[kind];
  } else {
    head_bytes_ += bytes;
    head_.push_back(std::move(tail_.front()));
  }
  tail_.pop_front();
}

void EventBacklog::pop(std::vector<Event>& to, std::size_t most) {
  for (; most > 0; --most) {
    if (head_.empty()) {
      if (tail_.empty() && missing_ == Counts{}) return;
      std::swap(head_, tail_);
      head_bytes_ = std::exchange(tail_bytes_, 0);
      if (missing_ != Counts{}) {
        to.push_back(notice(std::exchange(missing_, {})));
        continue;
      }
    }
    head_bytes_ -= weight(head_.front());
    to.push_back(std::move(head_.front()));
    head_.pop_front();
  }
}

void EventBacklog::move_to(EventBacklog& other) {
  std::swap(head_, other.head_);
  std::swap(tail_, other.tail_);
  std::swap(head_bytes_, other.head_bytes_);
  std::swap(tail_bytes_, other.tail_bytes_);
  std::swap(missing_, other.missing_);
}

void EventBacklog::shrink(std::size_t most) {
  if (head_.size() + tail_.size() <= most) return;
  while (head_.size() > most / 2) {  // the newer part of the head is the middle now
    const std::size_t bytes = weight(head_.back());
    head_bytes_ -= bytes;
    tail_bytes_ += bytes;
    tail_.push_front(std::move(head_.back()));
    head_.pop_back();
  }
  for (std::size_t left = tail_.size(); left > 0 && tail_.size() > most / 2; --left) {
    drop_from_tail();
  }
}

void EventBacklog::clear() {
  head_.clear();
  tail_.clear();
  head_bytes_ = tail_bytes_ = 0;
  missing_ = {};
}

}  // namespace skyward

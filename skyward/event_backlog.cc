#include "skyward/event_backlog.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <variant>

namespace skyward {
namespace {

// Others are few, and carry little beside their own size.
std::size_t weight(const Event& event) {
  const auto* line = std::get_if<LogLine>(&event);
  return sizeof(Event) + (line == nullptr ? 0 : line->line.size());
}

bool may_be_dropped(const Event& event) {
  return std::holds_alternative<LogLine>(event) || std::holds_alternative<Metrics>(event);
}

Event notice(std::uint64_t lines, std::uint64_t metrics) {
  std::string what;
  if (lines > 0) what = fmt::format("{} output line{}", lines, lines == 1 ? "" : "s");
  if (metrics > 0) what += fmt::format("{}{} metrics", lines > 0 ? " and " : "", metrics);
  return ErrorEvent{what + " dropped: they came faster than they could be shown", std::nullopt};
}

}  // namespace

void EventBacklog::push(Event event) {
  const std::size_t bytes = weight(event);
  if (tail_.empty() && lines_missing_ + metrics_missing_ == 0 &&
      head_bytes_ + bytes <= max_bytes_ / 2) {
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
  if (may_be_dropped(tail_.front())) {
    ++(std::holds_alternative<LogLine>(tail_.front()) ? lines_missing_ : metrics_missing_);
    ++dropped_;
  } else {
    head_bytes_ += bytes;
    head_.push_back(std::move(tail_.front()));
  }
  tail_.pop_front();
}

void EventBacklog::pop(std::vector<Event>& to, std::size_t most) {
  for (; most > 0; --most) {
    if (head_.empty()) {
      if (tail_.empty() && lines_missing_ + metrics_missing_ == 0) return;
      std::swap(head_, tail_);
      head_bytes_ = std::exchange(tail_bytes_, 0);
      if (lines_missing_ + metrics_missing_ > 0) {
        to.push_back(notice(std::exchange(lines_missing_, 0), std::exchange(metrics_missing_, 0)));
        continue;
      }
    }
    head_bytes_ -= weight(head_.front());
    to.push_back(std::move(head_.front()));
    head_.pop_front();
  }
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
  lines_missing_ = metrics_missing_ = dropped_ = 0;
}

}  // namespace skyward

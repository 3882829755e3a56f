#include "skyward/event_queue.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "skyward/engine/loop.h"
#include "skyward/engine/wait_polling.h"
#include "skyward/spec/limits.h"

namespace skyward {
namespace {

// Others are few, and carry little beside their own size.
std::size_t weight(const Event& event) {
  const auto* line = std::get_if<LogLine>(&event);
  return sizeof(Event) + (line == nullptr ? 0 : line->line.size());
}

bool may_be_left_out(const Event& event) {
  return std::holds_alternative<LogLine>(event) || std::holds_alternative<Metrics>(event);
}

}  // namespace

void EventQueue::open(const std::string& record_root, const std::string& job_id) {
  {
    const std::scoped_lock lock(mutex_);
    events_.clear();
    bytes_ = 0;
    left_out_ = 0;
    notice_.reset();
    ended_ = false;
    put_ = taken_ = delivered_ = 0;
    lagging_ = false;
  }
  const std::scoped_lock lock(record_mutex_);
  pool_ = job_id;
  record_.reset();
  if (!record_root.empty()) record_.emplace(record_root, job_id);
}

void EventQueue::put(Event event) {
  const std::scoped_lock lock(mutex_);
  if (bytes_ >= kMaxPendingEventBytes && may_be_left_out(event)) {
    if (left_out_++ > 0) return;
    notice_ = events_.size();
    event = ErrorEvent{};  // its text comes when they are counted
  }
  bytes_ += weight(event);
  events_.push_back(std::move(event));
  ++put_;
  if (events_.size() == 1) changed_.notify_all();
}

void EventQueue::end() {
  const std::scoped_lock lock(mutex_);
  ended_ = true;
  changed_.notify_all();
  delivery_.notify_all();
}

bool EventQueue::is_delivered() {
  const std::scoped_lock lock(mutex_);
  return delivered_ == put_ || lagging_ || ended_;
}

void EventQueue::await_delivery(Duration limit) {
  std::unique_lock lock(mutex_);
  if (lagging_) return;
  const auto delivered = [this, upto = put_] { return delivered_ >= upto || ended_; };
  lagging_ = !engine::wait_within(lock, delivery_, limit, delivered);
}

bool EventQueue::take(std::vector<Event>& taken, Duration timeout) {
  const bool more = wait(taken, timeout);
  const std::scoped_lock lock(record_mutex_);
  if (record_ && !taken.empty()) {
    if (auto why = record_->keep(taken, engine::Loop::wall_us())) {
      taken.push_back(ErrorEvent{*std::move(why), std::nullopt});
    }
  }
  for (Event& event : taken) {
    std::visit([this](auto& one) { one.pool = pool_; }, event);
  }
  return more;
}

bool EventQueue::wait(std::vector<Event>& taken, Duration timeout) {
  taken.clear();
  std::unique_lock lock(mutex_);
  if (delivered_ != taken_) {
    delivered_ = taken_;
    lagging_ = lagging_ && delivered_ != put_;
    delivery_.notify_all();
  }
  engine::wait_within(lock, changed_, timeout, [this] { return !events_.empty() || ended_; });
  taken.swap(events_);
  taken_ = put_;
  bytes_ = 0;
  const std::uint64_t left_out = std::exchange(left_out_, 0);
  if (const auto notice = std::exchange(notice_, {})) {
    taken[*notice] =
        ErrorEvent{fmt::format("{} lines and metrics are left out here: nobody took the pool's "
                               "events in time (a slow on_event?)",
                               left_out),
                   std::nullopt};
  }
  return !taken.empty() || !ended_;
}

}  // namespace skyward

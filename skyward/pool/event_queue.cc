#include "skyward/pool/event_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "skyward/engine/loop.h"
#include "skyward/engine/wait_polling.h"
#include "skyward/spec/limits.h"

namespace skyward {
namespace {

// Taken at a time: between two times the files catch up.
constexpr std::size_t kBatch = 256;
// Leaving a pool waits ten seconds for its handlers. Half of that is for all that is left, the rest
// for the first and the last of it.
constexpr Duration kLastPatience = std::chrono::seconds(5);
constexpr std::size_t kMaxAtEnd = 2048;
constexpr std::size_t kNoLimit = static_cast<std::size_t>(-1);

}  // namespace

EventQueue::EventQueue() : new_(kMaxPendingEventBytes / 2), kept_(kMaxPendingEventBytes / 2) {}

void EventQueue::open(const std::string& record_root, const std::string& job_id) {
  {
    const std::scoped_lock lock(mutex_);
    pool_ = job_id;
    new_.clear();
    kept_.clear();
    ended_ = false;
    shrink_at_ = kNever;
    put_ = taken_ = delivered_ = 0;
    lagging_ = false;
  }
  const std::scoped_lock lock(record_mutex_);
  record_.reset();
  if (!record_root.empty()) record_.emplace(record_root, job_id);
}

void EventQueue::put(Event event) {
  const std::scoped_lock lock(mutex_);
  const bool was_empty = is_all_taken();
  new_.push(std::move(event));
  ++put_;
  if (was_empty) changed_.notify_all();
}

void EventQueue::end() {
  const std::scoped_lock lock(mutex_);
  if (!std::exchange(ended_, true)) shrink_at_ = engine::Loop::now() + kLastPatience;
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
  taken.clear();
  wait(timeout);
  keep_new();
  const std::scoped_lock lock(mutex_);
  if (engine::Loop::now() >= shrink_at_) kept_.shrink(kMaxAtEnd);
  kept_.pop(taken, kBatch);
  for (Event& event : taken) {
    std::visit([this](auto& one) { one.pool = pool_; }, event);
  }
  taken_ = is_all_taken() ? put_ : std::min(put_, taken_ + taken.size());
  return !taken.empty() || !ended_ || !is_all_taken();
}

// Until there is something to take.
void EventQueue::wait(Duration timeout) {
  std::unique_lock lock(mutex_);
  if (delivered_ != taken_) {
    delivered_ = taken_;
    lagging_ = lagging_ && delivered_ != put_;
    delivery_.notify_all();
  }
  engine::wait_within(lock, changed_, timeout, [this] { return !is_all_taken() || ended_; });
}

// One thread at a time, so that what comes later is behind what came before.
void EventQueue::keep_new() {
  const std::scoped_lock record_lock(record_mutex_);
  std::vector<Event> events;
  bool ended = false;
  {
    const std::scoped_lock lock(mutex_);
    new_.pop(events, kNoLimit);
    ended = ended_;
  }
  if (record_ && !events.empty()) {
    if (auto why = record_->keep(events, engine::Loop::wall_us())) {
      events.push_back(ErrorEvent{*std::move(why), std::nullopt});
    }
  }
  if (record_ && ended) record_->close();
  const std::scoped_lock lock(mutex_);
  for (Event& event : events) kept_.push(std::move(event));
}

}  // namespace skyward

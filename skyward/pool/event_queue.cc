#include "skyward/pool/event_queue.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "skyward/base/wait_polling.h"
#include "skyward/engine/loop.h"
#include "skyward/io/start_thread.h"
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
// So much waits for whoever takes events; from then on the recorder writes it to the files. Far
// below the size at which events are dropped, and a few thousand lines at once.
constexpr std::size_t kMaxUnrecordedBytes = kMaxPendingEventBytes / 32;
// More are not kept while a disk hangs.
constexpr std::size_t kMaxNotes = 10'000;
// Whoever follows the files sees new events this soon, however slow the consumer is.
constexpr Duration kRecordWithin = std::chrono::seconds(1);
// A tenth of the silence after which an agent counts as lost: the engine's thread waits here.
constexpr Duration kDiskPatience = std::chrono::seconds(1);

}  // namespace

EventQueue::EventQueue() : new_(kMaxPendingEventBytes / 2), kept_(kMaxPendingEventBytes / 2) {}

EventQueue::~EventQueue() {
  end();
  if (recorder_.joinable()) recorder_.join();
}

void EventQueue::open(const std::string& record_root, const std::string& job_id) {
  if (recorder_.joinable()) recorder_.join();  // of the time before: the queue has ended
  {
    const std::scoped_lock lock(mutex_);
    pool_ = job_id;
    new_.clear();
    notes_.clear();
    kept_.clear();
    ended_ = false;
    shrink_at_ = kNever;
    put_ = taken_ = delivered_ = 0;
    recording_ = disk_hangs_ = false;
    lagging_ = false;
  }
  const std::scoped_lock lock(record_mutex_);
  record_.reset();
  if (record_root.empty()) return;
  record_.emplace(record_root, job_id);
  try {
    recorder_ = io::start_thread([this] { record_until_the_end(); });
    const std::scoped_lock also(mutex_);
    recording_ = true;
  } catch (const std::system_error&) {
    // The system has no more threads: whoever takes the events writes them.
  }
}

void EventQueue::record_until_the_end() {
  for (bool ended = false; !ended;) {
    {
      std::unique_lock lock(mutex_);
      record_now_.wait(lock, [this] {
        rests_ = !ended_ && new_.empty() && notes_.empty();
        return !rests_;
      });
      record_now_.wait_for(lock, kRecordWithin,
                           [this] { return ended_ || new_.bytes() > kMaxUnrecordedBytes; });
      ended = ended_;
    }
    keep_new();
  }
}

// Of many lines, each would cost a lock and a look at the recorder.
void EventQueue::put(std::vector<Event> events) {
  std::unique_lock lock(mutex_);
  put(lock, std::move(events));
}

bool EventQueue::put_if_open(Event event) {
  std::unique_lock lock(mutex_);
  if (ended_) return false;
  std::vector<Event> events;
  events.push_back(std::move(event));
  put(lock, std::move(events));
  return true;
}

void EventQueue::put(std::unique_lock<std::mutex>& lock, std::vector<Event> events) {
  await_recorder(lock);
  const bool was_empty = is_all_taken();
  put_ += events.size();
  for (Event& event : events) new_.push(std::move(event));
  if (was_empty) changed_.notify_all();
  const bool rested = std::exchange(rests_, false);
  if (rested || new_.bytes() > kMaxUnrecordedBytes) record_now_.notify_one();
}

void EventQueue::put(Event event) {
  std::vector<Event> events;
  events.push_back(std::move(event));
  put(std::move(events));
}

void EventQueue::note(ErrorEvent event) {
  const std::scoped_lock lock(mutex_);
  if (ended_ || notes_.size() == kMaxNotes) return;
  notes_.push_back({new_.size(), std::move(event)});
  if (std::exchange(rests_, false)) record_now_.notify_one();
}

void EventQueue::await_recorder(std::unique_lock<std::mutex>& lock) {
  if (!recording_ || disk_hangs_ || new_.bytes() <= 4 * kMaxUnrecordedBytes) return;
  disk_hangs_ = !wait_within(lock, recorded_, kDiskPatience, [this] { return new_.empty(); });
}

void EventQueue::end() {
  const std::scoped_lock lock(mutex_);
  if (!std::exchange(ended_, true)) shrink_at_ = engine::EngineLoop::now() + kLastPatience;
  changed_.notify_all();
  record_now_.notify_one();
  delivery_.notify_all();
}

bool EventQueue::is_delivered() {
  const std::scoped_lock lock(mutex_);
  return delivered_ == put_ || lagging_ || ended_;
}

void EventQueue::await_delivery(Duration limit) {
  std::unique_lock lock(mutex_);
  if (lagging_ || consumer_ == std::this_thread::get_id()) return;
  const auto delivered = [this, upto = put_] { return delivered_ >= upto || ended_; };
  lagging_ = !wait_within(lock, delivery_, limit, delivered);
}

bool EventQueue::take(std::vector<Event>& taken, Duration timeout) {
  taken.clear();
  wait(timeout);
  keep_new();
  const std::scoped_lock lock(mutex_);
  if (engine::EngineLoop::now() >= shrink_at_) kept_.shrink(kMaxAtEnd);
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
  consumer_ = std::this_thread::get_id();
  if (delivered_ != taken_) {
    delivered_ = taken_;
    lagging_ = lagging_ && delivered_ != put_;
    delivery_.notify_all();
  }
  wait_within(lock, changed_, timeout, [this] { return !is_all_taken() || ended_; });
}

// Adds what is wrong with the files to the events.
void EventQueue::record(std::vector<Event>& events, const std::vector<Note>& notes) {
  const std::int64_t now = engine::EngineLoop::wall_us();
  const std::span<const Event> all(events);
  std::optional<std::string> trouble;
  const auto keep = [&](std::span<const Event> some) {
    if (auto why = record_->keep(some, now)) trouble = std::move(why);
  };
  std::size_t kept = 0;
  for (const Note& note : notes) {
    const std::size_t end = std::min(note.before, all.size());
    keep(all.subspan(kept, end - kept));
    keep(std::span(&note.event, 1));
    kept = end;
  }
  keep(all.subspan(kept));
  if (trouble) events.push_back(ErrorEvent{*std::move(trouble), std::nullopt});
}

// One thread at a time, so that what comes later is behind what came before.
void EventQueue::keep_new() {
  const std::scoped_lock record_lock(record_mutex_);
  EventBacklog fresh(kMaxPendingEventBytes / 2);
  std::vector<Note> notes;
  bool ended = false;
  {
    const std::scoped_lock lock(mutex_);
    new_.move_to(fresh);
    notes.swap(notes_);
    keeping_ = !fresh.empty();
    ended = ended_;
    recorded_.notify_all();
  }
  std::vector<Event> events;
  fresh.pop(events, kNoLimit);
  if (record_) record(events, notes);
  if (record_ && ended) record_->close();
  const std::scoped_lock lock(mutex_);
  disk_hangs_ = keeping_ = false;
  for (Event& event : events) kept_.push(std::move(event));
  // Whoever waits may have looked while they were neither new nor kept.
  if (!kept_.empty()) changed_.notify_all();
}

}  // namespace skyward

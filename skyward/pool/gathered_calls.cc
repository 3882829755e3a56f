#include "skyward/pool/gathered_calls.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include "skyward/base/forever.h"
#include "skyward/base/time.h"
#include "skyward/call/error.h"
#include "skyward/call/group.h"
#include "skyward/engine/loop.h"
#include "skyward/engine/wait_polling.h"

namespace skyward {
namespace {

using std::chrono_literals::operator""ms;

constexpr std::size_t kTriedCalls = 512;  // are sent first, each by itself,
constexpr Duration kTriedTime = 50ms;     // and the others in groups if all of them end within that
constexpr double kGroupSeconds = 250e-6;  // how long a group should run
constexpr std::size_t kGrowth = 4;        // a group is at most so much larger than the last one
constexpr int kGroupsPerSlot = 4;         // on their way
constexpr int kSlowGroups = 16;           // after so many, the others go alone
constexpr Duration kPatience = 10ms;      // with groups that bring no news

// What the engine's thread tells the one that waits.
class GroupNews {
 public:
  void add(std::size_t group) {
    const std::scoped_lock lock(mutex_);
    fresh_.push_back(group);
    if (fresh_.size() == 1) changed_.notify_one();
  }
  // The groups that have news; none when the limit is over.
  std::vector<std::size_t> wait(Duration limit) {
    std::unique_lock lock(mutex_);
    engine::wait_within(lock, changed_, limit, [this] { return !fresh_.empty(); });
    return std::exchange(fresh_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::size_t> fresh_;
};

struct SentGroup {
  Handle handle;
  std::size_t begin = 0;
  std::size_t at = 0;   // the first of its calls without a result
  std::size_t end = 0;  // behind the last of its calls that has not come back
  bool begun = false;   // some of them have a result, or have come back
  bool ended = false;
};

class Gathering {
 public:
  Gathering(Pool& pool, const PackedCalls& calls)
      : pool_(pool), calls_(calls), ends_(calls.ends.size()) {}

  std::vector<CallEnd> run() {
    try_first();
    while (true) {
      fill();
      if (open_ == 0) break;
      const std::vector<std::size_t> fresh = news_->wait(in_groups_ ? kPatience : kForever);
      // A slow call keeps no slot idle: the others go alone.
      if (fresh.empty()) in_groups_ = false;
      for (const std::size_t group : fresh) take(groups_[group]);
    }
    for (auto& [place, handle] : alone_) finish_alone(place, handle);
    return std::move(ends_);
  }

 private:
  ByteView arguments(std::size_t place) const {
    const std::size_t begin = place == 0 ? 0 : calls_.ends[place - 1];
    return ByteView(calls_.arguments).subspan(begin, calls_.ends[place] - begin);
  }

  // ---- sending

  void try_first() {
    next_ = std::min(kTriedCalls, ends_.size());
    submit_alone(0, next_);
    const Time limit = engine::EngineLoop::now() + kTriedTime;
    double run_seconds = 0;
    for (auto& [place, handle] : std::exchange(alone_, {})) {
      const Time now = engine::EngineLoop::now();
      if (!handle.wait(limit > now ? limit - now : Duration{})) {
        alone_.emplace_back(place, std::move(handle));
        in_groups_ = false;
        continue;
      }
      run_seconds += finish_alone(place, handle);
      if (ends_[place].outcome) in_groups_ = false;
    }
    measure(run_seconds, next_);
  }

  void fill() {
    while (in_groups_ && next_ < ends_.size() && open_ < kGroupsPerSlot * pool_.total_slots()) {
      send_group();
    }
    if (in_groups_ || next_ == ends_.size()) return;
    send_alone(std::exchange(next_, ends_.size()), ends_.size());
  }

  void send_group() {
    GroupWriter writer;
    const std::size_t begin = next_;
    while (next_ < ends_.size() && writer.calls() < size_ && writer.add(arguments(next_))) ++next_;
    Call call{.function = calls_.function, .arguments = {}, .options = {}};
    call.options.group = true;
    call.options.stream_window = writer.calls();
    call.arguments = writer.take();
    SentGroup group{.handle = {}, .begin = begin, .at = begin, .end = next_};
    try {
      group.handle = pool_.submit(std::move(call));
    } catch (const NotProvisionedError&) {  // it has closed
      note_unsent(begin, next_);
      return;
    }
    const std::size_t number = groups_.size();
    groups_.push_back(group);
    ++open_;
    group.handle.on_item([news = news_, number](const wire::Payload&) { news->add(number); });
    group.handle.on_done([news = news_, number] { news->add(number); });
  }

  void submit_alone(std::size_t begin, std::size_t end) {
    std::vector<Call> calls;
    calls.reserve(end - begin);
    for (std::size_t place = begin; place < end; ++place) {
      const ByteView bytes = arguments(place);
      calls.push_back({.function = calls_.function, .arguments = {}, .options = {}});
      calls.back().arguments.buffers.push_back(
          wire::small_buffer(SharedBytes(Bytes(bytes.begin(), bytes.end()))));
    }
    for (Handle& handle : pool_.submit(std::move(calls))) {
      alone_.emplace_back(begin++, std::move(handle));
    }
  }

  // The same when others have been sent before: all of them are waited for.
  void send_alone(std::size_t begin, std::size_t end) {
    if (begin == end) return;
    try {
      submit_alone(begin, end);
    } catch (const NotProvisionedError&) {  // it has closed
      note_unsent(begin, end);
    }
  }

  void note_unsent(std::size_t begin, std::size_t end) {
    const auto closed = std::make_exception_ptr(CancelledError("the pool was closed"));
    for (; begin < end; ++begin) ends_[begin].unsent = closed;
  }

  // ---- answers

  // What has come of the group.
  void take(SentGroup& group) {
    if (group.ended) return;
    const bool done = group.handle.done();  // before it looks for items
    for (const wire::Payload& item : group.handle.take_items()) {
      const auto parts = group_item(item);
      if (!parts) continue;  // the engine has looked
      group.begun = true;
      const auto& owner = item.buffers[0].bytes.owner;
      for (const ByteView value : parts->results) ends_.at(group.at++).value = {owner, value};
      group.end -= parts->withdrawn;
      send_alone(group.end, group.end + parts->withdrawn);
    }
    if (done) finish(group);
  }

  // Calls without an answer when their group has ended are sent again.
  void finish(SentGroup& group) {
    group.ended = true;
    --open_;
    const std::uint64_t task = group.handle.task();
    Outcome outcome = group.handle.take();
    group.handle = {};
    const bool failed = outcome.status == OutcomeStatus::failed;
    const bool lost = failed && (outcome.error.kind == ErrorKind::lost ||
                                 outcome.error.kind == ErrorKind::unreachable);
    if (lost && group.begun) return send_alone(group.at, group.end);
    if (failed && outcome.node < 0) {  // nothing of it ran, and nothing will
      for (; group.at < group.end; ++group.at) end_with(group.at, outcome, task);
      return;
    }
    measure(outcome.run_seconds, group.at + 1 - group.begin);
    // A large result has ended its group.
    if (!failed && outcome.payload.size() > kMaxGatheredBytes) in_groups_ = false;
    end_with(group.at, std::move(outcome), task);
    send_alone(group.at + 1, group.end);
  }

  // Returns how long it ran.
  double finish_alone(std::size_t place, Handle& handle) {
    handle.wait(kForever);
    const std::uint64_t task = handle.task();
    Outcome outcome = handle.take();
    const double run_seconds = outcome.run_seconds;
    end_with(place, std::move(outcome), task);
    return run_seconds;
  }

  void end_with(std::size_t place, Outcome outcome, std::uint64_t task) {
    CallEnd& end = ends_.at(place);
    const auto& buffers = outcome.payload.buffers;
    if (outcome.status == OutcomeStatus::ok && buffers.size() == 1 && !buffers[0].in_blob()) {
      end.value = buffers[0].bytes;
      return;
    }
    end.task = task;
    end.outcome = std::make_unique<Outcome>(std::move(outcome));
  }

  // Makes the next group as large as this suggests.
  void measure(double run_seconds, std::size_t calls) {
    if (run_seconds <= 0) return;  // nothing ran
    const double fitting = kGroupSeconds * static_cast<double>(calls) / run_seconds;
    const double most = std::min<double>(kMaxGroupCalls, static_cast<double>(kGrowth * size_));
    size_ = static_cast<std::size_t>(std::clamp(fitting, 1.0, most));
    slow_groups_ = fitting < 2 ? slow_groups_ + 1 : 0;
    in_groups_ = in_groups_ && slow_groups_ < kSlowGroups;
  }

  Pool& pool_;
  const PackedCalls& calls_;
  std::vector<CallEnd> ends_;
  std::shared_ptr<GroupNews> news_ = std::make_shared<GroupNews>();
  std::vector<SentGroup> groups_;
  int open_ = 0;  // groups that have not ended
  std::vector<std::pair<std::size_t, Handle>> alone_;
  std::size_t next_ = 0;               // the first call that was not sent
  std::size_t size_ = kMaxGroupCalls;  // of the next group
  int slow_groups_ = 0;                // in a row of calls that take too long for groups
  bool in_groups_ = true;
};

}  // namespace

std::vector<CallEnd> run_gathered(Pool& pool, const PackedCalls& calls) {
  return Gathering(pool, calls).run();
}

}  // namespace skyward

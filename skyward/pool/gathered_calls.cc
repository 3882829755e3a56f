#include "skyward/pool/gathered_calls.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <utility>

#include "skyward/base/forever.h"
#include "skyward/base/time.h"
#include "skyward/base/wait_polling.h"
#include "skyward/call/error.h"
#include "skyward/call/group.h"
#include "skyward/engine/loop.h"
#include "skyward/pool/gather_pace.h"

namespace skyward {
namespace {

// What the engine's thread tells the one that waits: which groups, or calls, have news.
class News {
 public:
  void add(std::size_t number) {
    const std::scoped_lock lock(mutex_);
    fresh_.push_back(number);
    if (fresh_.size() == 1) changed_.notify_one();
  }
  // None when the limit is over.
  std::vector<std::size_t> wait(Duration limit) {
    std::unique_lock lock(mutex_);
    wait_within(lock, changed_, limit, [this] { return !fresh_.empty(); });
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
      const bool in_groups = pace_.in_groups();
      const std::vector<std::size_t> fresh = news_->wait(in_groups ? pace_.patience() : kForever);
      // A slow call keeps no slot idle: the others go alone.
      if (fresh.empty()) pace_.end_groups();
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
    const auto slots = static_cast<std::size_t>(pool_.total_slots());
    next_ = std::min(std::max(GatherPace::kTriedCalls, slots), ends_.size());
    const Time sent = engine::EngineLoop::now();
    submit_alone(0, next_);
    const auto news = std::make_shared<News>();
    for (auto& one : alone_) {
      one.second.on_done([news, place = one.first] { news->add(place); });
    }
    std::vector<bool> ended(next_);
    double run_seconds = 0;
    for (std::size_t left = next_; left > 0 && pace_.in_groups();) {
      const std::vector<std::size_t> fresh = news->wait(pace_.patience_at_first());
      if (fresh.empty()) pace_.end_groups();
      const Duration taken = engine::EngineLoop::now() - sent;
      for (const std::size_t place : fresh) {
        const double running = finish_alone(place, alone_[place].second);
        if (left-- == next_) pace_.note_first_answer(taken, from_seconds(running));
        if (ends_[place].outcome) pace_.end_groups();
        run_seconds += running;
        ended[place] = true;
      }
      pace_.note_first_calls(run_seconds, pool_.total_slots());
    }
    std::erase_if(alone_, [&ended](const auto& call) { return ended[call.first]; });
    pace_.measure(run_seconds, next_);
  }

  void fill() {
    while (pace_.in_groups() && next_ < ends_.size() &&
           open_ < pace_.groups_ahead() * pool_.total_slots()) {
      send_group();
    }
    if (pace_.in_groups() || next_ == ends_.size()) return;
    send_alone(std::exchange(next_, ends_.size()), ends_.size());
  }

  void send_group() {
    GroupWriter writer;
    const std::size_t begin = next_;
    const std::size_t most = pace_.size();
    while (next_ < ends_.size() && writer.calls() < most && writer.add(arguments(next_))) ++next_;
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
    if (failed && !outcome.begun) {
      for (; group.at < group.end; ++group.at) end_with(group.at, outcome, task);
      return;
    }
    pace_.measure(outcome.run_seconds, group.at + 1 - group.begin);
    // A large result has ended its group.
    if (!failed && outcome.payload.size() > kMaxGatheredBytes) pace_.end_groups();
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

  Pool& pool_;
  const PackedCalls& calls_;
  std::vector<CallEnd> ends_;
  std::shared_ptr<News> news_ = std::make_shared<News>();
  std::vector<SentGroup> groups_;
  int open_ = 0;  // groups that have not ended
  std::vector<std::pair<std::size_t, Handle>> alone_;
  std::size_t next_ = 0;  // the first call that was not sent
  GatherPace pace_;
};

}  // namespace

std::vector<CallEnd> run_gathered(Pool& pool, const PackedCalls& calls) {
  return Gathering(pool, calls).run();
}

}  // namespace skyward

// What agent/peers.cc does, redone as thinly as it goes: blobs that come to an agent from another
// machine, past the engine.

#include <algorithm>

#include "sim/link.h"
#include "skyward/base/check.h"
#include "skyward/spec/limits.h"

namespace skyward::sim {
namespace {

// As agent/peers.cc.
constexpr Duration kStandstill = 10s;

}  // namespace

void SimulatedLink::fetch(const wire::FetchBlob& ask) {
  fetching_.erase(ask.blob);
  if (ask.port == 0) return end_fetch(ask, wire::FetchEnd::stopped);
  SKYWARD_CHECK(agent_->inbox().expect(ask.blob, ask.content, ask.size).has_value());
  fetching_[ask.blob] = ask.attempt;
  simulator_.after(simulator_.random.between(parameters_.delay_min, 10ms),
                   [this, ask] { fetch_more(ask, simulator_.now()); });
}

bool SimulatedLink::is_fetching(const wire::FetchBlob& ask) const {
  const auto asked = fetching_.find(ask.blob);
  return agent_runs_ && asked != fetching_.end() && asked->second == ask.attempt;
}

void SimulatedLink::fetch_more(const wire::FetchBlob& ask, Time grown_at) {
  if (!is_fetching(ask)) return;
  const auto mine = agent_->inbox().find(ask.blob);
  if (!mine) {  // nobody needs it any more
    fetching_.erase(ask.blob);
    return;
  }
  if (mine->received == ask.size) return end_fetch(ask, wire::FetchEnd::whole);
  if (simulator_.random.chance(parameters_.fetch_fail)) {
    return end_fetch(
        ask, simulator_.random.chance(0.5) ? wire::FetchEnd::broken : wire::FetchEnd::unreached);
  }
  const SimulatedLink* source = events_.peer(ask.peer);
  SKYWARD_CHECK(source != this, "{} is to read from itself", name_);
  if (source == nullptr || !source->events_.is_on() || !source->agent_runs_) {
    simulator_.after(simulator_.random.between(parameters_.delay_min, 4s), [this, ask] {
      if (is_fetching(ask)) end_fetch(ask, wire::FetchEnd::broken);
    });
    return;
  }
  const auto theirs = source->agent_->inbox().find(ask.content);
  if (!theirs) return end_fetch(ask, wire::FetchEnd::missing);
  if (theirs->received > mine->received) {
    const ByteView more = theirs->bytes.subspan(mine->received);
    const std::size_t piece = std::min<std::size_t>(more.size(), kBlobChunkBytes);
    SKYWARD_CHECK(agent_->inbox().append(ask.blob, more.first(piece)).has_value());
    grown_at = simulator_.now();
  } else if (simulator_.now() > grown_at + kStandstill) {
    return end_fetch(ask, wire::FetchEnd::broken);
  }
  simulator_.after(simulator_.random.between(parameters_.delay_min, 40ms),
                   [this, ask, grown_at] { fetch_more(ask, grown_at); });
}

void SimulatedLink::end_fetch(const wire::FetchBlob& ask, wire::FetchEnd end) {
  fetching_.erase(ask.blob);
  const auto part = agent_->inbox().find(ask.blob);
  wire::BlobFetched fetched{.blob = ask.blob,
                            .content = ask.content,
                            .attempt = ask.attempt,
                            .end = end,
                            .received = part ? part->received : 0};
  if (part && part->received == part->size) fetched.end = wire::FetchEnd::whole;
  if (end == wire::FetchEnd::whole) ++fetches_;
  agent_sends(fetched);
}

}  // namespace skyward::sim

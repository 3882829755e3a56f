// The network between agents, past the engine: streams of bytes, each with room for so much on its
// way. They break at random, and so do the ways to make one. Both ends are the real ones
// (agent/blob_exchange.h).

#include <algorithm>
#include <array>
#include <utility>

#include "sim/link.h"
#include "skyward/base/check.h"

namespace skyward::sim {
namespace {

// What a connection takes before its other end has read something.
constexpr std::size_t kWindowBytes = std::size_t{256} << 10;
constexpr Duration kDialMax = 10ms;
constexpr Duration kWayMax = 40ms;

}  // namespace

// What one agent has of a stream.
struct SimulatedLink::PeerEnd {
  SimulatedLink* link = nullptr;
  std::uint64_t life = 0;  // of its agent
  PeerStreamId id = 0;
  std::size_t sent = 0;  // on its way to the other end, or not read there
  bool full = false;     // something was turned away
  Time last{};           // arrival of what was sent last

  // Runs `step` when the agent's loop gets there, if the agent still has the stream.
  template <typename Step>
  void turn(Step step) const {
    if (link == nullptr || life != link->agent_life_) return;
    link->agent_turn([to = link, stream = id, step = std::move(step)]() mutable {
      if (to->peer_streams_.contains(stream)) step(*to->exchange_, stream);
    });
  }
};

struct SimulatedLink::PeerStream {
  std::array<PeerEnd, 2> ends;  // who has dialled, who was
  bool cut = false;

  PeerEnd& end_of(const SimulatedLink* link) { return ends[0].link == link ? ends[0] : ends[1]; }
  PeerEnd& other(const PeerEnd& end) { return &end == ends.data() ? ends[1] : ends[0]; }
};

struct SimulatedLink::PeerEffects final : agent::BlobExchange::Effects {
  explicit PeerEffects(SimulatedLink& its_link) : link(its_link) {}
  Status dial(PeerStreamId stream, const wire::FetchBlob& ask) override {
    link.dial_peer(stream, ask.peer);
    return {};
  }
  std::size_t write(PeerStreamId stream, ByteView bytes) override {
    return link.write_to_peer(stream, bytes);
  }
  void close(PeerStreamId stream) override { link.close_peer(stream); }
  void on_fetched(wire::BlobFetched fetched) override {
    if (fetched.end == wire::FetchEnd::whole) ++link.fetches_;
    if (fetched.detail.contains("no new data")) ++link.stalls_;
    link.agent_sends(std::move(fetched));
  }
  SimulatedLink& link;
};

void SimulatedLink::meet_peers() {
  peer_streams_.clear();
  if (!peer_effects_) peer_effects_ = std::make_shared<PeerEffects>(*this);
  exchange_ = std::make_unique<agent::BlobExchange>(agent_->inbox(), *peer_effects_);
}

void SimulatedLink::dial_peer(PeerStreamId id, NodeId peer) {
  const auto stream = std::make_shared<PeerStream>();
  stream->ends[0] = {.link = this, .life = agent_life_, .id = id};
  peer_streams_[id] = stream;
  const Duration way = simulator_.random.between(parameters_.delay_min, kDialMax);
  SimulatedLink* source = events_.peer(peer);
  SKYWARD_CHECK(source != this, "{} is to read from itself", name_);
  if (simulator_.random.chance(parameters_.fetch_fail))
    return end_for_peer(stream, stream->ends[0], way);
  if (source == nullptr || !source->events_.is_on() || !source->agent_runs_) {
    // Where nothing answers, the one that dials sees to it in its own time.
    if (simulator_.random.chance(0.5)) end_for_peer(stream, stream->ends[0], way);
    return;
  }
  stream->ends[1] = {.link = source, .life = source->agent_life_};
  simulator_.after(way, [stream, source, life = source->agent_life_] {
    if (life != source->agent_life_) return;
    source->agent_turn([stream, source] { source->accept_peer(stream); });
  });
}

void SimulatedLink::accept_peer(const std::shared_ptr<PeerStream>& stream) {
  if (stream->cut) return;
  const PeerStreamId id = exchange_->attach(simulator_.now());
  if (id == 0) return end_for_peer(stream, stream->ends[0], {});
  stream->ends[1].id = id;
  peer_streams_[id] = stream;
  simulator_.after(simulator_.random.between(parameters_.delay_min, kDialMax), [this, stream] {
    if (stream->cut) return;
    stream->ends[0].turn([this](agent::BlobExchange& exchange, PeerStreamId dialled) {
      exchange.on_open(dialled, simulator_.now());
    });
  });
}

std::size_t SimulatedLink::write_to_peer(PeerStreamId id, ByteView bytes) {
  const std::shared_ptr<PeerStream> stream = peer_streams_.at(id);
  PeerEnd& end = stream->end_of(this);
  const std::size_t taken = std::min(bytes.size(), kWindowBytes - end.sent);
  end.full = end.full || taken < bytes.size();
  if (taken == 0) return 0;
  end.sent += taken;
  end.last = std::max(end.last,
                      simulator_.now() + simulator_.random.between(parameters_.delay_min, kWayMax));
  const ByteView sent = bytes.first(taken);
  simulator_.at(end.last, [this, stream, &end, copy = Bytes(sent.begin(), sent.end())]() mutable {
    if (stream->cut) return;
    if (simulator_.random.chance(parameters_.fetch_fail)) return break_peer_stream(stream);
    stream->other(end).turn([this, stream, &end, copy = std::move(copy)](
                                agent::BlobExchange& exchange, PeerStreamId at) {
      end.sent -= copy.size();
      exchange.on_bytes(at, copy, simulator_.now());
      if (!std::exchange(end.full, false)) return;
      end.turn([](agent::BlobExchange& writer, PeerStreamId from) { writer.on_room(from); });
    });
  });
  return taken;
}

// Who notices does so in its own time; who does not is told by the silence.
void SimulatedLink::break_peer_stream(const std::shared_ptr<PeerStream>& stream) {
  stream->cut = true;
  for (const PeerEnd& end : stream->ends) {
    if (simulator_.random.chance(0.5)) end_for_peer(stream, end, simulator_.random.about(500ms));
  }
}

void SimulatedLink::end_for_peer(const std::shared_ptr<PeerStream>& stream, const PeerEnd& end,
                                 Duration delay) {
  simulator_.after(delay, [stream, &end] {
    end.turn([](agent::BlobExchange& exchange, PeerStreamId id) { exchange.on_closed(id, {}); });
  });
}

// What is under way still arrives.
void SimulatedLink::close_peer(PeerStreamId id) {
  const auto closing = peer_streams_.extract(id);
  if (closing.empty() || closing.mapped()->cut) return;
  const std::shared_ptr<PeerStream>& stream = closing.mapped();
  const PeerEnd& end = stream->end_of(this);
  stream->cut = stream->other(end).id == 0;  // nobody has answered yet
  end_for_peer(stream, stream->other(end), std::max(end.last, simulator_.now()) - simulator_.now());
}

void SimulatedLink::cut_peers_off(bool told) {
  for (const auto& [id, stream] : std::exchange(peer_streams_, {})) {
    if (std::exchange(stream->cut, true) || !told) continue;
    const Duration delay = simulator_.random.between(parameters_.delay_min, parameters_.delay_max);
    end_for_peer(stream, stream->other(stream->end_of(this)), delay);
  }
}

}  // namespace skyward::sim

#include "sim/link.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "skyward/base/check.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/codec.h"

namespace skyward::sim {
namespace {

// As ComputePool has them by default.
constexpr engine::LinkPolicy::Limits kLimits{
    .greet = kGreetTimeout, .silence = 3s, .patience = 12s};
// As agent/peers.cc.
constexpr Duration kStandstill = 10s;
constexpr std::uint64_t kCheckOutboxEvery = 64;

// Through the bytes of the real wire and back.
wire::DecodedFrame travel(const World& world, const wire::Message& message,
                          wire::Envelope envelope) {
  const wire::EncodedFrame frame = wire::encode(message, envelope);
  const ByteView head(frame.head);
  const auto sizes = wire::decode_prefix(head.first(wire::kFramePrefixBytes));
  SKYWARD_CHECK(sizes.has_value());
  Bytes body;
  for (const SharedBytes& piece : frame.body) {
    body.insert(body.end(), piece.view.begin(), piece.view.end());
  }
  SKYWARD_CHECK(body.size() == sizes->body_bytes);
  SKYWARD_CHECK(frame.descriptors.size() == sizes->descriptors);
  std::vector<wire::Blob> blobs;
  for (const int descriptor : frame.descriptors) {
    blobs.push_back(
        {.id = {}, .size = 0, .descriptor = descriptor, .storage = world.storage(descriptor)});
  }
  auto decoded = wire::decode(head.subspan(wire::kFramePrefixBytes), SharedBytes(std::move(body)),
                              std::move(blobs));
  SKYWARD_CHECK(decoded.has_value(), "{}", decoded ? "" : decoded.error().message);
  SKYWARD_CHECK(decoded->message == message && decoded->envelope == envelope);
  return *std::move(decoded);
}

// The bytes do not matter, their number does.
Result<SharedBytes> zeros_for(const wire::Blob& blob) {
  static const auto kZeros = std::make_shared<const Bytes>(std::size_t{1} << 20);
  SKYWARD_CHECK(blob.size <= kZeros->size());
  return SharedBytes(kZeros, ByteView(*kZeros).first(blob.size));
}

}  // namespace

Link::End::End(const char* its_name)
    : name(its_name), outbox(zeros_for), inbox([](std::uint64_t) -> Result<wire::BlobInbox::Room> {
        return fail(ErrorKind::invalid, "the agent's end is set up by the link");
      }) {}

Link::Link(World& world, const NetworkDials& dials, std::string name, Door door, Events events)
    : world_(world),
      dials_(dials),
      name_(std::move(name)),
      door_(door),
      events_(std::move(events)),
      policy_(kLimits, world.now()) {
  connect();
  if (dials_.far) beat();
}

wire::BlobInbox Link::make_inbox() {
  return wire::BlobInbox([this](std::uint64_t size) -> Result<wire::BlobInbox::Room> {
    auto bytes = std::make_shared<Bytes>(size);
    wire::BlobInbox::Room room;
    room.bytes = *bytes;
    room.blob.descriptor = world_.make_segment();
    room.blob.storage = std::move(bytes);
    return room;
  });
}

bool Link::is_reachable() const {
  return events_.is_on() && door_ == Door::open && world_.now() >= outage_ends_;
}

void Link::connect() {
  if (!engine_open_) return;
  policy_.on_attempt();
  const Duration answer = world_.random.between(dials_.delay_min, 2s);
  const bool is_cut_off = world_.now() < outage_ends_;
  if ((is_cut_off && !outage_refuses_) || !events_.is_on() || door_ == Door::silent) {
    return attempt_ends({}, answer);
  }
  if (is_cut_off || door_ == Door::refusing) {
    return attempt_ends({.hopeless = world_.random.chance(0.5), .refused = true}, answer);
  }
  if (!agent_open_) {
    if (policy_.was_welcomed()) return attempt_ends({.gone = true}, answer);
    events_.on_start_agent();
    agent_started();
  }
  engine_.connection = last_line_ = ++connection_;
  engine_.greeted = false;
  wire::Hello hello;
  hello.protocol = kProtocolVersion;
  hello.last_received = engine_.session.last_received();
  transmit(engine_, hello, engine_.session.control());
  schedule_break();
}

void Link::attempt_ends(const engine::LinkPolicy::End& end, Duration delay) {
  reconnect_ = world_.after(delay, [this, end] {
    reconnect_ = World::kNoTimer;
    decide(end);
  });
}

void Link::decide(const engine::LinkPolicy::End& end) {
  if (!engine_open_) return;
  const auto again = policy_.on_end(end, world_.now(), world_.random.unit());
  if (!again) {
    return lose(end.gone ? ErrorKind::lost : ErrorKind::unreachable,
                end.gone      ? "its agent is gone"
                : end.refused ? "connection refused"
                              : "nothing answers any more");
  }
  reconnect_ = world_.at(*again, [this] {
    reconnect_ = World::kNoTimer;
    connect();
  });
}

// The engine's proof of life, for the lease.
void Link::beat() {
  world_.after(kHeartbeatInterval, [this] {
    if (!engine_open_) return;
    if (engine_.greeted) transmit(engine_, wire::Heartbeat{}, engine_.session.control());
    beat();
  });
}

void Link::schedule_break() {
  if (dials_.break_mean == Duration{}) return;
  world_.after(world_.random.about(dials_.break_mean), [this, connection = connection_] {
    if (connection == connection_ && engine_open_ && agent_open_) break_connection();
  });
}

void Link::break_connection() {
  world_.say("{}: the connection breaks", name_);
  ++breaks_;
  const std::uint64_t broken = connection_++;
  if (dials_.far && world_.random.chance(dials_.outage)) {
    outage_ends_ = world_.now() + world_.random.between(Duration{}, dials_.outage_max);
    outage_refuses_ = world_.random.chance(0.3);
  }
  world_.after(world_.random.about(500ms), [this, broken] {
    if (engine_.connection == broken) engine_notices();
  });
  world_.after(world_.random.about(500ms), [this, broken] {
    if (agent_.connection == broken) agent_notices();
    end_ungreeted(broken);
  });
}

// Nobody has spoken to the agent, and nobody knows of it: the next connection starts another.
void Link::end_ungreeted(std::uint64_t broken) {
  if (agent_open_ && agent_.connection == 0 && last_line_ == broken) events_.on_cut_off();
}

void Link::engine_notices() {
  engine_.greeted = false;
  if (reconnect_ == World::kNoTimer) decide({});
}

void Link::agent_notices() { agent_.greeted = false; }

void Link::send(End& end, wire::Message message) {
  if (std::holds_alternative<wire::Heartbeat>(message)) {
    if (end.greeted) transmit(end, std::move(message), end.session.control());
    return;
  }
  if (dials_.far) return send_far(end, std::move(message));
  send_numbered(end, std::move(message));
}

void Link::send_numbered(End& end, wire::Message message) {
  const wire::Envelope envelope = end.session.number(message);
  if (end.greeted) transmit(end, std::move(message), envelope);
}

void Link::send_far(End& end, wire::Message message) {
  if (const auto* cancel = std::get_if<wire::CancelTask>(&message)) {
    const auto run = end.outbox.withdraw(cancel->task);
    end.outbox.sanity_check();
    if (run) {
      world_.after({}, [this, task = run->task, attempt = run->attempt] {
        if (!engine_open_) return;
        events_.on_engine_message(wire::TaskResult{
            .task = task, .attempt = attempt, .status = wire::TaskStatus::cancelled});
      });
      return;
    }
  }
  if (auto* ask = std::get_if<wire::FetchBlob>(&message)) {
    if (auto answer = end.outbox.push(*ask)) {
      world_.after({}, [this, answer = *std::move(answer)] {
        if (engine_open_) events_.on_engine_message(answer);
      });
    }
  } else {
    const Status taken = end.outbox.push(message);
    SKYWARD_CHECK(taken.has_value());
  }
  while (auto next = end.outbox.next_urgent()) send_numbered(end, *std::move(next));
  pump(end);
  if (++far_sends_ % kCheckOutboxEvery == 0) end.outbox.sanity_check();
}

// One part after another, each a while after the one before.
void Link::pump(End& end) {
  if (end.pumping || !end.greeted || end.outbox.empty()) return;
  end.pumping = true;
  world_.after(world_.random.between(Duration{}, Duration{20ms}), [this, &end] {
    end.pumping = false;
    if (!end.greeted) return;
    while (auto next = end.outbox.next_urgent()) send_numbered(end, *std::move(next));
    auto next = end.outbox.next_bulk();
    if (!next) return;  // what is left waits for a fetch
    send_numbered(end, *std::move(next));
    pump(end);
  });
}

void Link::resend(End& end, std::uint64_t last_received) {
  auto kept = end.session.resume(last_received);
  SKYWARD_CHECK(kept.has_value(), "{}", kept ? "" : kept.error().message);
  for (auto& [sequence, message] : *kept) {
    transmit(end, std::move(message),
             {.sequence = sequence, .acknowledged = end.session.last_received()});
  }
  pump(end);
}

void Link::transmit(End& from, wire::Message message, wire::Envelope envelope) {
  if (dials_.codec) {
    wire::DecodedFrame frame = travel(world_, message, envelope);
    message = std::move(frame.message);
    envelope = frame.envelope;
  }
  End& to = &from == &engine_ ? agent_ : engine_;
  if (world_.random.chance(dials_.duplicate)) {
    schedule_arrival(to, from.connection, message, envelope);
  }
  schedule_arrival(to, from.connection, std::move(message), envelope);
}

void Link::schedule_arrival(End& to, std::uint64_t connection, wire::Message message,
                            wire::Envelope envelope) {
  Time arrival = world_.now() + world_.random.between(dials_.delay_min, dials_.delay_max);
  if (world_.random.chance(dials_.reorder)) {
    arrival += world_.random.between(Duration{}, Duration{50ms});  // others overtake it
  } else {
    arrival = to.last_arrival = std::max(arrival, to.last_arrival);
  }
  world_.at(arrival, [this, &to, connection, message = std::move(message), envelope]() mutable {
    if (connection == connection_) arrive(to, connection, std::move(message), envelope);
  });
}

void Link::arrive(End& end, std::uint64_t connection, wire::Message message,
                  wire::Envelope envelope) {
  const bool is_engine = &end == &engine_;
  if (!(is_engine ? engine_open_ : agent_open_)) return;
  if (const auto* hello = std::get_if<wire::Hello>(&message)) {
    return hello_arrives(*hello, connection);
  }
  if (const auto* welcome = std::get_if<wire::Welcome>(&message)) return welcome_arrives(*welcome);
  // A frame that has overtaken the greeting is as bad as a missing one.
  const auto verdict = end.greeted && end.connection == connection ? end.session.arrived(envelope)
                                                                   : wire::Session::Arrival::gap;
  switch (verdict) {
    case wire::Session::Arrival::duplicate:
      return;
    case wire::Session::Arrival::gap:
      world_.say("{}: the {} misses a frame", name_, end.name);
      break_connection();
      is_engine ? engine_notices() : agent_notices();
      return;
    case wire::Session::Arrival::deliver:
      break;
  }
  if (!is_engine) events_.on_agent_heard();
  deliver(end, std::move(message));
  if (end.greeted && end.session.should_acknowledge()) send(end, wire::Heartbeat{});
}

void Link::deliver(End& end, wire::Message message) {
  if (const auto* chunk = std::get_if<wire::BlobChunk>(&message)) {
    SKYWARD_CHECK(end.inbox.take(*chunk).has_value(), "blob {}", chunk->blob.value);
    return;
  }
  if (const auto* ask = std::get_if<wire::FetchBlob>(&message)) return fetch(*ask);
  if (const auto* fetched = std::get_if<wire::BlobFetched>(&message)) {
    if (!end.outbox.take(*fetched)) return;
    pump(end);
  }
  if (const auto* drop = std::get_if<wire::DropBlobs>(&message)) end.inbox.drop(drop->blobs);
  if (dials_.far) {
    const Status filled = end.inbox.fill_in(message);
    SKYWARD_CHECK(filled.has_value(), "{}", filled ? "" : filled.error().message);
  }
  (&end == &engine_ ? events_.on_engine_message : events_.on_agent_message)(std::move(message));
}

void Link::hello_arrives(const wire::Hello& hello, std::uint64_t connection) {
  if (agent_.greeted && agent_.connection == connection) return;  // twice
  agent_.connection = connection;
  wire::Welcome welcome;
  welcome.protocol = kProtocolVersion;
  welcome.last_received = agent_.session.last_received();
  welcome.blob_bytes = dials_.blob_bytes;
  if (const auto resumed = agent_.session.resume(hello.last_received); !resumed) {
    welcome.refusal = resumed.error().message;
    transmit(agent_, welcome, agent_.session.control());
    return events_.on_cut_off();  // it has never been greeted
  }
  agent_.greeted = true;
  events_.on_agent_heard();
  transmit(agent_, welcome, agent_.session.control());
  resend(agent_, hello.last_received);
}

void Link::welcome_arrives(const wire::Welcome& welcome) {
  if (engine_.greeted) return;  // twice
  if (!welcome.refusal.empty()) return lose(ErrorKind::unsupported, welcome.refusal);
  const auto resumed = engine_.session.resume(welcome.last_received);
  if (!resumed) return lose(ErrorKind::lost, resumed.error().message);
  engine_.greeted = true;
  engine_.outbox.set_budget(welcome.blob_bytes);
  const bool is_first = !policy_.was_welcomed();
  policy_.on_welcome();
  if (is_first) {
    events_.on_joined();
    return pump(engine_);
  }
  world_.say("{}: connected again", name_);
  resend(engine_, welcome.last_received);
}

void Link::engine_closes() {
  if (!std::exchange(engine_open_, false)) return;
  world_.cancel(reconnect_);
  if (!agent_open_ || is_broken()) return;
  world_.after(world_.random.between(dials_.delay_min, dials_.delay_max), [this] {
    if (agent_open_) events_.on_cut_off();
  });
}

// The kernel closes what it had open.
void Link::engine_killed() {
  if (!std::exchange(engine_open_, false)) return;
  world_.cancel(reconnect_);
  const bool was_broken = is_broken();
  const std::uint64_t broken = connection_++;
  world_.after(world_.random.about(500ms), [this, was_broken, broken] {
    if (!agent_open_) return;
    if (!dials_.far) return events_.on_cut_off();
    if (was_broken) return;  // it has noticed, or will
    agent_notices();
    end_ungreeted(broken);
  });
}

void Link::agent_started() {
  agent_ = End("agent");
  agent_.inbox = make_inbox();
  fetching_.clear();
  agent_open_ = true;
}

void Link::agent_ended() {
  if (!std::exchange(agent_open_, false)) return;
  if (is_broken()) return;  // found out when the engine comes back
  const Time end = std::max(world_.now() + dials_.delay_max, engine_.last_arrival);
  world_.at(end, [this] { lose(ErrorKind::lost, "its agent ended"); });
}

void Link::agent_killed() {
  if (!std::exchange(agent_open_, false) || is_broken()) return;
  // The kernel closes what it had open.
  const std::uint64_t broken = connection_++;
  world_.after(world_.random.between(dials_.delay_min, dials_.delay_max), [this, broken] {
    if (engine_.connection == broken) engine_notices();
  });
}

void Link::machine_died() {
  if (!std::exchange(agent_open_, false) || is_broken()) return;
  const std::uint64_t broken = connection_++;
  const bool told = world_.random.chance(0.5);
  world_.after(told ? world_.random.about(500ms) : kLimits.silence, [this, broken] {
    if (engine_.connection == broken) engine_notices();
  });
}

// ---- from another machine, past the engine

void Link::fetch(const wire::FetchBlob& ask) {
  fetching_.erase(ask.blob);
  if (ask.port == 0) return end_fetch(ask, wire::FetchEnd::stopped);
  SKYWARD_CHECK(agent_.inbox.expect(ask.blob, ask.content, ask.size).has_value());
  fetching_[ask.blob] = ask.attempt;
  world_.after(world_.random.between(dials_.delay_min, 10ms),
               [this, ask] { fetch_more(ask, world_.now()); });
}

void Link::fetch_more(const wire::FetchBlob& ask, Time grown_at) {
  const auto current = fetching_.find(ask.blob);
  if (!agent_open_ || current == fetching_.end() || current->second != ask.attempt) return;
  const auto mine = agent_.inbox.find(ask.blob);
  if (!mine) {  // nobody needs it any more
    fetching_.erase(current);
    return;
  }
  if (mine->received == ask.size) return end_fetch(ask, wire::FetchEnd::whole);
  if (world_.random.chance(dials_.fetch_fail)) {
    return end_fetch(
        ask, world_.random.chance(0.5) ? wire::FetchEnd::broken : wire::FetchEnd::unreached);
  }
  const Link* source = events_.peer(ask.peer);
  SKYWARD_CHECK(source != this, "{} is to read from itself", name_);
  if (source == nullptr || !source->events_.is_on() || !source->agent_open_) {
    world_.after(world_.random.between(dials_.delay_min, 4s), [this, ask] {
      const auto asked = fetching_.find(ask.blob);
      if (!agent_open_ || asked == fetching_.end() || asked->second != ask.attempt) return;
      end_fetch(ask, wire::FetchEnd::broken);
    });
    return;
  }
  const auto theirs = source->agent_.inbox.find(ask.content);
  if (!theirs) return end_fetch(ask, wire::FetchEnd::missing);
  if (theirs->received > mine->received) {
    const ByteView more = theirs->bytes.subspan(mine->received);
    const std::size_t piece = std::min<std::size_t>(more.size(), kBlobChunkBytes);
    SKYWARD_CHECK(agent_.inbox.append(ask.blob, more.first(piece)).has_value());
    grown_at = world_.now();
  } else if (world_.now() > grown_at + kStandstill) {
    return end_fetch(ask, wire::FetchEnd::broken);
  }
  world_.after(world_.random.between(dials_.delay_min, 40ms),
               [this, ask, grown_at] { fetch_more(ask, grown_at); });
}

void Link::end_fetch(const wire::FetchBlob& ask, wire::FetchEnd end) {
  fetching_.erase(ask.blob);
  const auto part = agent_.inbox.find(ask.blob);
  wire::BlobFetched fetched{.blob = ask.blob,
                            .content = ask.content,
                            .attempt = ask.attempt,
                            .end = end,
                            .received = part ? part->received : 0};
  if (part && part->received == part->size) fetched.end = wire::FetchEnd::whole;
  if (end == wire::FetchEnd::whole) ++fetches_;
  send(agent_, fetched);
}

void Link::lose(ErrorKind kind, std::string why) {
  if (!std::exchange(engine_open_, false)) return;
  world_.cancel(reconnect_);
  events_.on_lost({kind, std::move(why), {}});
}

}  // namespace skyward::sim

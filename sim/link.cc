#include "sim/link.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "skyward/base/check.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/link_limits.h"
#include "skyward/wire/codec.h"

namespace skyward::sim {
namespace {

// As ComputePool has them by default.
constexpr engine::LinkPolicy::Limits kLimits{
    .greet = kGreetTimeout, .silence = kRemoteHeartbeatTimeout, .lease = kLease};
constexpr std::uint64_t kCheckOutboxEvery = 64;
constexpr double kOffline = 0.25;  // of the other breaks: the engine's computer has no network

// Through the bytes of the real wire and back.
wire::DecodedFrame travel(const Simulator& simulator, const wire::Message& message,
                          wire::Envelope envelope) {
  const Outgoing frame = wire::encode(message, envelope);
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
        {.id = {}, .size = 0, .descriptor = descriptor, .storage = simulator.storage(descriptor)});
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

Result<wire::BlobInbox::Room> no_room(std::uint64_t) {
  return fail(ErrorKind::invalid, "results bring no large data here");
}

Result<wire::BlobInbox::Room> make_room(Simulator& simulator, std::uint64_t size) {
  auto bytes = std::make_shared<Bytes>(size);
  wire::BlobInbox::Room room;
  room.bytes = *bytes;
  room.blob.descriptor = simulator.make_segment();
  room.blob.storage = std::move(bytes);
  return room;
}

engine::EngineEndpoint::Options engine_options(Simulator& simulator,
                                               const NetworkParameters& parameters) {
  engine::EngineEndpoint::Options options;
  options.hello.protocol = kProtocolVersion;
  options.hello.descriptors = !parameters.far;
  options.reconnects = parameters.far;
  options.limits = kLimits;
  options.limits.gateway = parameters.gateway;
  options.limits.patience = engine::patience_of({}, parameters.gateway);
  options.seed = static_cast<std::uint32_t>(simulator.random.next());
  return options;
}

}  // namespace

struct SimulatedLink::EngineEffects final : engine::EngineEndpoint::Effects {
  explicit EngineEffects(SimulatedLink& its_link) : link(its_link) {}
  void connect() override { link.connect(); }
  void hang_up(Duration) override { link.close_by_engine(); }
  void write(const wire::Message& message, wire::Envelope envelope) override {
    link.write_to_agent(message, envelope);
  }
  void on_welcome() override { link.events_.on_joined(); }
  void on_message(wire::Message message) override {
    link.events_.on_engine_message(std::move(message));
  }
  void on_trouble(std::string why) override { link.simulator_.say("{}: {}", link.name_, why); }
  void on_unreached(Error) override {}
  void on_not_reconnected() override {}
  void on_recovered(Duration) override { link.simulator_.say("{}: connected again", link.name_); }
  void on_offline() override { link.events_.on_offline(); }
  void on_lost(Error why) override { link.events_.on_lost(std::move(why)); }
  SimulatedLink& link;
};

struct SimulatedLink::AgentEffects final : agent::AgentEndpoint::Effects {
  explicit AgentEffects(SimulatedLink& its_link) : link(its_link) {}
  void write(ConnectionId line, const wire::Message& message, wire::Envelope envelope) override {
    link.write_to_engine(line, message, envelope);
  }
  void close(ConnectionId line) override { link.close_by_agent(line); }
  void on_heard() override { link.events_.on_agent_heard(); }
  void on_message(const wire::Message& message) override { link.events_.on_agent_message(message); }
  void on_fetch(const wire::FetchBlob& fetch) override {
    link.exchange_->fetch(fetch, link.simulator_.now());
  }
  void on_blobs_changed() override { link.exchange_->on_blobs_changed(); }
  void on_closed(std::string) override { link.events_.on_cut_off(); }
  void log(const std::string& text) override { link.simulator_.say("{}: {}", link.name_, text); }
  SimulatedLink& link;
};

SimulatedLink::SimulatedLink(Simulator& simulator, const NetworkParameters& parameters,
                             std::string name, Door door, Events events)
    : simulator_(simulator),
      parameters_(parameters),
      name_(std::move(name)),
      door_(door),
      events_(std::move(events)),
      engine_effects_(std::make_unique<EngineEffects>(*this)),
      engine_(
          engine_options(simulator, parameters),
          {.read = zeros_for, .make = no_room, .hold = [this](wire::Payload&) { return hold(); }},
          *engine_effects_, simulator.now()) {
  engine_turn([this] { engine_.start(simulator_.now()); });
}

SimulatedLink::~SimulatedLink() = default;

bool SimulatedLink::is_reachable() const {
  return events_.is_on() && door_ == Door::open && simulator_.now() >= outage_ends_;
}

// ---- the ends

template <typename Step>
void SimulatedLink::engine_turn(Step step) {
  if (engine_killed_) return;
  step();
  arm_engine_timer();
}

void SimulatedLink::arm_engine_timer() {
  const Time next = std::max(engine_.next_deadline(), simulator_.now());
  if (next == engine_timer_.first) return;
  simulator_.cancel(engine_timer_);
  if (next == kNever) return;
  engine_timer_ = simulator_.at(next, [this] {
    engine_timer_ = Simulator::kNoTimer;
    engine_turn([this] { engine_.on_timer(moved_, simulator_.now()); });
  });
}

// When the agent's loop gets there; never if another agent has begun meanwhile.
template <typename Step>
void SimulatedLink::agent_turn(Step step) {
  if (!agent_runs_) return;
  events_.on_agent_turn([this, life = agent_life_, step = std::move(step)]() mutable {
    if (!agent_runs_ || life != agent_life_) return;
    step();
    arm_agent_timer();
  });
}

void SimulatedLink::arm_agent_timer() {
  if (!agent_runs_) return;
  const Time next =
      std::max(std::min(agent_->next_deadline(), exchange_->next_deadline()), simulator_.now());
  if (next == agent_timer_.first) return;
  simulator_.cancel(agent_timer_);
  if (next == kNever) return;
  agent_timer_ = simulator_.at(next, [this] {
    agent_timer_ = Simulator::kNoTimer;
    events_.on_agent_timer ? events_.on_agent_timer() : agent_rings();
  });
}

void SimulatedLink::agent_rings() {
  if (!agent_runs_) return;
  agent_->on_timer(simulator_.now());
  if (agent_runs_) exchange_->on_timer(simulator_.now());
  arm_agent_timer();
}

// The program has no room for a result, now and then.
Status SimulatedLink::hold() {
  if (!simulator_.memory.chance(parameters_.unstored)) return {};
  return fail(ErrorKind::exhausted, "no room for it");
}

void SimulatedLink::engine_sends(wire::Message message) {
  engine_turn([&] { engine_.send(std::move(message)); });
  if (engine_.has_unsent() && !std::exchange(engine_flushes_, true)) {
    simulator_.after({}, [this] {
      engine_flushes_ = false;
      engine_turn([this] { engine_.flush(); });
    });
  }
  if (parameters_.far && ++sends_ % kCheckOutboxEvery == 0) engine_.outbox().sanity_check();
}

void SimulatedLink::agent_sends(wire::Message message) {
  if (!agent_runs_) return;
  agent_->send(std::move(message));
  if (!agent_->has_unsent() || std::exchange(agent_flushes_, true)) return;
  simulator_.after({}, [this, life = agent_life_] {
    if (!agent_runs_ || life != agent_life_) return;
    agent_flushes_ = false;
    agent_->flush();
  });
}

void SimulatedLink::start_heartbeats(Duration interval) {
  agent_->start_heartbeats(interval, simulator_.now());
  arm_agent_timer();
}

// ---- streams

void SimulatedLink::connect() {
  const StreamId id = engine_stream_ = ++last_stream_;
  moved_ = 0;
  Stream& stream = streams_[id];
  const Duration answer = simulator_.random.between(parameters_.delay_min, 2s);
  const bool is_cut_off = simulator_.now() < outage_ends_;
  if (is_cut_off && outage_ == Outage::offline) {
    return end_for_engine(id, answer, "no network", {.offline = true});
  }
  if ((is_cut_off && outage_ == Outage::silent) || !events_.is_on() || door_ == Door::silent) {
    // Some commands give up before the engine does. A gateway may know that the machine has ended.
    const bool is_known = parameters_.gateway && !is_cut_off && !events_.is_on();
    if (simulator_.random.chance(0.5)) {
      end_for_engine(id, answer, "nothing answers", {.permanent = is_known});
    }
    return;
  }
  if (is_cut_off || door_ == Door::refusing) {
    return end_for_engine(id, answer, "connection refused",
                          {.hopeless = simulator_.random.chance(0.5), .refused = true});
  }
  if (!agent_runs_) {
    if (engine_.was_welcomed()) {
      return end_for_engine(id, answer, "its agent has exited", {.gone = true});
    }
    events_.on_start_agent();
    agent_started();
  }
  stream.line = agent_->attach(simulator_.now());
  stream.open();
  lines_[stream.line] = id;
  arm_agent_timer();
  simulator_.after({}, [this, id] {
    if (engine_stream_ == id) engine_turn([this] { engine_.on_open(); });
  });
  schedule_break(id);
}

void SimulatedLink::schedule_break(StreamId id) {
  if (!parameters_.far || parameters_.break_mean == Duration{}) return;
  simulator_.after(simulator_.random.about(parameters_.break_mean), [this, id] {
    if (engine_stream_ == id && streams_.at(id).to_agent.open) break_stream(id);
  });
}

void SimulatedLink::break_stream(StreamId id) {
  simulator_.say("{}: the connection breaks", name_);
  ++breaks_;
  streams_.at(id).cut();
  const bool offline = !simulator_.random.chance(parameters_.outage);
  if (!offline || simulator_.random.chance(kOffline)) {
    outage_ends_ = simulator_.now() + simulator_.random.between(Duration{}, parameters_.outage_max);
    outage_ = offline                         ? Outage::offline
              : simulator_.random.chance(0.3) ? Outage::refusing
                                              : Outage::silent;
  }
  end_for_engine(id, simulator_.random.about(500ms), "the connection broke");
  end_for_agent(id, simulator_.random.about(500ms));
}

// Nothing more comes from there.
void SimulatedLink::end_for_engine(StreamId id, Duration delay, const char* why,
                                   const engine::LinkPolicy::End& means) {
  simulator_.after(delay, [this, id, why, means] {
    streams_.at(id).to_engine.open = false;
    if (engine_stream_ != id) return;
    engine_stream_ = 0;
    engine_turn([&] {
      engine_.on_end({.error = {ErrorKind::lost, why, {}}, .means = means}, moved_,
                     simulator_.now());
    });
  });
}

void SimulatedLink::end_for_agent(StreamId id, Duration delay) {
  simulator_.after(delay, [this, id, life = agent_life_] {
    Stream& stream = streams_.at(id);
    stream.to_agent.open = false;
    if (life != agent_life_) return;
    agent_turn([this, line = stream.line] { agent_->on_connection_closed(line, {}); });
  });
}

// What is under way still arrives.
void SimulatedLink::close_by_engine() {
  const StreamId id = std::exchange(engine_stream_, 0);
  if (id == 0) return;
  Stream& stream = streams_.at(id);
  stream.to_engine.open = false;
  if (!stream.to_agent.open) return;  // the agent knows, or will
  const Time end = std::max(simulator_.now(), stream.to_agent.last);
  end_for_agent(id, end - simulator_.now() +
                        simulator_.random.between(parameters_.delay_min, parameters_.delay_max));
}

void SimulatedLink::close_by_agent(ConnectionId line) {
  const StreamId id = lines_.at(line);
  Stream& stream = streams_.at(id);
  stream.to_agent.open = false;
  if (!stream.to_engine.open) return;
  const Time end = std::max(simulator_.now() + parameters_.delay_max, stream.to_engine.last);
  end_for_engine(id, end - simulator_.now(), "its agent is gone");
}

void SimulatedLink::write_to_agent(const wire::Message& message, wire::Envelope envelope) {
  if (engine_stream_ == 0) return;
  Stream& stream = streams_.at(engine_stream_);
  carry(stream.to_agent, message, envelope,
        [this, line = stream.line, life = agent_life_](wire::DecodedFrame frame) {
          if (life != agent_life_) return;
          agent_turn([this, line, frame = std::move(frame)]() mutable {
            agent_->on_frame(line, std::move(frame));
          });
        });
  idle_later(stream.to_agent, [this, id = engine_stream_] {
    if (engine_stream_ == id) engine_turn([this] { engine_.on_idle(); });
  });
}

void SimulatedLink::write_to_engine(ConnectionId line, const wire::Message& message,
                                    wire::Envelope envelope) {
  const auto found = lines_.find(line);
  if (!agent_runs_ || found == lines_.end()) return;
  Stream& stream = streams_.at(found->second);
  carry(stream.to_engine, message, envelope, [this, id = found->second](wire::DecodedFrame frame) {
    if (engine_stream_ != id) return;
    ++moved_;
    engine_turn([&] { engine_.on_frame(std::move(frame), simulator_.now()); });
  });
  idle_later(stream.to_engine, [this, line, life = agent_life_] {
    if (life == agent_life_) agent_turn([this, line] { agent_->on_idle(line); });
  });
}

// Once, or twice; into the void where the connection is broken.
template <typename Arrive>
void SimulatedLink::carry(Way& way, const wire::Message& message, wire::Envelope envelope,
                          Arrive arrive) {
  if (!way.open) return;
  const bool greets = envelope.sequence == 0 && !std::holds_alternative<wire::Heartbeat>(message);
  const bool twice = parameters_.far && !greets && simulator_.random.chance(parameters_.duplicate);
  for (int i = 0; i < 1 + twice; ++i) {
    wire::DecodedFrame frame{.envelope = envelope, .message = message};
    if (parameters_.codec) frame = travel(simulator_, message, envelope);
    simulator_.at(arrival(way, greets), [&way, arrive, frame = std::move(frame)]() mutable {
      if (way.open) arrive(std::move(frame));
    });
  }
}

// In order; some frames are late, and others overtake them.
Time SimulatedLink::arrival(Way& way, bool greets) {
  const Time time =
      simulator_.now() + simulator_.random.between(parameters_.delay_min, parameters_.delay_max);
  if (parameters_.far && !greets && simulator_.random.chance(parameters_.reorder)) {
    return std::max(time + simulator_.random.between(Duration{}, Duration{50ms}), way.greets);
  }
  way.last = std::max(time, way.last);
  if (greets) way.greets = way.last;
  return way.last;
}

// The stream takes what was written, and has room for more.
template <typename Idle>
void SimulatedLink::idle_later(Way& way, Idle idle) {
  if (!parameters_.far || std::exchange(way.idle_comes, true)) return;
  simulator_.after(simulator_.random.between(Duration{}, Duration{20ms}), [&way, idle] {
    way.idle_comes = false;
    idle();
  });
}

// ---- who begins and ends

void SimulatedLink::engine_closes() {
  if (engine_killed_ || engine_.is_over()) return;
  bool told = false;
  engine_turn([&] { told = engine_.close(); });
  if (!told) return close_by_engine();
  simulator_.after(kCancelGrace, [this, id = engine_stream_] {
    if (engine_stream_ == id) close_by_engine();
  });
}

// The kernel closes what it had open.
void SimulatedLink::engine_killed() {
  if (std::exchange(engine_killed_, true)) return;
  simulator_.cancel(engine_timer_);
  const StreamId id = std::exchange(engine_stream_, 0);
  if (id == 0 || !streams_.at(id).to_agent.open) return;
  streams_.at(id).cut();
  end_for_agent(id, simulator_.random.about(500ms));
}

void SimulatedLink::agent_started() {
  ++agent_life_;
  agent_flushes_ = false;
  lines_.clear();
  agent_effects_ = std::make_unique<AgentEffects>(*this);
  agent_ = std::make_unique<agent::AgentEndpoint>(
      agent::AgentEndpoint::Options{.outlives = parameters_.far,
                                    .welcome = {.blob_bytes = parameters_.blob_bytes}},
      agent::AgentEndpoint::Memory{
          .read = zeros_for,
          .make = [this](std::uint64_t size) { return make_room(simulator_, size); }},
      *agent_effects_);
  meet_peers();
  agent_runs_ = true;
}

void SimulatedLink::agent_ended(const std::string& reason) {
  if (!agent_runs_) return;
  agent_->say_farewell(reason);
  agent_runs_ = false;
  simulator_.cancel(agent_timer_);
  cut_peers_off(true);
  for (const auto& [line, id] : lines_) {
    if (streams_.at(id).to_agent.open) close_by_agent(line);
  }
}

void SimulatedLink::agent_killed() {
  cut_agent_off(true, simulator_.random.between(parameters_.delay_min, parameters_.delay_max));
}

void SimulatedLink::machine_died() {
  // On a far one the silence says it, too.
  const bool told = simulator_.random.chance(0.5);
  cut_agent_off(told || !parameters_.far, told ? simulator_.random.about(500ms) : kLimits.silence);
}

void SimulatedLink::cut_agent_off(bool told, Duration delay) {
  if (!std::exchange(agent_runs_, false)) return;
  simulator_.cancel(agent_timer_);
  cut_peers_off(told);
  for (const auto& [line, id] : lines_) {
    Stream& stream = streams_.at(id);
    if (stream.to_engine.open && told) end_for_engine(id, delay, "its agent is gone");
    stream.cut();
  }
}

}  // namespace skyward::sim

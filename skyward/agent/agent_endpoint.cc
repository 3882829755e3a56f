#include "skyward/agent/agent_endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "skyward/spec/limits.h"
#include "skyward/spec/link_limits.h"

namespace skyward::agent {
namespace {

constexpr std::size_t kMaxUnsentBytes = std::size_t{8} << 20;
constexpr std::size_t kMaxFramesKept = kMaxUnacknowledgedFrames / 4;
// Kept while nobody is connected, before output has to wait: so many messages, and so much.
constexpr std::size_t kMaxFramesWithoutLine = 1024;

}  // namespace

AgentEndpoint::AgentEndpoint(Options options, Memory memory, Effects& effects)
    : options_(std::move(options)),
      memory_(std::move(memory)),
      effects_(effects),
      conversation_(memory_.read, memory_.make,
                    [this](const wire::Message& message, wire::Envelope envelope) {
                      effects_.write(current_, message, envelope);
                    }) {}

AgentEndpoint::ConnectionId AgentEndpoint::attach(Time now) {
  connections_.push_back(
      {.id = ++last_connection_, .greets_until = options_.outlives ? now + kGreetTimeout : kNever});
  return last_connection_;
}

// ---- sending

void AgentEndpoint::send(wire::Message message) {
  if (ended_) return;
  Status taken = wire::check_limits(message);
  if (taken) taken = conversation_.send(message);
  if (taken) return;
  wire::mark_undelivered(message, fmt::format("it cannot be sent: {}", line_of(taken.error())));
  (void)conversation_.send(message);  // it has no blobs left that could fail
}

void AgentEndpoint::flush() {
  if (!ended_) conversation_.flush();
}

void AgentEndpoint::on_idle(ConnectionId connection) {
  if (!ended_ && connection == current_) conversation_.on_idle();
}

void AgentEndpoint::start_heartbeats(Duration interval, Time now) {
  interval_ = interval;
  if (!ended_) beat(now);
}

void AgentEndpoint::beat(Time now) {
  conversation_.beat();
  beats_at_ = now + interval_;
}

void AgentEndpoint::say_farewell(const std::string& reason) {
  if (options_.outlives && !ended_) conversation_.send_control(wire::Farewell{reason});
}

bool AgentEndpoint::is_backed_up(std::size_t queued_bytes) const {
  const wire::Session& session = conversation_.session();
  if (!is_connected()) {
    return session.unacknowledged() > kMaxFramesWithoutLine ||
           session.unacknowledged_bytes() > kMaxUnsentBytes;
  }
  return queued_bytes + outbox().waiting_bytes() > kMaxUnsentBytes ||
         session.unacknowledged() > kMaxFramesKept;
}

Time AgentEndpoint::next_deadline() const {
  if (ended_) return kNever;
  Time next = beats_at_;
  for (const Connection& connection : connections_) next = std::min(next, connection.greets_until);
  return next;
}

void AgentEndpoint::on_timer(Time now) {
  if (ended_) return;
  if (now >= beats_at_) beat(now);
  const std::vector<Connection> connections = connections_;
  for (const Connection& connection : connections) {
    if (now >= connection.greets_until) close(connection.id, "the engine sent no greeting in time");
  }
}

// ---- receiving

void AgentEndpoint::on_frame(ConnectionId connection, Result<wire::DecodedFrame> frame) {
  if (ended_) return;
  if (!frame) {
    return close(connection,
                 "the engine sent a frame that cannot be read: " + frame.error().message);
  }
  const auto* hello = std::get_if<wire::Hello>(&frame->message);
  if ((hello != nullptr) == (connection == current_)) {
    return close(connection, hello != nullptr ? "the engine greeted twice"
                                              : "the engine's first message is not a greeting");
  }
  if (hello != nullptr) return greet(connection, *hello);
  effects_.on_heard();
  switch (conversation_.arrived(frame->envelope)) {
    case wire::Session::Arrival::deliver:
      break;
    case wire::Session::Arrival::duplicate:
      return;
    case wire::Session::Arrival::gap:
      return close(connection, "a message from the engine is missing");
  }
  if (!std::holds_alternative<wire::Heartbeat>(frame->message)) handle(std::move(frame->message));
  if (!ended_) conversation_.acknowledge();
}

void AgentEndpoint::handle(wire::Message message) {
  if (const auto* chunk = std::get_if<wire::BlobChunk>(&message)) {
    if (const Status taken = inbox().take(*chunk); !taken) close(current_, taken.error().message);
    return effects_.on_blobs_changed();
  }
  if (const auto* fetch = std::get_if<wire::FetchBlob>(&message)) return effects_.on_fetch(*fetch);
  if (const auto* drop = std::get_if<wire::DropBlobs>(&message)) {
    inbox().drop(drop->blobs);
    effects_.on_blobs_changed();
  }
  if (const auto* batch = std::get_if<wire::RunTasks>(&message)) {
    for (wire::RunTask& run : batch->tasks()) effects_.on_message(std::move(run));
    return;
  }
  if (auto* run = std::get_if<wire::RunTask>(&message)) {
    // The core refuses a task that misses something; why stands in the agent's log.
    if (!conversation_.uses_descriptors()) {
      if (const Status filled = inbox().fill_in(message); !filled) {
        effects_.log(filled.error().message);
        report_lost_blobs(message);
      }
    }
    if (run->body.in_blob()) read_body(*run);
  }
  effects_.on_message(message);
}

// There may be room for these when the engine sends them again.
void AgentEndpoint::report_lost_blobs(const wire::Message& message) {
  std::vector<BlobId> lost;
  wire::for_each_blob_buffer(message, [&](const wire::Buffer& buffer) {
    const BlobId blob = buffer.blob.id;
    const auto part = inbox().find(blob);
    if (part && !part->kept && std::ranges::find(lost, blob) == lost.end()) lost.push_back(blob);
  });
  for (const BlobId blob : lost) {
    send(wire::BlobFetched{
        .blob = blob, .attempt = wire::kNotAsked, .end = wire::FetchEnd::missing});
  }
}

void AgentEndpoint::read_body(wire::RunTask& run) const {
  const wire::Buffer body = std::exchange(run.body, {});
  if (body.blob.descriptor < 0) return;
  const auto bytes = memory_.read(body.blob);
  if (!bytes || bytes->empty()) return;
  run.body = wire::small_buffer({bytes->owner, bytes->view.subspan(body.offset, body.size)});
}

// ---- connections

std::string AgentEndpoint::refusal(const wire::Hello& hello) {
  if (hello.protocol != kProtocolVersion) {
    return fmt::format(
        "this agent is version {} and speaks protocol {}, the driver is version {} and speaks "
        "protocol {}; use the same version of Skyward on both sides",
        SKYWARD_VERSION, kProtocolVersion, hello.version, hello.protocol);
  }
  if (greeted_ && (hello.pool != greeting_.pool || hello.node != greeting_.node ||
                   hello.token != greeting_.token)) {
    return "this agent serves another pool";
  }
  const Status fits = conversation_.check_resume(hello.last_received);
  return fits ? std::string() : fits.error().message;
}

void AgentEndpoint::greet(ConnectionId connection, const wire::Hello& hello) {
  const auto place = std::ranges::find(connections_, connection, &Connection::id);
  if (place == connections_.end()) return;
  place->greets_until = kNever;
  wire::Welcome welcome = options_.welcome;
  welcome.protocol = kProtocolVersion;
  welcome.version = SKYWARD_VERSION;
  welcome.last_received = conversation_.session().last_received();
  welcome.refusal = refusal(hello);
  if (hello.descriptors) welcome.blob_bytes = 0;
  if (!welcome.refusal.empty()) {
    const std::string why = welcome.refusal;
    effects_.write(connection, std::move(welcome), conversation_.control_envelope());
    return close(connection, why);
  }
  if (!std::exchange(greeted_, true)) {
    greeting_ = hello;
    if (hello.descriptors) conversation_.use_descriptors();
  }
  if (current_ != 0) close(current_, "the engine has reconnected");
  if (ended_) return;
  current_ = connection;
  conversation_.greet(std::move(welcome));
  effects_.on_heard();
  conversation_.connect(hello.last_received);
  conversation_.pump();
}

void AgentEndpoint::on_connection_closed(ConnectionId connection, std::string reason) {
  close(connection, std::move(reason));
}

void AgentEndpoint::close(ConnectionId connection, std::string reason) {
  const auto place = std::ranges::find(connections_, connection, &Connection::id);
  if (ended_ || place == connections_.end()) return;
  connections_.erase(place);
  if (current_ == connection) {
    current_ = 0;
    conversation_.disconnect();
  }
  effects_.close(connection);
  // An engine that went before it had greeted will not look for this daemon, but start another.
  if (!options_.outlives || (!greeted_ && connections_.empty())) return end(std::move(reason));
  if (!reason.empty()) effects_.log(reason);
}

void AgentEndpoint::end(std::string reason) {
  ended_ = true;
  for (const Connection& connection : connections_) effects_.close(connection.id);
  effects_.on_closed(std::move(reason));
}

}  // namespace skyward::agent

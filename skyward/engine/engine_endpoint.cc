#include "skyward/engine/engine_endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "skyward/spec/limits.h"

namespace skyward::engine {
namespace {

constexpr int kPulses = 4;  // in the time of silence
// For an agent that is lost: to see the end of its input and clean up.
constexpr Duration kLostGrace = 500ms;
// That no message has used yet. An agent sends one answer after another, each behind its own blobs;
// each blob takes memory and a descriptor here.
constexpr std::size_t kMostBlobs = 2 * kMaxFrameDescriptors;

wire::Payload* brought_payload(wire::Message& message) {
  if (auto* result = std::get_if<wire::TaskResult>(&message)) return &result->payload;
  if (auto* item = std::get_if<wire::StreamItem>(&message)) return &item->payload;
  return nullptr;
}

}  // namespace

EngineEndpoint::EngineEndpoint(Options options, Memory memory, Effects& effects, Time now)
    : options_(std::move(options)),
      memory_(std::move(memory)),
      effects_(effects),
      conversation_(memory_.read, memory_.make,
                    [this](const wire::Message& message, wire::Envelope envelope) {
                      effects_.write(message, envelope);
                    }),
      policy_(options_.limits, now),
      random_(options_.seed) {
  if (options_.hello.descriptors) conversation_.use_descriptors();
}

// ---- connections

void EngineEndpoint::start(Time now) {
  if (!over_) connect(now);
}

void EngineEndpoint::connect(Time now) {
  policy_.on_attempt();
  connecting_ = true;
  moved_ = 0;
  moved_at_ = connecting_since_ = now;
  login_.reset();
  if (options_.reconnects && pulse_at_ == kNever) {
    pulse_at_ = now + options_.limits.silence / kPulses;
  }
  effects_.connect();
}

void EngineEndpoint::on_open() {
  if (over_) return;
  options_.hello.last_received = conversation_.session().last_received();
  conversation_.greet(options_.hello);
}

void EngineEndpoint::on_idle() {
  if (!over_) conversation_.on_idle();
}

Time EngineEndpoint::next_deadline() const {
  if (over_) return kNever;
  if (overrun_ || !answers_.empty()) return Time{};
  return std::min(retry_at_, pulse_at_);
}

void EngineEndpoint::on_timer(std::uint64_t moved, Time now) {
  if (overrun_) {
    return lose(ErrorKind::lost, "its agent has not acknowledged anything for too long");
  }
  deliver_answers();
  if (!over_ && now >= retry_at_) {
    retry_at_ = kNever;
    return connect(now);
  }
  if (!over_ && now >= pulse_at_) check_pulse(moved, now);
}

// Sees that something comes, and that the agent hears of us.
void EngineEndpoint::check_pulse(std::uint64_t moved, Time now) {
  const Duration interval = options_.limits.silence / kPulses;
  // This process was stopped, or the loop was held up: the silence was ours.
  if (now > pulse_at_ + 2 * interval) moved_at_ = connecting_since_ = now;
  pulse_at_ = now + interval;
  if (!connecting_) return;
  if (std::exchange(moved_, moved) != moved) {
    moved_at_ = now;
    if (!login_) login_ = now - connecting_since_;
  }
  const bool lets_go = has_volumes_ && has_taken_leave();
  if (now - moved_at_ >= policy_.silence(moved_at_) + (lets_go ? kUnmountTimeout : Duration{})) {
    return drop_connection(fmt::format("no message from it for {:.1f} s", seconds(now - moved_at_)),
                           now);
  }
  conversation_.beat();
}

// It is of no use any more, though it has not ended.
void EngineEndpoint::drop_connection(std::string why, Time now) {
  ConnectionEnd end{.error = {ErrorKind::lost, std::move(why), {}}, .means = {.silent = true}};
  // A command may have said what its attempt waits for.
  if (!policy_.is_connected()) end.error = effects_.with_its_words(std::move(end.error));
  effects_.hang_up(Duration{});
  if (moved_ > 0) answered_ = true;
  ended(std::move(end), now);
}

void EngineEndpoint::on_end(ConnectionEnd end, std::uint64_t moved, Time now) {
  if (moved > 0) answered_ = true;
  ended(std::move(end), now);
}

void EngineEndpoint::ended(ConnectionEnd end, Time now) {
  connecting_ = false;
  conversation_.disconnect();
  const bool was_connected = policy_.is_connected();
  if (was_connected) answered_ = offline_ = false;
  std::uniform_real_distribution<double> jitter(0, 1);
  const auto again = policy_.on_end(end.means, now, jitter(random_));
  if (over_) return;
  if (has_taken_leave()) return lose(ErrorKind::lost, "its agent ended: " + farewell_);
  if (!options_.reconnects || end.means.permanent || end.means.gone) {
    return lose(end.error.kind, std::move(end.error.message), std::move(end.error.hint));
  }
  if (!again) {
    const ErrorKind kind =
        end.error.kind == ErrorKind::lost ? ErrorKind::unreachable : end.error.kind;
    return lose(kind, end.error.message + tries_text(policy_.trouble(now)),
                std::move(end.error.hint));
  }
  retry_at_ = *again;
  if (end.means.offline && policy_.was_welcomed()) {
    if (!std::exchange(offline_, true)) effects_.on_trouble("this computer has no network");
    return effects_.on_offline();
  }
  if (was_connected) return effects_.on_trouble(std::move(end.error.message));
  if (policy_.was_welcomed()) return effects_.on_not_reconnected();
  effects_.on_unreached(std::move(end.error));
}

std::string EngineEndpoint::tries_text(Duration tried) const {
  if (policy_.tries() <= 1) return {};
  return fmt::format(" (tried {} times in {:.1f} s)", policy_.tries(), seconds(tried));
}

bool EngineEndpoint::is_hopeless() const {
  return !policy_.is_connected() && policy_.tries() > 0 && !answered_;
}

// ---- sending

void EngineEndpoint::send(wire::Message message) {
  if (over_) return;
  if (std::holds_alternative<wire::Heartbeat>(message)) return conversation_.send_control(message);
  if (std::holds_alternative<wire::Shutdown>(message)) told_to_end_ = true;
  if (const auto* configure = std::get_if<wire::Configure>(&message)) {
    has_volumes_ = !configure->end_script.empty();
  }
  if (conversation_.session().is_full()) {
    overrun_ = true;
    return;
  }
  if (!conversation_.uses_descriptors()) {
    if (const auto* cancel = std::get_if<wire::CancelTask>(&message)) {
      if (const auto run = conversation_.outbox().withdraw(cancel->task)) {
        return answer_cancelled(*run);
      }
    }
    if (auto* fetch = std::get_if<wire::FetchBlob>(&message)) {
      if (auto answer = conversation_.outbox().push(*fetch)) {
        answers_.emplace_back(*std::move(answer));
      }
      return conversation_.pump();
    }
  }
  if (const Status taken = conversation_.send(message); !taken) refuse_task(message, taken.error());
}

void EngineEndpoint::flush() {
  if (!over_) conversation_.flush();
}

void EngineEndpoint::answer_cancelled(const wire::RunTask& run) {
  answers_.emplace_back(wire::TaskResult{.task = run.task,
                                         .attempt = run.attempt,
                                         .status = wire::TaskStatus::cancelled,
                                         .worker = run.worker.value_or(0),
                                         .detail = "cancelled"});
}

// The task's arguments cannot be read: it ends as if its worker had said so.
void EngineEndpoint::refuse_task(const wire::Message& message, const Error& why) {
  const auto* run = std::get_if<wire::RunTask>(&message);
  if (run == nullptr) return;
  answers_.emplace_back(wire::TaskResult{.task = run->task,
                                         .attempt = run->attempt,
                                         .status = wire::TaskStatus::not_begun,
                                         .worker = run->worker.value_or(0),
                                         .detail = "the call could not be sent: " + why.message});
}

void EngineEndpoint::deliver_answers() {
  for (std::size_t left = answers_.size(); left > 0 && !over_; --left) {
    wire::Message answer = std::move(answers_.front());
    answers_.pop_front();
    effects_.on_message(std::move(answer));
  }
}

// ---- receiving

void EngineEndpoint::on_frame(Result<wire::DecodedFrame> frame, Time now) {
  if (over_) return;
  if (!frame) {
    return lose(ErrorKind::lost,
                "its agent sent a frame that cannot be read: " + frame.error().message);
  }
  const bool is_welcome = std::holds_alternative<wire::Welcome>(frame->message);
  if (is_welcome == policy_.is_connected()) {
    return lose(ErrorKind::lost,
                is_welcome ? "its agent greeted twice" : "its agent did not greet first");
  }
  if (is_welcome) return handle_welcome(std::get<wire::Welcome>(frame->message), now);
  switch (conversation_.arrived(frame->envelope)) {
    case wire::Session::Arrival::deliver:
      break;
    case wire::Session::Arrival::duplicate:
      return;
    case wire::Session::Arrival::gap:
      if (!options_.reconnects) return lose(ErrorKind::lost, "a message from its agent is missing");
      return drop_connection("a message from its agent is missing", now);
  }
  handle(std::move(frame->message));
  if (!over_) conversation_.acknowledge();
}

void EngineEndpoint::handle(wire::Message message) {
  if (std::holds_alternative<wire::Heartbeat>(message)) {
    return effects_.on_message(std::move(message));
  }
  if (auto* farewell = std::get_if<wire::Farewell>(&message)) {
    farewell_ = farewell->reason.empty() ? "it did not say why" : std::move(farewell->reason);
    return;
  }
  if (const auto* chunk = std::get_if<wire::BlobChunk>(&message)) {
    wire::BlobInbox& inbox = conversation_.inbox();
    if (const Status taken = inbox.take(*chunk); !taken) {
      lose(ErrorKind::lost, "its agent sent an unreadable message: " + taken.error().message);
    } else if (inbox.count() > kMostBlobs) {
      lose(ErrorKind::lost, "its agent sent more blobs than a message can use");
    }
    return;
  }
  if (const auto* fetched = std::get_if<wire::BlobFetched>(&message)) {
    if (!conversation_.outbox().take(*fetched)) return;
    conversation_.pump();
  }
  if (const auto* batch = std::get_if<wire::TaskResults>(&message)) {
    for (wire::TaskResult& result : batch->results()) {
      if (!over_) effects_.on_message(std::move(result));
    }
    return;
  }
  if (!hold_payload(message)) return;
  effects_.on_message(std::move(message));
}

// What the message brought is put into memory of ours. False: the node is lost over it.
bool EngineEndpoint::hold_payload(wire::Message& message) {
  wire::Payload* payload = brought_payload(message);
  if (payload == nullptr) return true;
  Status filled = conversation_.inbox().fill_in(message);
  conversation_.inbox().drop_those_of(message);
  if (filled) filled = memory_.hold(*payload);
  if (filled) return true;
  if (filled.error().kind == ErrorKind::invalid) {
    lose(ErrorKind::lost, "its agent sent an unreadable message: " + filled.error().message);
    return false;
  }
  wire::mark_undelivered(message, "it cannot be stored here: " + filled.error().message);
  return true;
}

void EngineEndpoint::handle_welcome(const wire::Welcome& welcome, Time now) {
  if (!welcome.refusal.empty()) {
    return lose(ErrorKind::unsupported, "its agent refused the connection: " + welcome.refusal);
  }
  if (welcome.protocol != kProtocolVersion) {
    return lose(ErrorKind::unsupported,
                fmt::format("its agent (version {}) speaks protocol {}, this program speaks {}; "
                            "end the old agent or install the same version on both sides",
                            welcome.version, welcome.protocol, kProtocolVersion));
  }
  if (const Status fits = conversation_.check_resume(welcome.last_received); !fits) {
    return lose(ErrorKind::lost, fits.error().message);
  }
  const bool is_first = !policy_.was_welcomed();
  const Duration trouble = policy_.trouble(now);
  policy_.on_welcome(login_.value_or(now - connecting_since_));
  conversation_.outbox().set_budget(welcome.blob_bytes);
  conversation_.connect(welcome.last_received);
  if (is_first) {
    effects_.on_welcome();
  } else {
    effects_.on_recovered(trouble);
  }
  if (!over_) conversation_.pump();
}

// ---- the end

void EngineEndpoint::give_up(ErrorKind kind, std::string why) { lose(kind, std::move(why)); }

void EngineEndpoint::lose(ErrorKind kind, std::string why, std::string hint) {
  if (std::exchange(over_, true)) return;
  if (std::exchange(connecting_, false)) effects_.hang_up(kLostGrace);
  effects_.on_lost({kind, std::move(why), std::move(hint)});
}

bool EngineEndpoint::close() {
  if (over_) return false;
  // A daemon would live on without its connection.
  const bool told = options_.reconnects && policy_.is_connected();
  if (told) send(wire::Shutdown{0});
  over_ = true;
  return told;
}

}  // namespace skyward::engine

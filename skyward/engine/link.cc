#include "skyward/engine/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "skyward/engine/received_blob.h"
#include "skyward/io/shared_memory.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/codec.h"

namespace skyward::engine {
namespace {

// A new connection on which nothing moves for so long is given up for the next one.
constexpr Duration kFirstAttemptPatience = 15s;
constexpr Duration kAttemptPatience = 5s;
constexpr Duration kFirstPause = 100ms;
constexpr Duration kLongestPause = 2s;
constexpr int kPulsesInSilence = 4;
// For a command whose agent is given up: to see the end of its input and clean up.
constexpr Duration kStopGrace = 500ms;
constexpr Duration kSweepTimeout = 8s;
constexpr Duration kHopelessSweepTimeout = 2s;

io::Outgoing outgoing(wire::EncodedFrame frame) {
  return {.head = std::move(frame.head),
          .body = std::move(frame.body),
          .descriptors = std::move(frame.descriptors),
          .keep = std::move(frame.keep)};
}

wire::Blob received_blob(io::FileDescriptor descriptor) {
  auto received = std::make_shared<ReceivedBlob>(std::move(descriptor));
  const int number = received->descriptor();
  return {.id = {}, .size = 0, .descriptor = number, .storage = std::move(received)};
}

std::vector<wire::Blob> received_blobs(std::vector<io::FileDescriptor> descriptors) {
  std::vector<wire::Blob> blobs;
  blobs.reserve(descriptors.size());
  for (io::FileDescriptor& descriptor : descriptors) {
    blobs.push_back(received_blob(std::move(descriptor)));
  }
  return blobs;
}

// For reading while it is sent; the blob's memory is not used again before.
Result<SharedBytes> bytes_of(const wire::Blob& blob) {
  auto copy = io::duplicate(blob.descriptor);
  if (!copy) return fail(copy);
  auto memory = io::SharedMemory::map_private(std::move(*copy), blob.size);
  if (!memory) return fail(memory);
  const ByteView view((*memory)->data(), blob.size);
  using Keep = std::pair<std::shared_ptr<io::SharedMemory>, std::shared_ptr<const void>>;
  return SharedBytes(std::make_shared<Keep>(*std::move(memory), blob.storage), view);
}

Result<wire::BlobInbox::Room> make_room(std::uint64_t size) {
  auto memory = io::SharedMemory::create(size);
  if (!memory) return fail(memory);
  auto descriptor = io::duplicate((*memory)->descriptor());
  if (!descriptor) return fail(descriptor);
  // Written through this mapping, read through the one that ReceivedBlob makes.
  using Stored = std::pair<std::shared_ptr<io::SharedMemory>, std::shared_ptr<ReceivedBlob>>;
  wire::BlobInbox::Room room;
  room.bytes = {(*memory)->data(), (*memory)->size()};
  room.write = [to = memory->get()](std::uint64_t offset, ByteView part) {
    return to->write(offset, part);
  };
  auto received = std::make_shared<ReceivedBlob>(*std::move(descriptor));
  const auto stored = std::make_shared<Stored>(*std::move(memory), std::move(received));
  room.blob.descriptor = stored->second->descriptor();
  room.blob.storage = std::shared_ptr<const ReceivedBlob>(stored, stored->second.get());
  return room;
}

wire::Payload* payload_of(wire::Message& message) {
  if (auto* result = std::get_if<wire::TaskResult>(&message)) return &result->payload;
  if (auto* item = std::get_if<wire::StreamItem>(&message)) return &item->payload;
  return nullptr;
}

}  // namespace

Link::Link(io::EventLoop& loop, wire::Hello hello, provider::Connection connection, bool socket,
           std::uint32_t life, const Limits& limits, Events events)
    : loop_(loop),
      events_(std::move(events)),
      hello_(std::move(hello)),
      connection_(std::move(connection)),
      life_(life),
      limits_(limits),
      outbox_(bytes_of),
      inbox_(make_room),
      trouble_since_(io::EventLoop::now()),
      random_(static_cast<unsigned>(trouble_since_.time_since_epoch().count()) + hello_.node.value),
      alive_(std::make_shared<bool>(true)) {
  hello_.descriptors = socket;
  if (connection_.shell) {
    inspect();
  } else {
    attempt();
  }
}

Link::~Link() {
  *alive_ = false;
  for (const auto timer : {pulse_, retry_, closing_}) loop_.cancel_timer(timer);
}

void Link::post(std::function<void()> callback) {
  loop_.post([alive = alive_, callback = std::move(callback)] {
    if (*alive) callback();
  });
}

// ---- making connections

void Link::inspect() {
  auto program = std::make_shared<Result<AgentProgram>>();
  loop_.run_blocking([program, path = connection_.agent] { *program = inspect_agent(path); },
                     [this, alive = alive_, program] {
                       if (!*alive || over_) return;
                       if (!*program) return lose(ErrorKind::invalid, program->error().message);
                       agent_ = **program;
                       attempt();
                     });
}

void Link::attempt() {
  ++tries_;
  greeted_ = false;
  moved_ = 0;
  moved_at_ = io::EventLoop::now();
  Attempt::Entry entry;
  if (connection_.shell) {
    entry.machine = agent_.machine;
    entry.files.push_back(agent_file());
    for (const provider::Upload& upload : connection_.uploads) {
      entry.files.push_back(
          {.path = upload.path, .hash = upload.sha256, .place = "files/" + upload.sha256});
    }
    entry.line = entry_line(entry.files, place(), welcomed_);
  }
  auto owner = std::make_shared<const Attempt*>(nullptr);
  attempt_ = std::make_unique<Attempt>(
      loop_, connection_, hello_.descriptors, std::move(entry),
      Attempt::Events{.on_reached =
                          [this] {
                            if (!reached_at_) reached_at_ = io::EventLoop::now();
                          },
                      .on_open = [this] { opened(); },
                      .on_frame = [this](io::Incoming incoming) { receive(std::move(incoming)); },
                      .on_idle = [this] { pump(); },
                      .on_end = [this](Attempt::End end) { attempt_ended(std::move(end)); },
                      .on_gone = [this, owner] { attempt_gone(*owner); }});
  *owner = attempt_.get();
  if (connection_.shell && pulse_ == 0) check_pulse();
}

EntryFile Link::agent_file() const {
  return {.path = connection_.agent,
          .hash = agent_.hash,
          .place = fmt::format("agents/{}/skyward-agent", agent_.hash)};
}

EntryPlace Link::place() const { return {hello_.pool, hello_.node, life_}; }

void Link::opened() {
  heard_of_ = true;
  hello_.last_received = session_.last_received();
  attempt_->send(outgoing(wire::encode(hello_, session_.control())));
  attempt_->flush();
}

// Sees that something moves, and that the agent hears of us.
void Link::check_pulse() {
  pulse_ = 0;
  if (over_) return;
  const Time now = io::EventLoop::now();
  const Duration interval = limits_.silence / kPulsesInSilence;
  // This process was stopped, or the loop was held up: the silence was ours.
  if (pulse_due_ != Time{} && now > pulse_due_ + 2 * interval) moved_at_ = now;
  pulse_due_ = now + interval;
  pulse_ = loop_.start_timer(pulse_due_, [this] { check_pulse(); });
  if (!attempt_) return;
  if (const std::uint64_t moved = attempt_->moved_bytes(); std::exchange(moved_, moved) != moved) {
    moved_at_ = now;
  }
  Duration silence = limits_.silence;
  if (!greeted_ && !welcomed_) silence = kFirstAttemptPatience;
  if (!greeted_ && welcomed_) {  // the last attempt has what is left
    const Duration left = trouble_since_ + limits_.patience - moved_at_;
    silence = std::max(silence, std::min(left, kAttemptPatience));
  }
  if (now - moved_at_ >= silence) {
    return drop_attempt(
        {.error = {ErrorKind::lost,
                   fmt::format("nothing came from it for {:.1f} s", seconds(now - moved_at_)),
                   {}}});
  }
  if (greeted_ && !std::exchange(spoke_, false)) write(wire::Heartbeat{}, session_.control());
  spoke_ = false;
}

// The present attempt is of no use any more, though it has not ended.
void Link::drop_attempt(Attempt::End end) {
  attempt_->stop(Duration{});
  attempt_ended(std::move(end));
}

void Link::attempt_ended(Attempt::End end) {
  if (attempt_ && attempt_->moved_bytes() > 0) answered_ = true;
  if (attempt_) ending_.push_back(std::move(attempt_));
  const bool was_greeted = std::exchange(greeted_, false);
  if (over_) {
    loop_.cancel_timer(std::exchange(closing_, 0));
    return schedule_gone();
  }
  if (!farewell_.empty()) return lose(ErrorKind::lost, "its agent ended: " + farewell_);
  if (!connection_.shell || end.permanent || end.gone) {
    return lose(end.error.kind, std::move(end.error.message), std::move(end.error.hint));
  }
  if (was_greeted) {
    trouble_since_ = io::EventLoop::now();
    tries_ = 0;
    answered_ = false;
    only_refused_ = true;
    if (events_.on_trouble) events_.on_trouble(end.error.message);
  } else {
    only_refused_ = only_refused_ && end.refused;
  }
  try_again(std::move(end));
}

void Link::try_again(Attempt::End end) {
  const Time now = io::EventLoop::now();
  Duration patience = limits_.greet;
  if (welcomed_) {
    patience = tries_ > 0 && only_refused_ ? limits_.silence : limits_.patience;
  }
  std::uniform_real_distribution<double> jitter(0.5, 1.0);
  Duration pause = std::min(kFirstPause * (1 << std::min(tries_, 10)), kLongestPause);
  pause = from_seconds(seconds(pause) * jitter(random_));
  if (now + pause > trouble_since_ + patience) {
    const ErrorKind kind =
        end.error.kind == ErrorKind::lost ? ErrorKind::unreachable : end.error.kind;
    return lose(kind, end.error.message + tries_text(now - trouble_since_),
                std::move(end.error.hint));
  }
  retry_ = loop_.start_timer(now + pause, [this] {
    retry_ = 0;
    attempt();
  });
}

std::string Link::tries_text(Duration tried) const {
  return fmt::format(" (tried {} times in {:.1f} s)", tries_, seconds(tried));
}

void Link::attempt_gone(const Attempt* attempt) {
  std::erase_if(ending_, [&](const auto& entry) { return entry.get() == attempt; });
  if (over_) schedule_gone();
}

// ---- sending

void Link::send(wire::Message message) {
  if (over_) return;
  if (std::holds_alternative<wire::Heartbeat>(message)) {
    if (greeted_) write(message, session_.control());
    return;
  }
  if (session_.is_full()) {
    post([this] { lose(ErrorKind::lost, "its agent has not acknowledged anything for too long"); });
    return;
  }
  if (hello_.descriptors) return send_beside(std::move(message));
  if (const auto* cancel = std::get_if<wire::CancelTask>(&message)) {
    if (const auto run = outbox_.withdraw(cancel->task)) {
      wire::TaskResult result{.task = run->task,
                              .attempt = run->attempt,
                              .status = wire::TaskStatus::cancelled,
                              .worker = run->worker.value_or(0),
                              .detail = "cancelled"};
      post([this, result = std::move(result)]() mutable {
        if (!over_) events_.on_message(std::move(result));
      });
      return;
    }
  }
  if (auto* fetch = std::get_if<wire::FetchBlob>(&message)) {
    if (auto answer = outbox_.push(*fetch)) {
      post([this, fetched = *std::move(answer)]() mutable {
        if (!over_) events_.on_message(std::move(fetched));
      });
    }
    return pump();
  }
  if (const Status taken = outbox_.push(message); !taken)
    return refuse_task(message, taken.error());
  pump();
}

void Link::send_beside(wire::Message message) {
  const wire::Envelope envelope = session_.number(message);
  write(message, envelope);
}

// The task's arguments cannot be read: it ends as if its worker had said so.
void Link::refuse_task(const wire::Message& message, const Error& why) {
  const auto* run = std::get_if<wire::RunTask>(&message);
  if (run == nullptr) return;
  wire::TaskResult result{.task = run->task,
                          .attempt = run->attempt,
                          .status = wire::TaskStatus::worker_died,
                          .worker = run->worker.value_or(0),
                          .detail = "the call could not be sent: " + why.message};
  post([this, result = std::move(result)]() mutable {
    if (!over_) events_.on_message(std::move(result));
  });
}

void Link::pump() {
  if (over_ || hello_.descriptors) return;
  while (auto message = outbox_.next_urgent()) {
    const wire::Envelope envelope = session_.number(*message);
    write(*message, envelope);
  }
  if (!greeted_ || attempt_->queued_bytes() > 0) return;
  if (auto message = outbox_.next_bulk()) {
    const wire::Envelope envelope = session_.number(*message);
    write(*message, envelope);
  }
}

// Without a connection the session keeps it.
void Link::write(const wire::Message& message, wire::Envelope envelope) {
  if (!greeted_) return;
  spoke_ = true;
  attempt_->send(outgoing(wire::encode(message, envelope)));
}

// ---- receiving

void Link::receive(io::Incoming incoming) {
  if (over_) return;
  const ByteView head = ByteView(incoming.head).subspan(wire::kFramePrefixBytes);
  auto frame =
      wire::decode(head, std::move(incoming.body), received_blobs(std::move(incoming.descriptors)));
  if (!frame) {
    return lose(ErrorKind::lost,
                "its agent sent a frame that cannot be read: " + frame.error().message);
  }
  const bool is_welcome = std::holds_alternative<wire::Welcome>(frame->message);
  if (is_welcome == greeted_) {
    return lose(ErrorKind::lost,
                greeted_ ? "its agent greeted twice" : "its agent did not greet first");
  }
  if (is_welcome) return handle_welcome(std::get<wire::Welcome>(frame->message));
  switch (session_.arrived(frame->envelope)) {
    case wire::Session::Arrival::deliver:
      break;
    case wire::Session::Arrival::duplicate:
      return;
    case wire::Session::Arrival::gap:
      if (!connection_.shell) return lose(ErrorKind::lost, "a message of its agent is missing");
      return drop_attempt({.error = {ErrorKind::lost, "a message of its agent is missing", {}}});
  }
  handle(std::move(frame->message));
  if (session_.should_acknowledge() && !over_) send(wire::Heartbeat{});
}

void Link::handle(wire::Message message) {
  if (auto* farewell = std::get_if<wire::Farewell>(&message)) {
    farewell_ = farewell->reason.empty() ? "it did not say why" : std::move(farewell->reason);
    return;
  }
  if (const auto* chunk = std::get_if<wire::BlobChunk>(&message)) {
    if (const Status taken = inbox_.take(*chunk); !taken) {
      lose(ErrorKind::lost, "its agent sent what cannot be read: " + taken.error().message);
    }
    return;
  }
  if (const auto* fetched = std::get_if<wire::BlobFetched>(&message)) {
    if (!outbox_.take(*fetched)) return;
    pump();
  }
  if (wire::Payload* payload = payload_of(message)) {
    const Status filled = inbox_.fill_in(message);
    inbox_.drop_those_of(message);
    if (!filled && filled.error().kind == ErrorKind::invalid) {
      return lose(ErrorKind::lost, "its agent sent what cannot be read: " + filled.error().message);
    }
    for (wire::Buffer& buffer : payload->buffers) buffer.blob.id = BlobId{};
    if (!filled) {
      const auto* item = std::get_if<wire::StreamItem>(&message);
      wire::TaskResult result;
      if (auto* whole = std::get_if<wire::TaskResult>(&message)) result = std::move(*whole);
      if (item != nullptr) result = {.task = item->task, .attempt = item->attempt};
      result.payload = {};
      result.status = wire::TaskStatus::worker_died;
      result.detail = "its result cannot be stored here: " + filled.error().message;
      message = std::move(result);
    }
  }
  events_.on_message(std::move(message));
}

void Link::handle_welcome(const wire::Welcome& welcome) {
  if (!welcome.refusal.empty()) {
    return lose(ErrorKind::unsupported, "its agent refused the connection: " + welcome.refusal);
  }
  if (welcome.protocol != kProtocolVersion) {
    return lose(ErrorKind::unsupported,
                fmt::format("its agent (version {}) speaks protocol {}, this program speaks {}; "
                            "end the old agent or install the same version on both sides",
                            welcome.version, welcome.protocol, kProtocolVersion));
  }
  const auto kept = session_.resume(welcome.last_received);
  if (!kept) return lose(ErrorKind::lost, kept.error().message);
  greeted_ = true;
  trouble_since_ = Time{};
  tries_ = 0;
  outbox_.set_budget(welcome.blob_bytes);
  for (const wire::Session::Kept& message : *kept) {
    write(message.message,
          {.sequence = message.sequence, .acknowledged = session_.last_received()});
  }
  if (!std::exchange(welcomed_, true)) {
    events_.on_welcome(reached_at_);
  } else if (events_.on_trouble) {
    events_.on_trouble({});
  }
  pump();
}

// ---- the end

void Link::lose(ErrorKind kind, std::string why, std::string hint) {
  if (std::exchange(over_, true)) return;
  loop_.cancel_timer(std::exchange(retry_, 0));
  loop_.cancel_timer(std::exchange(pulse_, 0));
  if (attempt_) {
    attempt_->stop(kStopGrace);
    ending_.push_back(std::move(attempt_));
  }
  events_.on_lost({kind, std::move(why), std::move(hint)});
  schedule_gone();
}

void Link::close(Duration grace) {
  if (over_) return;
  // A daemon would live on without its connection.
  if (connection_.shell && greeted_) {
    send(wire::Shutdown{0});
    attempt_->flush();
  }
  over_ = true;
  loop_.cancel_timer(std::exchange(retry_, 0));
  loop_.cancel_timer(std::exchange(pulse_, 0));
  if (!attempt_) return schedule_gone();
  if (!connection_.shell || !greeted_) {
    attempt_->stop(grace);
    ending_.push_back(std::move(attempt_));
    return;
  }
  // The agent closes the connection when it has cleaned up.
  closing_ = loop_.start_timer(io::EventLoop::now() + grace, [this] {
    closing_ = 0;
    if (attempt_) drop_attempt({});
  });
}

// The agent did not take its leave: what it may have left on the node is ended there.
void Link::sweep() {
  io::SpawnOptions options{.command = connection_.command,
                           .environment = connection_.environment,
                           .directory = connection_.directory,
                           .new_session = true};
  options.command.push_back(sweep_line(agent_file(), place()));
  auto process = io::Process::spawn(loop_, options, [this](io::ExitStatus) {
    loop_.cancel_timer(std::exchange(closing_, 0));
    sweep_.reset();
    schedule_gone();
  });
  if (!process) return;
  sweep_ = *std::move(process);
  // A machine that has been silent throughout will hardly answer now; its agent's lease ends it.
  const bool hopeless = trouble_since_ != Time{} && tries_ > 0 && !answered_;
  const Duration time = hopeless ? kHopelessSweepTimeout : kSweepTimeout;
  closing_ = loop_.start_timer(io::EventLoop::now() + time, [this] {
    closing_ = 0;
    sweep_->kill_group();
  });
}

// Later, so that the owner may destroy the link in the callback.
void Link::schedule_gone() {
  if (attempt_ || !ending_.empty() || sweep_ || gone_told_) return;
  if (connection_.shell && heard_of_ && farewell_.empty() && !std::exchange(swept_, true)) {
    sweep();
    if (sweep_) return;
  }
  gone_told_ = true;
  post([this] { events_.on_gone(); });
}

}  // namespace skyward::engine

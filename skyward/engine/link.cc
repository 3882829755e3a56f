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

constexpr int kPulsesInSilence = 4;
// For a command whose agent is given up: to see the end of its input and clean up.
constexpr Duration kStopGrace = 500ms;
constexpr Duration kHopelessSweepTimeout = 2s;
// The way there, and as long as the agent has to end before it is killed.
constexpr Duration kHurriedSweepTimeout = kEndPatience + 2s;
constexpr Duration kSweepPause = 500ms;

io::Outgoing outgoing(wire::EncodedFrame frame) {
  return {.head = std::move(frame.head),
          .body = std::move(frame.body),
          .descriptors = std::move(frame.descriptors),
          .keep = std::move(frame.keep)};
}

wire::Blob received_blob(io::FileDescriptor descriptor) {
  const int number = descriptor.get();
  auto received = std::make_shared<ReceivedBlob>(std::move(descriptor));
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
  auto memory = io::SharedMemory::map_private(blob.descriptor, blob.size);
  if (!memory) return fail(memory);
  const ByteView view((*memory)->data(), blob.size);
  using Keep = std::pair<std::shared_ptr<io::SharedMemory>, std::shared_ptr<const void>>;
  return SharedBytes(std::make_shared<Keep>(*std::move(memory), blob.storage), view);
}

Result<wire::BlobInbox::Room> make_room(std::uint64_t size) {
  auto memory = io::SharedMemory::create(size);
  if (!memory) return fail(memory);
  wire::BlobInbox::Room room;
  room.bytes = {(*memory)->data(), (*memory)->size()};
  room.write = [to = memory->get()](std::uint64_t offset, ByteView part) {
    return to->write(offset, part);
  };
  room.blob.descriptor = (*memory)->descriptor();
  room.blob.storage = std::make_shared<ReceivedBlob>(*std::move(memory));
  return room;
}

// Mapped now, however late somebody looks at it: a descriptor more or less matters.
Status map_all(wire::Payload& payload) {
  for (wire::Buffer& buffer : payload.buffers) {
    if (!buffer.in_blob()) continue;
    const auto received = std::const_pointer_cast<ReceivedBlob>(
        std::static_pointer_cast<const ReceivedBlob>(buffer.blob.storage));
    if (const auto mapped = received->map(buffer.blob.size); !mapped) return fail(mapped);
    buffer.blob.descriptor = -1;
    buffer.blob.id = BlobId{};
  }
  return {};
}

wire::Payload* payload_of(wire::Message& message) {
  if (auto* result = std::get_if<wire::TaskResult>(&message)) return &result->payload;
  if (auto* item = std::get_if<wire::StreamItem>(&message)) return &item->payload;
  return nullptr;
}

}  // namespace

Link::Link(io::EventLoop& loop, wire::Hello hello, provider::Connection connection, bool socket,
           std::uint32_t life, const LinkPolicy::Limits& limits, Strays& strays, Events events)
    : loop_(loop),
      events_(std::move(events)),
      hello_(std::move(hello)),
      connection_(std::move(connection)),
      life_(life),
      limits_(limits),
      strays_(strays),
      outbox_(bytes_of),
      inbox_(make_room),
      policy_(limits, io::EventLoop::now()),
      random_(static_cast<unsigned>(io::EventLoop::now().time_since_epoch().count()) +
              hello_.node.value),
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
  policy_.on_attempt();
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
    entry.line = entry_line(entry.files, place(), policy_.was_welcomed(), strays_.text());
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
  const bool lets_go = has_volumes_ && !farewell_.empty();
  if (now - moved_at_ >= policy_.silence(moved_at_) + (lets_go ? kUnmountTimeout : Duration{})) {
    return drop_attempt(
        {.error = {ErrorKind::lost,
                   fmt::format("no message from it for {:.1f} s", seconds(now - moved_at_)),
                   {}}});
  }
  if (policy_.is_connected() && !std::exchange(spoke_, false))
    write(wire::Heartbeat{}, session_.control());
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
  const Time now = io::EventLoop::now();
  const bool was_connected = policy_.is_connected();
  if (was_connected) answered_ = false;
  std::uniform_real_distribution<double> jitter(0, 1);
  const auto again = policy_.on_end(end.means, now, jitter(random_));
  if (over_) {
    loop_.cancel_timer(std::exchange(closing_, 0));
    return schedule_gone();
  }
  if (!farewell_.empty()) return lose(ErrorKind::lost, "its agent ended: " + farewell_);
  if (!connection_.shell || end.means.permanent || end.means.gone) {
    return lose(end.error.kind, std::move(end.error.message), std::move(end.error.hint));
  }
  if (!again) {
    const ErrorKind kind =
        end.error.kind == ErrorKind::lost ? ErrorKind::unreachable : end.error.kind;
    return lose(kind, end.error.message + tries_text(policy_.trouble(now)),
                std::move(end.error.hint));
  }
  if (was_connected && events_.on_trouble) events_.on_trouble(end.error.message);
  if (connection_.stands && !policy_.was_welcomed() && policy_.tries() == 1 && events_.on_trouble) {
    const std::string& hint = end.error.hint;
    events_.on_trouble(end.error.message + (hint.empty() ? "" : "; " + hint));
  }
  retry_ = loop_.start_timer(*again, [this] {
    retry_ = 0;
    attempt();
  });
}

std::string Link::tries_text(Duration tried) const {
  if (policy_.tries() <= 1) return {};
  return fmt::format(" (tried {} times in {:.1f} s)", policy_.tries(), seconds(tried));
}

void Link::attempt_gone(const Attempt* attempt) {
  std::erase_if(ending_, [&](const auto& entry) { return entry.get() == attempt; });
  if (over_) schedule_gone();
}

// ---- sending

void Link::send(wire::Message message) {
  if (over_) return;
  if (std::holds_alternative<wire::Heartbeat>(message)) {
    if (policy_.is_connected()) write(message, session_.control());
    return;
  }
  if (std::holds_alternative<wire::Shutdown>(message)) told_to_end_ = true;
  if (const auto* configure = std::get_if<wire::Configure>(&message)) {
    has_volumes_ = !configure->end_script.empty();
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
  if (!policy_.is_connected() || attempt_->queued_bytes() > 0) return;
  if (auto message = outbox_.next_bulk()) {
    const wire::Envelope envelope = session_.number(*message);
    write(*message, envelope);
  }
}

// Without a connection the session keeps it.
void Link::write(const wire::Message& message, wire::Envelope envelope) {
  if (!policy_.is_connected()) return;
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
  if (is_welcome == policy_.is_connected()) {
    return lose(ErrorKind::lost,
                is_welcome ? "its agent greeted twice" : "its agent did not greet first");
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
      lose(ErrorKind::lost, "its agent sent an unreadable message: " + taken.error().message);
    }
    return;
  }
  if (const auto* fetched = std::get_if<wire::BlobFetched>(&message)) {
    if (!outbox_.take(*fetched)) return;
    pump();
  }
  if (wire::Payload* payload = payload_of(message)) {
    Status filled = inbox_.fill_in(message);
    inbox_.drop_those_of(message);
    if (filled) filled = map_all(*payload);
    if (!filled && filled.error().kind == ErrorKind::invalid) {
      return lose(ErrorKind::lost,
                  "its agent sent an unreadable message: " + filled.error().message);
    }
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
  const bool is_first = !policy_.was_welcomed();
  const Duration trouble = policy_.trouble(io::EventLoop::now());
  policy_.on_welcome();
  outbox_.set_budget(welcome.blob_bytes);
  for (const wire::Session::Kept& message : *kept) {
    write(message.message,
          {.sequence = message.sequence, .acknowledged = session_.last_received()});
  }
  if (is_first) {
    events_.on_welcome(reached_at_);
  } else if (events_.on_recovered) {
    events_.on_recovered(trouble);
  }
  pump();
}

// ---- the end

void Link::lose(ErrorKind kind, std::string why, std::string hint) {
  if (std::exchange(over_, true)) return;
  note_stray();
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
  if (told_to_end_) grace = std::min(grace, kStopGrace);
  // A daemon would live on without its connection.
  if (connection_.shell && policy_.is_connected()) {
    send(wire::Shutdown{0});
    attempt_->flush();
  }
  over_ = true;
  note_stray();
  loop_.cancel_timer(std::exchange(retry_, 0));
  loop_.cancel_timer(std::exchange(pulse_, 0));
  if (!attempt_) return schedule_gone();
  if (!connection_.shell || !policy_.is_connected()) {
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

void Link::hurry() {
  if (std::exchange(hurried_, true) || sweep_until_ == kNever) return;
  sweep_until_ = std::min(sweep_until_, io::EventLoop::now() + kHurriedSweepTimeout);
  if (!sweep_) return;
  loop_.cancel_timer(closing_);
  limit_sweep();
}

// The agent did not take its leave: what it may have left on the node is ended there. Tried again
// where the command does not get there.
void Link::sweep() {
  const Time now = io::EventLoop::now();
  // A machine that has been silent throughout will hardly answer now; its agent's lease ends it.
  const bool hopeless = !policy_.is_connected() && policy_.tries() > 0 && !answered_;
  if (sweep_until_ == kNever) {
    sweep_until_ = now + (hopeless ? kHopelessSweepTimeout : kSweepTimeout);
    if (has_volumes_ && !hopeless) sweep_until_ += kUnmountTimeout;
    if (hurried_) sweep_until_ = std::min(sweep_until_, now + kHurriedSweepTimeout);
  }
  io::SpawnOptions options{.command = connection_.command,
                           .environment = connection_.environment,
                           .directory = connection_.directory,
                           .new_session = true};
  options.command.push_back(sweep_line(agent_file(), place()));
  auto process = io::Process::spawn(loop_, options, [this](const io::ExitStatus& status) {
    loop_.cancel_timer(std::exchange(closing_, 0));
    sweep_.reset();
    const Time next = io::EventLoop::now() + kSweepPause;
    swept_ = status.code == 0 && status.signal == 0;
    if (swept_ || next >= sweep_until_) return schedule_gone();
    closing_ = loop_.start_timer(next, [this] {
      closing_ = 0;
      sweep();
    });
  });
  if (!process) return schedule_gone();
  sweep_ = *std::move(process);
  limit_sweep();
}

void Link::limit_sweep() {
  closing_ = loop_.start_timer(sweep_until_, [this] {
    closing_ = 0;
    sweep_->kill_group();
  });
}

// Until it has taken its leave, or was swept: whoever buys its machine meanwhile ends it.
void Link::note_stray() {
  if (connection_.shell && heard_of_) strays_.add(hello_.node, life_);
}

// Later, so that the owner may destroy the link in the callback.
void Link::schedule_gone() {
  if (attempt_ || !ending_.empty() || sweep_ || closing_ != 0 || gone_told_) return;
  if (connection_.shell && heard_of_ && farewell_.empty() && sweep_until_ == kNever) {
    return sweep();
  }
  gone_told_ = true;
  if (swept_ || !farewell_.empty()) strays_.remove(hello_.node, life_);
  post([this] { events_.on_gone(); });
}

}  // namespace skyward::engine

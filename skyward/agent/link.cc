#include "skyward/agent/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "skyward/agent/incoming.h"
#include "skyward/io/machine.h"
#include "skyward/io/own_process.h"
#include "skyward/io/shared_memory.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/codec.h"

namespace skyward::agent {
namespace {

constexpr std::size_t kMaxQueuedBytes = std::size_t{8} << 20;
constexpr std::size_t kMaxUnacknowledged = kMaxUnacknowledgedFrames / 4;
// Kept while nobody is connected, before output has to wait: so many messages, and so much.
constexpr std::size_t kMaxKeptWithoutLine = 1024;

Result<SharedBytes> bytes_of(const wire::Blob& blob) {
  auto memory = io::SharedMemory::map_private(blob.descriptor, blob.size);
  if (!memory) return fail(memory);
  return SharedBytes(*memory, ByteView((*memory)->data(), blob.size));
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
  room.blob.storage = *std::move(memory);
  return room;
}

wire::Payload* payload_of(wire::Message& message) {
  if (auto* result = std::get_if<wire::TaskResult>(&message)) return &result->payload;
  if (auto* item = std::get_if<wire::StreamItem>(&message)) return &item->payload;
  return nullptr;
}

// What stands for an answer that does not fit a frame.
void replace_payload(wire::Message& message, std::string why) {
  if (auto* result = std::get_if<wire::TaskResult>(&message)) {
    result->payload = {};
    result->status = wire::TaskStatus::worker_died;
    result->detail = std::move(why);
  } else if (auto* item = std::get_if<wire::StreamItem>(&message)) {
    message = wire::TaskResult{.task = item->task,
                               .attempt = item->attempt,
                               .status = wire::TaskStatus::worker_died,
                               .detail = std::move(why)};
  }
}

// Blobs that no task uses may take so much of this machine.
std::uint64_t blob_budget() {
  const double quarter = io::memory_gib() * double{1 << 30} / 4;
  return std::min(static_cast<std::uint64_t>(quarter), kMaxKeptBlobBytes);
}

}  // namespace

Link::Link(io::EventLoop& loop, bool outlives, Events events)
    : loop_(loop),
      outlives_(outlives),
      events_(std::move(events)),
      outbox_(bytes_of),
      inbox_(make_room) {}

Link::~Link() {
  loop_.cancel_timer(timer_);
  for (const auto& line : lines_) loop_.cancel_timer(line->timer);
}

void Link::attach(io::FileDescriptor read, io::FileDescriptor write) {
  if (ended_) return;
  Line& line = *lines_.emplace_back(std::make_unique<Line>());
  line.channel = std::make_unique<io::Channel>(
      loop_, std::move(read), std::move(write), wire::kFramePrefixBytes, wire::decode_prefix,
      io::Channel::Handlers{
          .on_message = [this,
                         &line](io::Incoming incoming) { receive(line, std::move(incoming)); },
          .on_closed = [this, &line](const Error& error) { close(line, error.message); },
          .on_idle = [this] { pump(); }});
  if (!outlives_) return;
  line.timer = loop_.start_timer(io::EventLoop::now() + kGreetTimeout, [this, &line] {
    line.timer = 0;
    close(line, "the engine sent no greeting in time");
  });
}

void Link::send(wire::Message message) {
  if (ended_) return;
  if (descriptors_) return send_beside(std::move(message));
  Status taken = wire::check_limits(message);
  if (taken) taken = outbox_.push(message);
  if (!taken) {
    replace_payload(message, fmt::format("the result cannot be sent: {}. {}", taken.error().message,
                                         taken.error().hint));
    (void)outbox_.push(message);  // it has no blobs left that could fail
  }
  pump();
}

// The message, and its blobs as descriptors beside it.
void Link::send_beside(wire::Message message) {
  if (const wire::Payload* payload = payload_of(message); payload && !payload->buffers.empty()) {
    if (const Status fits = wire::check_limits(message); !fits) {
      replace_payload(message, fmt::format("the result cannot be sent: {}. {}",
                                           fits.error().message, fits.error().hint));
    }
  }
  const wire::Envelope envelope = session_.number(message);
  write(message, envelope);
}

void Link::pump() {
  if (ended_ || descriptors_) return;
  while (auto message = outbox_.next_urgent()) {
    const wire::Envelope envelope = session_.number(*message);
    write(*message, envelope);
  }
  if (current_ == nullptr || current_->channel->queued_bytes() > 0) return;
  if (auto message = outbox_.next_bulk()) {
    const wire::Envelope envelope = session_.number(*message);
    write(*message, envelope);
  }
}

// Without a connection the session keeps it.
void Link::write(const wire::Message& message, wire::Envelope envelope) {
  if (current_ == nullptr) return;
  wire::EncodedFrame frame = wire::encode(message, envelope);
  spoke_ = true;
  current_->channel->send({.head = std::move(frame.head),
                           .body = std::move(frame.body),
                           .descriptors = std::move(frame.descriptors),
                           .keep = std::move(frame.keep)});
}

void Link::start_heartbeats(Duration interval) {
  interval_ = interval;
  beat();
}

void Link::beat() {
  if (ended_) return;
  if (current_ != nullptr && !std::exchange(spoke_, false)) {
    write(wire::Heartbeat{}, session_.control());
  }
  spoke_ = false;
  timer_ = loop_.start_timer(io::EventLoop::now() + interval_, [this] { beat(); });
}

void Link::say_farewell(const std::string& reason) {
  if (!outlives_ || ended_) return;
  write(wire::Farewell{reason}, session_.control());
}

void Link::flush() {
  if (current_ != nullptr) current_->channel->flush();
}

bool Link::is_backed_up() const {
  if (current_ == nullptr) {
    return session_.unacknowledged() > kMaxKeptWithoutLine ||
           session_.unacknowledged_bytes() > kMaxQueuedBytes;
  }
  return current_->channel->queued_bytes() + outbox_.waiting_bytes() > kMaxQueuedBytes ||
         session_.unacknowledged() > kMaxUnacknowledged;
}

void Link::receive(Line& line, io::Incoming incoming) {
  if (ended_) return;
  const ByteView header = ByteView(incoming.head).subspan(wire::kFramePrefixBytes);
  auto frame = wire::decode(header, std::move(incoming.body),
                            received_blobs(std::move(incoming.descriptors)));
  if (!frame)
    return close(line, "the engine sent a frame that cannot be read: " + frame.error().message);
  const auto* hello = std::get_if<wire::Hello>(&frame->message);
  if ((hello != nullptr) == (&line == current_)) {
    return close(line, hello != nullptr ? "the engine greeted twice"
                                        : "the engine's first message is not a greeting");
  }
  if (hello != nullptr) return greet(line, *hello);
  if (events_.on_heard) events_.on_heard();
  switch (session_.arrived(frame->envelope)) {
    case wire::Session::Arrival::deliver:
      break;
    case wire::Session::Arrival::duplicate:
      return;
    case wire::Session::Arrival::gap:
      return close(line, "a message of the engine is missing");
  }
  const bool owed = session_.should_acknowledge();
  if (!std::holds_alternative<wire::Heartbeat>(frame->message)) handle(std::move(frame->message));
  if (owed && !ended_ && session_.should_acknowledge())
    write(wire::Heartbeat{}, session_.control());
}

void Link::handle(wire::Message message) {
  if (const auto* chunk = std::get_if<wire::BlobChunk>(&message)) {
    if (const Status taken = inbox_.take(*chunk); !taken) {
      if (current_ != nullptr) close(*current_, taken.error().message);
    }
    if (events_.on_blobs_changed) events_.on_blobs_changed();
    return;
  }
  if (const auto* fetch = std::get_if<wire::FetchBlob>(&message)) {
    if (events_.on_fetch) events_.on_fetch(*fetch);
    return;
  }
  if (const auto* drop = std::get_if<wire::DropBlobs>(&message)) {
    inbox_.drop(drop->blobs);
    if (events_.on_blobs_changed) events_.on_blobs_changed();
  }
  if (auto* run = std::get_if<wire::RunTask>(&message)) {
    // The core refuses a task that misses something; why stands in the agent's log.
    const Status filled = descriptors_ ? Status{} : inbox_.fill_in(message);
    if (!filled) fmt::print(stderr, "skyward-agent: {}\n", filled.error().message);
    if (run->body.in_blob()) {
      auto bytes = run->body.blob.descriptor >= 0 ? bytes_of(run->body.blob)
                                                  : Result<SharedBytes>(SharedBytes());
      const std::uint64_t offset = run->body.offset;
      const std::uint64_t size = run->body.size;
      run->body = {};
      if (bytes && !bytes->empty()) {
        run->body = wire::small_buffer({bytes->owner, bytes->view.subspan(offset, size)});
      }
    }
  }
  events_.on_message(message);
}

std::string Link::refusal(const wire::Hello& hello) const {
  if (hello.protocol != kProtocolVersion) {
    return fmt::format(
        "this agent is version {} and speaks protocol {}, the driver is version {} and speaks "
        "protocol {}; use the same version of Skyward on both sides",
        SKYWARD_VERSION, kProtocolVersion, hello.version, hello.protocol);
  }
  if (greeted_ && (hello.pool != pool_ || hello.node != node_ || hello.token != token_)) {
    return "this agent serves another pool";
  }
  return {};
}

void Link::greet(Line& line, const wire::Hello& hello) {
  loop_.cancel_timer(std::exchange(line.timer, 0));
  wire::Welcome welcome{.protocol = kProtocolVersion,
                        .version = SKYWARD_VERSION,
                        .process = io::process_id(),
                        .hostname = io::host_name(),
                        .last_received = session_.last_received(),
                        .refusal = refusal(hello),
                        .blob_bytes = hello.descriptors ? 0 : blob_budget()};
  if (welcome.refusal.empty()) {
    if (const auto resumed = session_.resume(hello.last_received); !resumed) {
      welcome.refusal = resumed.error().message;
    }
  }
  if (!welcome.refusal.empty()) {
    answer(line, welcome);
    return close(line, welcome.refusal);
  }
  if (!std::exchange(greeted_, true)) {
    descriptors_ = hello.descriptors;
    pool_ = hello.pool;
    node_ = hello.node;
    token_ = hello.token;
  }
  Line* const former = std::exchange(current_, nullptr);
  if (former != nullptr) close(*former, "the engine has reconnected");
  current_ = &line;
  answer(line, std::move(welcome));
  if (events_.on_heard) events_.on_heard();
  resume(hello.last_received);
  pump();
}

// Not numbered, and before anything that is.
void Link::answer(Line& line, wire::Welcome welcome) {
  wire::EncodedFrame frame = wire::encode(std::move(welcome), session_.control());
  line.channel->send({.head = std::move(frame.head), .body = std::move(frame.body)});
  line.channel->flush();
}

void Link::resume(std::uint64_t last_received) {
  const auto kept = session_.resume(last_received);
  if (!kept) return;  // looked at before
  for (const wire::Session::Kept& message : *kept) {
    write(message.message,
          {.sequence = message.sequence, .acknowledged = session_.last_received()});
  }
}

void Link::close(Line& line, std::string reason) {
  const auto place = std::ranges::find(lines_, &line, &std::unique_ptr<Line>::get);
  if (place == lines_.end()) return;
  const std::unique_ptr<Line> closing = std::move(*place);
  lines_.erase(place);
  loop_.cancel_timer(line.timer);
  line.channel->close();
  if (current_ == &line) current_ = nullptr;
  // An engine that went before it had greeted will not look for this daemon, but start another.
  if (!outlives_ || (!greeted_ && lines_.empty())) return end(std::move(reason));
  if (!reason.empty()) fmt::print(stderr, "skyward-agent: {}\n", reason);
}

void Link::end(std::string reason) {
  if (std::exchange(ended_, true)) return;
  for (const auto& line : lines_) line->channel->close();
  events_.on_closed(std::move(reason));
}

}  // namespace skyward::agent

#include "skyward/agent/link.h"

#include <fmt/format.h>

#include <utility>

#include "skyward/io/own_process.h"
#include "skyward/io/shared_memory.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/codec.h"

namespace skyward::agent {
namespace {

constexpr std::size_t kMaxQueuedBytes = std::size_t{8} << 20;
constexpr std::size_t kMaxUnacknowledged = kMaxUnacknowledgedFrames / 4;

Result<io::Cut> cut_frame(ByteView prefix) {
  const auto sizes = wire::decode_prefix(prefix);
  if (!sizes) return fail(sizes);
  return io::Cut{.head_bytes = sizes->header_bytes,
                 .body_bytes = sizes->body_bytes,
                 .descriptors = sizes->descriptors};
}

std::vector<wire::Blob> received_blobs(std::vector<io::FileDescriptor> descriptors) {
  std::vector<wire::Blob> blobs;
  for (io::FileDescriptor& descriptor : descriptors) {
    // Shared by the tasks that use the blob and the core's table of blobs.
    auto storage = std::make_shared<io::FileDescriptor>(std::move(descriptor));
    const int number = storage->get();
    blobs.push_back({.descriptor = number, .storage = std::move(storage)});
  }
  return blobs;
}

// A connection that carries no descriptors gets the bytes themselves.

Status put_inline(wire::Payload& payload) {
  for (wire::Buffer& buffer : payload.buffers) {
    if (!buffer.in_blob()) continue;
    auto copy = io::duplicate(buffer.blob.descriptor);
    if (!copy) return fail(copy);
    auto memory = io::SharedMemory::map_private(std::move(*copy), buffer.blob.size);
    if (!memory) return fail(memory);
    const ByteView view((*memory)->data() + buffer.offset, buffer.size);
    buffer = wire::small_buffer({*memory, view});
  }
  return {};
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

}  // namespace

Link::Link(io::EventLoop& loop, io::FileDescriptor read, io::FileDescriptor write, Events events)
    : loop_(loop), events_(std::move(events)) {
  channel_ = std::make_unique<io::Channel>(
      loop_, std::move(read), std::move(write), wire::kFramePrefixBytes, cut_frame,
      io::Channel::Handlers{
          .on_message = [this](io::Incoming incoming) { receive(std::move(incoming)); },
          .on_closed = [this](const Error& error) { close(error.message); }});
}

Link::~Link() { loop_.cancel_timer(timer_); }

void Link::send(wire::Message message) {
  if (closed_) return;
  if (wire::Payload* payload = payload_of(message);
      payload != nullptr && !payload->buffers.empty()) {
    Status fits = descriptors_ ? Status{} : put_inline(*payload);
    if (fits) fits = wire::check_limits(message);
    if (!fits)
      replace_payload(message, fmt::format("the result cannot be sent: {}. {}",
                                           fits.error().message, fits.error().hint));
  }
  const wire::Envelope envelope = session_.number(message);
  write(message, envelope);
}

void Link::write(const wire::Message& message, wire::Envelope envelope) {
  wire::EncodedFrame frame = wire::encode(message, envelope);
  spoke_ = true;
  channel_->send({.head = std::move(frame.head),
                  .body = std::move(frame.body),
                  .descriptors = std::move(frame.descriptors),
                  .keep = std::move(frame.keep)});
}

void Link::start_heartbeats(Duration interval) {
  interval_ = interval;
  beat();
}

void Link::beat() {
  if (closed_) return;
  if (!std::exchange(spoke_, false)) write(wire::Heartbeat{}, session_.control());
  spoke_ = false;
  timer_ = loop_.start_timer(io::EventLoop::now() + interval_, [this] { beat(); });
}

bool Link::is_backed_up() const {
  return channel_->queued_bytes() > kMaxQueuedBytes ||
         session_.unacknowledged() > kMaxUnacknowledged;
}

void Link::receive(io::Incoming incoming) {
  if (closed_) return;
  const ByteView header = ByteView(incoming.head).subspan(wire::kFramePrefixBytes);
  auto frame = wire::decode(header, std::move(incoming.body),
                            received_blobs(std::move(incoming.descriptors)));
  if (!frame) return close("the engine sent a frame that cannot be read: " + frame.error().message);
  const auto* hello = std::get_if<wire::Hello>(&frame->message);
  if ((hello != nullptr) == greeted_)
    return close(greeted_ ? "the engine greeted twice" : "the engine did not greet first");
  if (hello != nullptr) return greet(*hello);
  switch (session_.arrived(frame->envelope)) {
    case wire::Session::Arrival::deliver:
      break;
    case wire::Session::Arrival::duplicate:
      return;
    case wire::Session::Arrival::gap:
      return close("a message of the engine is missing");
  }
  const bool owed = session_.should_acknowledge();
  if (!std::holds_alternative<wire::Heartbeat>(frame->message)) events_.on_message(frame->message);
  if (owed && !closed_ && session_.should_acknowledge())
    write(wire::Heartbeat{}, session_.control());
}

void Link::greet(const wire::Hello& hello) {
  wire::Welcome welcome{.protocol = kProtocolVersion,
                        .version = SKYWARD_VERSION,
                        .process = io::process_id(),
                        .hostname = io::host_name(),
                        .last_received = session_.last_received()};
  if (hello.protocol != kProtocolVersion)
    welcome.refusal = fmt::format(
        "this agent is version {} and speaks protocol {}, the driver is version {} and speaks "
        "protocol {}; use the same version of Skyward on both sides",
        SKYWARD_VERSION, kProtocolVersion, hello.version, hello.protocol);
  write(welcome, session_.control());
  if (!welcome.refusal.empty()) {
    channel_->flush();
    return close(welcome.refusal);
  }
  greeted_ = true;
  descriptors_ = hello.descriptors;
}

void Link::close(std::string reason) {
  if (std::exchange(closed_, true)) return;
  channel_->close();
  events_.on_closed(std::move(reason));
}

}  // namespace skyward::agent

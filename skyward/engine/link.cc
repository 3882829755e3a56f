#include "skyward/engine/link.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/engine/received_blob.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/codec.h"

namespace skyward::engine {
namespace {

constexpr std::size_t kStderrTailBytes = 4096;
// Between the end of the stream and the end of the command, so that the loss can be told with its
// reason.
constexpr Duration kExitGrace = 500ms;

io::Outgoing outgoing(wire::EncodedFrame frame) {
  return {.head = std::move(frame.head),
          .body = std::move(frame.body),
          .descriptors = std::move(frame.descriptors),
          .keep = std::move(frame.keep)};
}

Result<io::Cut> cut_frame(ByteView prefix) {
  const auto sizes = wire::decode_prefix(prefix);
  if (!sizes) return fail(sizes);
  return io::Cut{.head_bytes = sizes->header_bytes,
                 .body_bytes = sizes->body_bytes,
                 .descriptors = sizes->descriptors};
}

std::vector<wire::Blob> received_blobs(std::vector<io::FileDescriptor> descriptors) {
  std::vector<wire::Blob> blobs;
  blobs.reserve(descriptors.size());
  for (io::FileDescriptor& descriptor : descriptors) {
    auto received = std::make_shared<ReceivedBlob>(std::move(descriptor));
    const int number = received->descriptor();
    blobs.push_back({.id = {}, .size = 0, .descriptor = number, .storage = std::move(received)});
  }
  return blobs;
}

}  // namespace

Link::Link(io::EventLoop& loop, wire::Hello hello, const provider::Connection& connection,
           bool socket, Events events)
    : loop_(loop),
      events_(std::move(events)),
      hello_(std::move(hello)),
      alive_(std::make_shared<bool>(true)) {
  hello_.descriptors = socket;
  const Status started = start(connection, socket);
  if (!started) {
    loop_.post([this, alive = alive_, error = started.error()] {
      if (!*alive) return;
      exited_ = true;
      lose(error.kind, error.message);
    });
    return;
  }
  channel_->send(outgoing(wire::encode(hello_, session_.control())));
}

Link::~Link() {
  *alive_ = false;
  loop_.cancel_timer(timer_);
  if (stderr_) loop_.unwatch(stderr_.get());
}

Status Link::start(const provider::Connection& connection, bool socket) {
  auto errors = io::make_pipe();
  if (!errors) return fail(errors);
  io::SpawnOptions options{.command = connection.command,
                           .environment = connection.environment,
                           .unset = {},
                           .directory = connection.directory,
                           .descriptors = {{errors->write.get(), 2}},
                           .new_session = true,
                           .die_with_parent = false};
  io::FileDescriptor read;
  io::FileDescriptor write;
  io::FileDescriptor theirs_in;
  io::FileDescriptor theirs_out;
  if (socket) {
    auto pair = io::make_socket_pair();
    if (!pair) return fail(pair);
    read = std::move(pair->ours);
    theirs_in = std::move(pair->theirs);
    options.descriptors.emplace_back(theirs_in.get(), 0);
    options.descriptors.emplace_back(theirs_in.get(), 1);
  } else {
    auto in = io::make_pipe();
    if (!in) return fail(in);
    auto out = io::make_pipe();
    if (!out) return fail(out);
    write = std::move(in->write);
    theirs_in = std::move(in->read);
    read = std::move(out->read);
    theirs_out = std::move(out->write);
    // A command such as ssh expects blocking descriptors.
    for (const int descriptor : {theirs_in.get(), theirs_out.get()}) {
      const Status blocking = io::set_non_blocking(descriptor, false);
      if (!blocking) return blocking;
    }
    options.descriptors.emplace_back(theirs_in.get(), 0);
    options.descriptors.emplace_back(theirs_out.get(), 1);
  }
  auto process =
      io::Process::spawn(loop_, options, [this](io::ExitStatus status) { exited(status); });
  if (!process) return fail(process);
  process_ = *std::move(process);
  stderr_ = std::move(errors->read);
  loop_.watch(stderr_.get(), [this] { read_stderr(); });
  channel_ = std::make_unique<io::Channel>(
      loop_, std::move(read), std::move(write), wire::kFramePrefixBytes, cut_frame,
      io::Channel::Handlers{
          .on_message = [this](io::Incoming incoming) { receive(std::move(incoming)); },
          .on_closed = [this](const Error& error) { channel_closed(error); }});
  return {};
}

void Link::send(wire::Message message) {
  if (!channel_ || !channel_->is_open()) return;
  if (std::holds_alternative<wire::Heartbeat>(message)) {
    channel_->send(outgoing(wire::encode(message, session_.control())));
    return;
  }
  if (session_.is_full()) {
    loop_.post([this, alive = alive_] {
      if (*alive) lose(ErrorKind::lost, "its agent has not acknowledged anything for too long");
    });
    return;
  }
  const wire::Envelope envelope = session_.number(message);
  channel_->send(outgoing(wire::encode(message, envelope)));
}

void Link::receive(io::Incoming incoming) {
  if (lost_told_) return;
  const ByteView head = ByteView(incoming.head).subspan(wire::kFramePrefixBytes);
  auto frame =
      wire::decode(head, std::move(incoming.body), received_blobs(std::move(incoming.descriptors)));
  if (!frame) {
    lose(ErrorKind::lost, "its agent sent a frame that cannot be read: " + frame.error().message);
    return;
  }
  const bool is_welcome = std::holds_alternative<wire::Welcome>(frame->message);
  if (is_welcome == welcomed_) {
    lose(ErrorKind::lost, welcomed_ ? "its agent greeted twice" : "its agent did not greet first");
    return;
  }
  if (is_welcome) {
    handle_welcome(std::get<wire::Welcome>(std::move(frame->message)));
    return;
  }
  switch (session_.arrived(frame->envelope)) {
    case wire::Session::Arrival::deliver:
      break;
    case wire::Session::Arrival::duplicate:
      return;
    case wire::Session::Arrival::gap:
      lose(ErrorKind::lost, "a message of its agent is missing");
      return;
  }
  events_.on_message(std::move(frame->message));
  if (session_.should_acknowledge() && !lost_told_) send(wire::Heartbeat{});
}

void Link::handle_welcome(wire::Welcome welcome) {
  if (!welcome.refusal.empty()) {
    lose(ErrorKind::unsupported, "its agent refused the connection: " + welcome.refusal);
    return;
  }
  if (welcome.protocol != kProtocolVersion) {
    lose(ErrorKind::unsupported,
         fmt::format("its agent (version {}) speaks protocol {}, this program speaks {}; "
                     "end the old agent or install the same version on both sides",
                     welcome.version, welcome.protocol, kProtocolVersion));
    return;
  }
  if (const auto resumed = session_.resume(welcome.last_received); !resumed) {
    lose(ErrorKind::lost, resumed.error().message);
    return;
  }
  welcomed_ = true;
  events_.on_welcome(std::move(welcome));
}

void Link::channel_closed(const Error& why) {
  channel_error_ = why.message.empty() ? "the connection to its agent was closed" : why.message;
  if (lost_told_ || exited_) return;
  if (timer_ != 0) return;
  timer_ = loop_.start_timer(io::EventLoop::now() + kExitGrace, [this] {
    timer_ = 0;
    lose(ErrorKind::lost, channel_error_);
  });
}

void Link::read_stderr() {
  std::array<char, 4096> chunk;
  while (true) {
    const ssize_t count = ::read(stderr_.get(), chunk.data(), chunk.size());
    if (count > 0) {
      stderr_tail_.append(chunk.data(), static_cast<std::size_t>(count));
      if (stderr_tail_.size() > kStderrTailBytes) {
        stderr_tail_.erase(0, stderr_tail_.size() - kStderrTailBytes);
      }
      continue;
    }
    if (count == 0) {
      loop_.unwatch(stderr_.get());
      stderr_.reset();
    }
    return;
  }
}

void Link::exited(io::ExitStatus status) {
  if (stderr_) read_stderr();
  exited_ = true;
  if (lost_told_) {
    schedule_gone();
    return;
  }
  // What the agent wrote last may still be in the socket: its end is told by the channel, or by
  // this timer.
  loop_.cancel_timer(timer_);
  std::string why = fmt::format("its agent ended ({})", status.describe());
  timer_ = loop_.start_timer(io::EventLoop::now() + (channel_ && channel_->is_open() ? 20ms : 0ms),
                             [this, why = std::move(why)] {
                               timer_ = 0;
                               lose(ErrorKind::lost, why);
                             });
}

void Link::lose(ErrorKind kind, std::string why) {
  if (std::exchange(lost_told_, true)) return;
  loop_.cancel_timer(std::exchange(timer_, 0));
  if (channel_) channel_->close();
  if (!stderr_tail_.empty()) why += "; it wrote: " + stderr_tail_;
  if (process_ && !exited_) {
    timer_ = loop_.start_timer(io::EventLoop::now() + kExitGrace, [this] {
      timer_ = 0;
      process_->signal(9);
    });
  }
  events_.on_lost({kind, std::move(why), {}});
  if (exited_ || !process_) schedule_gone();
}

void Link::close(Duration grace) {
  if (std::exchange(lost_told_, true)) return;
  loop_.cancel_timer(std::exchange(timer_, 0));
  if (channel_) channel_->close();
  if (!process_ || exited_) {
    schedule_gone();
    return;
  }
  timer_ = loop_.start_timer(io::EventLoop::now() + grace, [this] {
    timer_ = 0;
    process_->signal(9);
  });
}

// Later, so that the owner may destroy the link in the callback.
void Link::schedule_gone() {
  loop_.post([this, alive = alive_] {
    if (*alive) events_.on_gone();
  });
}

}  // namespace skyward::engine

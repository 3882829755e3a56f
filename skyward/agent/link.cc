#include "skyward/agent/link.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "skyward/base/stderr_line.h"
#include "skyward/io/machine.h"
#include "skyward/io/own_process.h"
#include "skyward/io/shared_memory.h"
#include "skyward/io/unix_socket.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/blob_memory.h"
#include "skyward/wire/codec.h"

namespace skyward::agent {
namespace {

Result<SharedBytes> bytes_of(const wire::Blob& blob) {
  return io::map_bytes(blob.descriptor, blob.size);
}

// Blobs that no task uses may take so much of this machine.
std::uint64_t blob_budget() { return std::min(io::memory_bytes() / 4, kMaxKeptBlobBytes); }

}  // namespace

AgentLink::AgentLink(io::EventLoop& loop, bool outlives, Events events)
    : loop_(loop),
      events_(std::move(events)),
      end_({.outlives = outlives,
            .welcome = {.process = io::process_id(),
                        .hostname = io::host_name(),
                        .blob_bytes = blob_budget()}},
           {.read = bytes_of, .make = wire::make_room<io::SharedMemory>}, *this),
      timer_(
          loop, [this] { return end_.next_deadline(); },
          [this] { end_.on_timer(io::EventLoop::now()); }) {}

AgentLink::~AgentLink() {
  for (const auto& [id, line] : lines_) {
    if (line.bringer) loop_.unwatch(line.bringer.get());
  }
}

void AgentLink::attach(io::FileDescriptor read, io::FileDescriptor write) {
  if (end_.is_over()) return;
  open_channel(end_.attach(io::EventLoop::now()), std::move(read), std::move(write));
  timer_.arm();
}

void AgentLink::admit(io::FileDescriptor bringer) {
  if (end_.is_over()) return;
  const AgentEnd::LineId line = end_.attach(io::EventLoop::now());
  loop_.watch(bringer.get(), [this, line] { hear_bringer(line); });
  lines_[line].bringer = std::move(bringer);
  timer_.arm();
}

// It passes on its streams, or has ended.
void AgentLink::hear_bringer(AgentEnd::LineId line) {
  const Line& its = lines_.at(line);
  std::vector<io::FileDescriptor> streams = io::take_descriptors(its.bringer.get());
  // Whoever shares them may have made them block, and what is no stream at all refuses.
  const bool usable = std::ranges::all_of(streams, [](const io::FileDescriptor& stream) {
    return io::set_non_blocking(stream.get(), true).has_value();
  });
  if (its.channel || streams.empty() || !usable) {
    return end_.on_line_closed(line, "the process that brought the connection has ended");
  }
  streams.resize(2);
  open_channel(line, std::move(streams[0]), std::move(streams[1]));
}

void AgentLink::open_channel(AgentEnd::LineId line, io::FileDescriptor read,
                             io::FileDescriptor write) {
  lines_[line].channel = std::make_unique<io::Channel>(
      loop_, std::move(read), std::move(write), wire::kFramePrefixBytes, wire::decode_prefix,
      io::Channel::Handlers{
          .on_message = [this, line](io::Incoming incoming) { receive(line, std::move(incoming)); },
          .on_closed = [this,
                        line](const Error& error) { end_.on_line_closed(line, error.message); },
          .on_idle = [this, line] { end_.on_idle(line); }});
}

void AgentLink::receive(AgentEnd::LineId line, io::Incoming incoming) {
  const ByteView header = ByteView(incoming.head).subspan(wire::kFramePrefixBytes);
  end_.on_frame(line, wire::decode(header, std::move(incoming.body),
                                   wire::received_blobs(std::move(incoming.descriptors))));
  timer_.arm();
}

void AgentLink::start_heartbeats(Duration interval) {
  end_.start_heartbeats(interval, io::EventLoop::now());
  timer_.arm();
}

// Leaves with all that this turn of the loop sends.
void AgentLink::send(wire::Message message) {
  end_.send(std::move(message));
  if (!end_.has_unsent() || std::exchange(flush_posted_, true)) return;
  loop_.post([this] {
    flush_posted_ = false;
    end_.flush();
  });
}

void AgentLink::flush() {
  end_.flush();
  for (const auto& [id, line] : lines_) {
    if (line.channel) line.channel->flush();
  }
}

bool AgentLink::is_backed_up() const {
  std::size_t queued = 0;
  for (const auto& [id, line] : lines_) {
    if (line.channel) queued += line.channel->queued_bytes();
  }
  return end_.is_backed_up(queued);
}

void AgentLink::write(AgentEnd::LineId line, const wire::Message& message,
                      wire::Envelope envelope) {
  const auto found = lines_.find(line);
  if (found == lines_.end() || !found->second.channel) return;
  found->second.channel->send(wire::encode(message, envelope));
}

void AgentLink::close(AgentEnd::LineId line) {
  const auto closing = lines_.extract(line);
  if (closing.empty()) return;
  const Line& ending = closing.mapped();
  if (ending.channel) {
    ending.channel->flush();  // the word before it: why the engine was refused
    ending.channel->close();
  }
  if (ending.bringer) loop_.unwatch(ending.bringer.get());
}

void AgentLink::log(const std::string& text) { write_stderr_line("skyward-agent: " + text); }

}  // namespace skyward::agent

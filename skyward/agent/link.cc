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
      endpoint_({.outlives = outlives,
                 .welcome = {.process = io::process_id(),
                             .hostname = io::host_name(),
                             .blob_bytes = blob_budget()}},
                {.read = bytes_of, .make = wire::make_room<io::SharedMemory>}, *this),
      timer_(
          loop, [this] { return endpoint_.next_deadline(); },
          [this] { endpoint_.on_timer(io::EventLoop::now()); }) {}

AgentLink::~AgentLink() {
  for (const auto& [id, connection] : connections_) {
    if (connection.relay) loop_.unwatch(connection.relay.get());
  }
}

void AgentLink::attach(io::FileDescriptor read, io::FileDescriptor write) {
  if (endpoint_.is_over()) return;
  open_channel(endpoint_.attach(io::EventLoop::now()), std::move(read), std::move(write));
  timer_.arm();
}

void AgentLink::attach_relay(io::FileDescriptor relay) {
  if (endpoint_.is_over()) return;
  const AgentEndpoint::ConnectionId connection = endpoint_.attach(io::EventLoop::now());
  loop_.watch(relay.get(), [this, connection] { hear_relay(connection); });
  connections_[connection].relay = std::move(relay);
  timer_.arm();
}

// It passes on its streams, or has ended.
void AgentLink::hear_relay(AgentEndpoint::ConnectionId connection) {
  const Connection& its = connections_.at(connection);
  std::vector<io::FileDescriptor> streams = io::take_descriptors(its.relay.get());
  // Whoever shares them may have made them block, and what is no stream at all refuses.
  const bool usable = std::ranges::all_of(streams, [](const io::FileDescriptor& stream) {
    return io::set_non_blocking(stream.get(), true).has_value();
  });
  if (its.channel || streams.empty() || !usable) {
    return endpoint_.on_connection_closed(connection,
                                          "the process that brought the connection has ended");
  }
  streams.resize(2);
  open_channel(connection, std::move(streams[0]), std::move(streams[1]));
}

void AgentLink::open_channel(AgentEndpoint::ConnectionId connection, io::FileDescriptor read,
                             io::FileDescriptor write) {
  connections_[connection].channel = std::make_unique<io::Channel>(
      loop_, std::move(read), std::move(write), wire::kFramePrefixBytes, wire::decode_prefix,
      io::Channel::Handlers{
          .on_message = [this, connection](
                            io::Incoming incoming) { receive(connection, std::move(incoming)); },
          .on_closed =
              [this, connection](const Error& error) {
                endpoint_.on_connection_closed(connection, error.message);
              },
          .on_idle = [this, connection] { endpoint_.on_idle(connection); }});
}

void AgentLink::receive(AgentEndpoint::ConnectionId connection, io::Incoming incoming) {
  const ByteView header = ByteView(incoming.head).subspan(wire::kFramePrefixBytes);
  endpoint_.on_frame(connection,
                     wire::decode(header, std::move(incoming.body),
                                  wire::received_blobs(std::move(incoming.descriptors))));
  timer_.arm();
}

void AgentLink::start_heartbeats(Duration interval) {
  endpoint_.start_heartbeats(interval, io::EventLoop::now());
  timer_.arm();
}

// Leaves with all that this turn of the loop sends.
void AgentLink::send(wire::Message message) {
  endpoint_.send(std::move(message));
  if (!endpoint_.has_unsent() || std::exchange(flush_posted_, true)) return;
  loop_.post([this] {
    flush_posted_ = false;
    endpoint_.flush();
  });
}

void AgentLink::flush() {
  endpoint_.flush();
  for (const auto& [id, connection] : connections_) {
    if (connection.channel) connection.channel->flush();
  }
}

bool AgentLink::is_backed_up() const {
  std::size_t queued = 0;
  for (const auto& [id, connection] : connections_) {
    if (connection.channel) queued += connection.channel->queued_bytes();
  }
  return endpoint_.is_backed_up(queued);
}

void AgentLink::write(AgentEndpoint::ConnectionId connection, const wire::Message& message,
                      wire::Envelope envelope) {
  const auto found = connections_.find(connection);
  if (found == connections_.end() || !found->second.channel) return;
  found->second.channel->send(wire::encode(message, envelope));
}

void AgentLink::close(AgentEndpoint::ConnectionId connection) {
  const auto closing = connections_.extract(connection);
  if (closing.empty()) return;
  const Connection& ending = closing.mapped();
  if (ending.channel) {
    ending.channel->flush();  // the word before it: why the engine was refused
    ending.channel->close();
  }
  if (ending.relay) loop_.unwatch(ending.relay.get());
}

void AgentLink::log(const std::string& text) { write_stderr_line("skyward-agent: " + text); }

}  // namespace skyward::agent

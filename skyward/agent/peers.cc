#include "skyward/agent/peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "skyward/base/text.h"
#include "skyward/io/machine.h"
#include "skyward/io/process.h"
#include "skyward/io/tcp_socket.h"

namespace skyward::agent {
namespace {

// Below what a fetch waits for its source.
constexpr Duration kResolveTimeout = std::chrono::seconds(3);

// By a program of the node: the system's resolver loads libraries, which a static program cannot.
Result<std::string> address_of(const std::string& name) {
  const auto ran = io::run_command({.command = {"getent", "ahosts", name}}, kResolveTimeout);
  if (!ran) return fail(ran);
  std::vector<std::string> found;
  for (const std::string_view line : split(ran->out, '\n')) {
    std::string address(line.substr(0, line.find_first_of(kBlanks)));
    if (io::address_bytes(address)) found.push_back(std::move(address));
  }
  // Where both are this machine's own, IPv6 may be switched off.
  std::ranges::stable_partition(found, [](const auto& one) { return !one.contains(':'); });
  const auto best = io::best_address(found);
  if (best) return *best;
  return fail(ErrorKind::unreachable, fmt::format("this node knows no address of '{}'", name));
}

}  // namespace

Peers::Peers(io::EventLoop& loop, wire::BlobInbox& inbox, OnFetched on_fetched)
    : loop_(loop),
      on_fetched_(std::move(on_fetched)),
      exchange_(inbox, *this),
      timer_(
          loop, [this] { return exchange_.next_deadline(); },
          [this] { exchange_.on_timer(io::EventLoop::now()); }) {}

Peers::~Peers() { *alive_ = false; }

void Peers::resolve(const std::string& name, OnAddress on_address) {
  // Its thread and this one share it.
  const auto found = std::make_shared<Result<std::string>>();
  loop_.run_blocking([name, found] { *found = address_of(name); },
                     [alive = alive_, found, on_address = std::move(on_address)] {
                       if (*alive) on_address(*found);
                     });
}

// A machine that takes the name for its own (Debian's 127.0.1.1) listens at each of its addresses,
// since the others resolve the name to another one.
void Peers::find_own_address(const std::string& host, OnAddress on_address) {
  if (io::address_bytes(host)) return on_address(host);
  resolve(host, [host, on_address = std::move(on_address)](const Result<std::string>& found) {
    const bool is_own = found && host != "localhost" && found->starts_with("127.");
    on_address(is_own ? Result<std::string>("0.0.0.0") : found);
  });
}

Result<std::uint16_t> Peers::listen(std::string pool, std::string secret,
                                    const std::string& address) {
  auto key = io::TlsKey::make(std::move(pool), std::move(secret));
  if (!key) return fail(key);
  auto listener = io::listen_tcp(address);
  if (!listener) return fail(listener);
  key_ = *std::move(key);
  listener_.emplace(loop_, std::move(listener->socket),
                    [this](io::FileDescriptor connection) { accept(std::move(connection)); });
  return listener->port;
}

void Peers::accept(io::FileDescriptor socket) {
  const StreamId stream = exchange_.attach(io::EventLoop::now());
  if (stream != 0) open(stream, io::TlsStream::Role::server, std::move(socket));
  timer_.arm();
}

void Peers::open(StreamId stream, io::TlsStream::Role role, io::FileDescriptor socket) {
  streams_[stream] = std::make_unique<io::TlsStream>(
      loop_, key_, role, std::move(socket),
      io::TlsStream::Events{.on_open =
                                [this, stream] {
                                  exchange_.on_open(stream, io::EventLoop::now());
                                  timer_.arm();
                                },
                            .on_bytes =
                                [this, stream](ByteView bytes) {
                                  exchange_.on_bytes(stream, bytes, io::EventLoop::now());
                                  timer_.arm();
                                },
                            .on_room =
                                [this, stream] {
                                  exchange_.on_room(stream);
                                  timer_.arm();
                                },
                            .on_closed =
                                [this, stream](const Error& why) {
                                  exchange_.on_closed(stream, why.message);
                                  timer_.arm();
                                }});
}

void Peers::fetch(const wire::FetchBlob& ask) {
  exchange_.fetch(ask, io::EventLoop::now());
  timer_.arm();
}

void Peers::on_blobs_changed() {
  exchange_.on_blobs_changed();
  timer_.arm();
}

Status Peers::dial(StreamId stream, const wire::FetchBlob& ask) {
  if (!key_) return fail(ErrorKind::unreachable, "peer transfer is disabled on this node");
  if (io::address_bytes(ask.address)) return connect(stream, ask.address, ask.port);
  resolving_.insert(stream);
  resolve(ask.address, [this, stream, port = ask.port](const Result<std::string>& address) {
    if (resolving_.erase(stream) == 0) return;
    const Status begun = address ? connect(stream, *address, port) : fail(address);
    if (begun) return;
    exchange_.on_closed(stream, begun.error().message);
    timer_.arm();
  });
  return {};
}

Status Peers::connect(StreamId stream, const std::string& address, std::uint16_t port) {
  auto socket = io::dial_tcp(address, port);
  if (!socket) return fail(socket);
  open(stream, io::TlsStream::Role::client, *std::move(socket));
  return {};
}

std::size_t Peers::write(StreamId stream, ByteView bytes) {
  return streams_.at(stream)->write(bytes);
}

void Peers::close(StreamId stream) {
  streams_.erase(stream);
  resolving_.erase(stream);
}

void Peers::on_fetched(wire::BlobFetched fetched) { on_fetched_(std::move(fetched)); }

}  // namespace skyward::agent

#include "skyward/agent/peers.h"

#include <utility>

#include "skyward/io/tcp_socket.h"

namespace skyward::agent {

Peers::Peers(io::EventLoop& loop, wire::BlobInbox& inbox, OnFetched on_fetched)
    : loop_(loop),
      on_fetched_(std::move(on_fetched)),
      exchange_(inbox, *this),
      timer_(
          loop, [this] { return exchange_.next_deadline(); },
          [this] { exchange_.on_timer(io::EventLoop::now()); }) {}

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
  auto socket = io::dial_tcp(ask.address, ask.port);
  if (!socket) return fail(socket);
  open(stream, io::TlsStream::Role::client, *std::move(socket));
  return {};
}

std::size_t Peers::write(StreamId stream, ByteView bytes) {
  return streams_.at(stream)->write(bytes);
}

void Peers::close(StreamId stream) { streams_.erase(stream); }

void Peers::on_fetched(wire::BlobFetched fetched) { on_fetched_(std::move(fetched)); }

}  // namespace skyward::agent

#pragma once

// The streams between this agent and others of its pool (blob_exchange.h): sockets, TLS with the
// pool's secret (io/tls.h), the timer.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "skyward/agent/blob_exchange.h"
#include "skyward/base/error.h"
#include "skyward/io/deadline_timer.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/listener.h"
#include "skyward/io/tls.h"
#include "skyward/wire/blob_inbox.h"
#include "skyward/wire/message.h"

namespace skyward::agent {

class Peers final : private BlobExchange::Effects {
 public:
  using OnFetched = std::function<void(wire::BlobFetched)>;
  // `inbox` is where the blobs are; it must outlive this. `on_fetched` is never called from inside
  // fetch().
  Peers(io::EventLoop& loop, wire::BlobInbox& inbox, OnFetched on_fetched);

  // Listens for the other agents at this address of this machine; returns the port. Without it,
  // this agent serves and fetches nothing. Call once.
  Result<std::uint16_t> listen(std::string pool, std::string secret, const std::string& address);

  void fetch(const wire::FetchBlob& ask);
  // Blobs of the inbox have grown, or were dropped.
  void on_blobs_changed();

 private:
  using StreamId = BlobExchange::StreamId;

  Status dial(StreamId stream, const wire::FetchBlob& ask) override;
  std::size_t write(StreamId stream, ByteView bytes) override;
  void close(StreamId stream) override;
  void on_fetched(wire::BlobFetched fetched) override;

  void accept(io::FileDescriptor socket);
  void open(StreamId stream, io::TlsStream::Role role, io::FileDescriptor socket);

  io::EventLoop& loop_;
  OnFetched on_fetched_;
  BlobExchange exchange_;
  std::shared_ptr<const io::TlsKey> key_;
  std::optional<io::Listener> listener_;
  std::map<StreamId, std::unique_ptr<io::TlsStream>> streams_;
  io::DeadlineTimer timer_;
};

}  // namespace skyward::agent

#pragma once

// The streams between this agent and others of its pool (blob_exchange.h): sockets, TLS with the
// pool's secret (io/tls.h), the timer.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
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
  ~Peers();

  using OnAddress = std::function<void(const Result<std::string>&)>;
  // Where to listen on a machine that the others reach at this address or name. Calls at once for
  // an address, and else when the machine has resolved the name, unless this is gone by then.
  void find_own_address(const std::string& host, OnAddress on_address);

  // Listens for the other agents at this address of this machine, which is no name; returns the
  // port. Without it, this agent serves and fetches nothing. Call once.
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

  void resolve(const std::string& name, OnAddress on_address);
  Status connect(StreamId stream, const std::string& address, std::uint16_t port);
  void accept(io::FileDescriptor socket);
  void open(StreamId stream, io::TlsStream::Role role, io::FileDescriptor socket);

  io::EventLoop& loop_;
  OnFetched on_fetched_;
  BlobExchange exchange_;
  std::shared_ptr<const io::TlsKey> key_;
  std::optional<io::Listener> listener_;
  std::map<StreamId, std::unique_ptr<io::TlsStream>> streams_;
  std::set<StreamId> resolving_;  // streams whose address is not known yet
  io::DeadlineTimer timer_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace skyward::agent

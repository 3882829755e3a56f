#pragma once

// The transfer of blobs between the agents of a pool, so that the engine sends a large argument
// only once. The engine decides who fetches what from whom (wire::FetchBlob); an agent serves
// everybody who knows the pool's secret (io/tls.h). It passes a blob on while it still arrives,
// from the engine or from a third agent, so a chain of nodes takes hardly longer than one.

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "skyward/base/error.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/listener.h"
#include "skyward/io/tls.h"
#include "skyward/wire/blob_inbox.h"
#include "skyward/wire/message.h"

namespace skyward::agent {

class Peers {
 public:
  using OnFetched = std::function<void(wire::BlobFetched)>;
  // `inbox` is where the blobs are; it must outlive this. `on_fetched` is never called from inside
  // fetch().
  Peers(io::EventLoop& loop, wire::BlobInbox& inbox, OnFetched on_fetched);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // Listens for the other agents at this address of this machine; returns the port. Without it,
  // this agent serves and fetches nothing. Call once.
  Result<std::uint16_t> listen(std::string pool, std::string secret, const std::string& address);

  void fetch(const wire::FetchBlob& ask);
  // Blobs of the inbox have grown, or were dropped.
  void on_blobs_changed();

 private:
  // An agent that reads from this one.
  struct Client;
  // A blob that this agent reads from another.
  struct Fetch;

  void accept(io::FileDescriptor socket);
  void greet(Client& client, ByteView bytes);
  void serve_later();
  void serve_all();
  bool serve(Client& client);
  void dismiss(const Client& client);
  void beat();

  void dial(const std::shared_ptr<Fetch>& fetch);
  void take(const std::shared_ptr<Fetch>& fetch, ByteView bytes);
  void watch_silence(const std::shared_ptr<Fetch>& fetch);
  void finish(const std::shared_ptr<Fetch>& fetch, wire::FetchEnd end, std::string detail);
  void forget(const std::shared_ptr<Fetch>& fetch);
  void answer(const wire::FetchBlob& ask, wire::FetchEnd end, std::string detail);

  io::EventLoop& loop_;
  wire::BlobInbox& inbox_;
  OnFetched on_fetched_;
  std::shared_ptr<const io::TlsKey> key_;
  std::optional<io::Listener> listener_;
  std::list<std::unique_ptr<Client>> clients_;
  std::map<BlobId, std::shared_ptr<Fetch>> fetches_;  // shared with the callbacks of its stream
  io::EventLoop::TimerId pulse_ = 0;
  bool serving_ = false;         // serve_all() is scheduled
  std::shared_ptr<bool> alive_;  // false once destroyed; posted callbacks share it
};

}  // namespace skyward::agent

#pragma once

// What this agent passes on to other agents of its pool, and gets from them: blobs, so that the
// engine need send a large argument only once. Who gets what from whom, the engine says
// (wire::FetchBlob). A blob is passed on as it arrives, whether it comes from the engine or from a
// third agent: a chain of nodes takes hardly longer than one.
//
// Pure: streams, their bytes (wire/peer_protocol.h) and the time come in, Effects go out.
// agent/peers.h performs them with real streams, the storm with simulated ones.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "skyward/base/bytes.h"
#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/wire/blob_inbox.h"
#include "skyward/wire/message.h"
#include "skyward/wire/peer_protocol.h"

namespace skyward::agent {

class BlobExchange {
 public:
  using StreamId = std::uint64_t;  // from 1; never used twice

  class Effects {
   public:
    virtual ~Effects() = default;
    // Connects to the agent that `ask` names. Fails when that cannot even be tried.
    virtual Status dial(StreamId stream, const wire::FetchBlob& ask) = 0;
    // Takes as many of the bytes as fit, from the first on, and returns their number. When that is
    // not all, on_room() follows.
    virtual std::size_t write(StreamId stream, ByteView bytes) = 0;
    // Nothing more comes of the stream.
    virtual void close(StreamId stream) = 0;
    // To the engine. Only from inside on_timer().
    virtual void on_fetched(wire::BlobFetched fetched) = 0;
  };

  // `inbox` is where the blobs are. Both must outlive this.
  BlobExchange(wire::BlobInbox& inbox, Effects& effects) : inbox_(inbox), effects_(effects) {}
  BlobExchange(const BlobExchange&) = delete;
  BlobExchange& operator=(const BlobExchange&) = delete;

  // ---- what happens

  // The engine's order.
  void fetch(const wire::FetchBlob& ask, Time now);
  // Blobs of the inbox have grown, or some are gone.
  void on_blobs_changed();
  // Another agent has connected, and will ask for a blob. 0: there are too many.
  StreamId attach(Time now);
  // The agent that was dialled has answered, and knows the pool's secret.
  void on_open(StreamId stream, Time now);
  void on_bytes(StreamId stream, ByteView bytes, Time now);
  void on_room(StreamId stream);
  void on_closed(StreamId stream, std::string why);
  // To be called at next_deadline().
  void on_timer(Time now);
  Time next_deadline() const;

 private:
  // One that reads from us.
  struct Client {
    Time asks_until{};
    Time moved_at{};
    Bytes asked;  // the request, as far as it has come
    bool ready = false;
    bool seen = false;  // the blob was here
    wire::PeerRequest request;
    std::uint64_t sent = 0;  // of the blob, from its beginning
    std::array<std::byte, wire::kPeerPrefixBytes> prefix{};
    std::size_t prefix_left = 0;
    std::uint64_t part_left = 0;
    bool missing = false;  // the prefix says so, and is the last word

    void begin_part(std::uint32_t length);
    bool between_parts() const { return prefix_left == 0 && part_left == 0; }
  };
  // One that we read from.
  struct Fetch {
    wire::FetchBlob ask;
    wire::PeerReader reader;
    bool open = false;
    Time heard_at{};
    Time grown_at{};  // bytes of the blob came

    Time silent_at() const;
    Time stands_still_at() const;
  };
  using Clients = std::map<StreamId, Client>;
  using Fetches = std::map<StreamId, Fetch>;

  void greet(Clients::iterator place, ByteView bytes, Time now);
  bool serve(StreamId stream, Client& client, Time now);
  void serve_all(Time now);
  void beat(Time now);
  void dismiss(Clients::iterator place);

  void take(Fetches::iterator place, ByteView bytes, Time now);
  void watch_silence(Time now);
  void allow_for_hold_up(Time now);
  void finish(Fetches::iterator place, wire::FetchEnd end, std::string detail);
  void answer(const wire::FetchBlob& ask, wire::FetchEnd end, std::string detail);

  wire::BlobInbox& inbox_;
  Effects& effects_;
  Clients clients_;
  Fetches fetches_;
  StreamId last_stream_ = 0;
  Time beats_at_ = kNever;
  bool serve_soon_ = false;                 // at the next on_timer(), which is due
  std::vector<wire::BlobFetched> answers_;  // as above: whoever asked is still at it
};

}  // namespace skyward::agent

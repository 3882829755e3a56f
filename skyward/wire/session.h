#pragma once

// One end of a conversation that outlives its connections. Pure: bytes and time stay outside.
//
// Each numbered message gets the next sequence number and is kept until the other end acknowledges
// it. After a reconnect, both ends say in Hello and Welcome what they have received, and resend the
// rest. A message that arrives twice is dropped here; one that arrives too early means that the
// ends must reconnect.

#include <cstdint>
#include <deque>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/wire/codec.h"
#include "skyward/wire/message.h"

namespace skyward::wire {

// Everything but Hello, Welcome, Farewell and Heartbeat.
bool is_numbered(const Message& message);

class Session {
 public:
  // Numbers a message and keeps it for re-sending. Returns the envelope to send it under.
  // Hello, Welcome, Farewell and Heartbeat are not numbered: use control().
  Envelope number(Message message);
  // The message that was numbered last; valid until something arrives.
  const Message& newest() const { return kept_.back().message; }

  // Envelope for a message outside the numbered stream; carries the acknowledgement.
  Envelope control();

  enum class Arrival {
    deliver,    // new and in order: hand it to the core
    duplicate,  // seen before: drop it
    gap,        // something is missing: reconnect
  };
  // Records an arriving frame: drops what it acknowledges, and says what to do with its message.
  Arrival arrived(const Envelope& envelope);

  // Whether the rest can be resent to an end that has everything up to `last_received`. Fails with
  // `lost` if it has restarted: then the conversation is over.
  Status check_resume(std::uint64_t last_received) const;
  struct Kept {
    std::uint64_t sequence = 0;
    Message message;
  };
  // After check_resume() has succeeded: drops what the other end has, and returns what must be
  // resent, in order.
  std::vector<Kept> resume(std::uint64_t last_received);

  // An acknowledgement is due: more than kAcknowledgeEvery frames arrived since the last frame that
  // carried one.
  bool should_acknowledge() const;

  // The other end has stopped acknowledging: kMaxUnacknowledgedFrames are kept. Count it as lost.
  bool is_full() const;

  std::uint64_t last_received() const { return received_; }
  std::size_t unacknowledged() const { return kept_.size(); }
  // The memory that these own: lines, small buffers, parts of blobs.
  std::uint64_t unacknowledged_bytes() const { return kept_bytes_; }

 private:
  void forget(std::uint64_t acknowledged);

  std::uint64_t last_sent() const { return next_ - 1; }
  std::uint64_t last_forgotten() const { return last_sent() - kept_.size(); }

  std::uint64_t next_ = 1;
  std::uint64_t received_ = 0;
  std::uint64_t told_ = 0;  // the acknowledgement last sent
  std::deque<Kept> kept_;
  std::uint64_t kept_bytes_ = 0;
};

}  // namespace skyward::wire

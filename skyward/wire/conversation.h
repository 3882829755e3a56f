#pragma once

// What both ends of a link have in common. An end numbers its messages and keeps them until they
// are acknowledged (session.h), sends large data in parts (outbox.h, blob_inbox.h), acknowledges,
// and sends heartbeats. It outlives its connections; engine/engine_endpoint.h makes them,
// agent/agent_endpoint.h accepts them.
//
// Pure: what arrives comes in as calls, what is to be written goes out through Write. The links of
// pools and those of the storm run the same code.

#include <cstdint>
#include <functional>
#include <optional>

#include "skyward/base/error.h"
#include "skyward/wire/batch.h"
#include "skyward/wire/blob_inbox.h"
#include "skyward/wire/message.h"
#include "skyward/wire/outbox.h"
#include "skyward/wire/session.h"

namespace skyward::wire {

class Conversation {
 public:
  // Writes a frame to the present connection. Must not call back.
  using Write = std::function<void(const Message&, Envelope)>;
  Conversation(Outbox::Read read, BlobInbox::Make make, Write write)
      : outbox_(std::move(read)), inbox_(std::move(make)), write_(std::move(write)) {}

  // Blobs travel by descriptor, beside the frames: no message waits for them. Call before the first
  // message.
  void use_descriptors() { descriptors_ = true; }
  bool uses_descriptors() const { return descriptors_; }

  // ---- the connection

  // The first word on a new connection, which has nothing else to write: Hello or Welcome.
  void greet(const Message& greeting);
  // Fails with `lost` if the conversation cannot continue with an end that has messages up to
  // `last_received`.
  Status check_resume(std::uint64_t last_received) const {
    return session_.check_resume(last_received);
  }
  // Both have greeted, and check_resume() has succeeded. Resends what the other end has not
  // received; pump() sends the rest.
  void connect(std::uint64_t last_received);
  void disconnect() { connected_ = false; }
  bool is_connected() const { return connected_; }
  // The connection has written everything.
  void on_idle();

  // ---- sending

  // On failure (a blob cannot be read), the message is unchanged and not sent.
  Status send(Message& message);
  // What was sent may wait to be put together with what follows (batch.h), until flush() at the end
  // of the turn at the latest.
  void flush();
  bool has_batch() const { return !batch_.empty(); }
  // For messages outside the numbered stream, which are never resent: Heartbeat, Farewell.
  void send_control(const Message& message);
  // Sends a heartbeat if nothing else was sent since the last call.
  void beat();
  // Acknowledges what has arrived, if an acknowledgement is due.
  void acknowledge();
  // Writes the urgent messages, and a part of the large data if the connection is idle.
  void pump();

  // ---- receiving

  Session::Arrival arrived(const Envelope& envelope) { return session_.arrived(envelope); }

  const Session& session() const { return session_; }
  Envelope control_envelope() { return session_.control(); }
  Outbox& outbox() { return outbox_; }
  const Outbox& outbox() const { return outbox_; }
  BlobInbox& inbox() { return inbox_; }

 private:
  void empty_outbox();
  void send_numbered(Message message);
  void number_and_write(Message message);
  void write(const Message& message, Envelope envelope);

  Session session_;
  OutgoingBatch batch_;
  Outbox outbox_;  // on connections without descriptors
  BlobInbox inbox_;
  Write write_;
  bool descriptors_ = false;
  bool connected_ = false;
  bool idle_ = false;   // the connection has nothing to write
  bool spoke_ = false;  // since the last beat
};

}  // namespace skyward::wire

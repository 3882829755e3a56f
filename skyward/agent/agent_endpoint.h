#pragma once

// The agent's end of the conversation with the engine: answers the greeting, delivers what arrives,
// sends heartbeats. A daemon's conversation outlives its connections: the engine reconnects, says
// what it has received, and both resend the rest. One connection is the current one; a new one that
// knows the pool's secret replaces it. wire/conversation.h has what both ends have in common.
//
// Pure: connections, frames and the time come in, Effects go out. agent/link.h performs them with
// real streams, the storm with simulated ones.

#include <cstdint>
#include <string>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/wire/codec.h"
#include "skyward/wire/conversation.h"
#include "skyward/wire/message.h"

namespace skyward::agent {

class AgentEndpoint {
 public:
  using ConnectionId = std::uint64_t;  // from 1; never used twice

  struct Options {
    bool outlives = false;  // the end of a connection is not the end of the conversation
    // What it reports about itself. `blob_bytes`: on connections without descriptors.
    wire::Welcome welcome{};
  };
  struct Memory {
    wire::Outbox::Read read;
    wire::BlobInbox::Make make;
  };
  class Effects {
   public:
    virtual ~Effects() = default;
    virtual void write(ConnectionId connection, const wire::Message& message,
                       wire::Envelope envelope) = 0;
    // Writes what the kernel takes at once, and drops the rest; on_connection_closed() need not be
    // called.
    virtual void close(ConnectionId connection) = 0;

    // To the owner.
    virtual void on_heard() = 0;                                // anything has come from the engine
    virtual void on_message(const wire::Message& message) = 0;  // after the greeting; no Heartbeats
    virtual void on_fetch(const wire::FetchBlob& fetch) = 0;
    virtual void on_blobs_changed() = 0;  // some have grown or were dropped
    // Once; for a daemon, only if the engine's connection ended without a greeting. `reason` is
    // empty if the engine closed in order.
    virtual void on_closed(std::string reason) = 0;
    virtual void log(const std::string& text) = 0;
  };

  // `effects` must outlive this.
  AgentEndpoint(Options options, Memory memory, Effects& effects);
  AgentEndpoint(const AgentEndpoint&) = delete;
  AgentEndpoint& operator=(const AgentEndpoint&) = delete;

  // ---- Events

  // A connection on which the engine will greet.
  ConnectionId attach(Time now);
  // The error: a frame that cannot be read.
  void on_frame(ConnectionId connection, Result<wire::DecodedFrame> frame);
  // The connection has written everything.
  void on_idle(ConnectionId connection);
  void on_connection_closed(ConnectionId connection, std::string reason);
  // Call at next_deadline().
  void on_timer(Time now);
  Time next_deadline() const;

  // What is sent may wait for flush(), at the end of the turn.
  void send(wire::Message message);
  void flush();
  bool has_unsent() const { return conversation_.has_batch(); }
  // Sends a Heartbeat after each `interval` in which nothing else was sent.
  void start_heartbeats(Duration interval, Time now);
  // Says that the daemon exits; it does not wait for another connection.
  void say_farewell(const std::string& reason);

  // ---- State

  bool is_over() const { return ended_; }
  bool is_connected() const { return current_ != 0; }
  // The pool that the engine greeted for.
  const std::string& pool() const { return greeting_.pool; }
  // Where the parts of blobs are put together; they may come from elsewhere, too.
  wire::BlobInbox& inbox() { return conversation_.inbox(); }
  const wire::Outbox& outbox() const { return conversation_.outbox(); }
  // The engine does not keep up. `queued_bytes`: not written yet.
  bool is_backed_up(std::size_t queued_bytes) const;

 private:
  struct Connection {
    ConnectionId id = 0;
    Time greets_until = kNever;
  };

  void handle(wire::Message message);
  void report_lost_blobs(const wire::Message& message);
  void read_body(wire::RunTask& run) const;
  void greet(ConnectionId connection, const wire::Hello& hello);
  std::string refusal(const wire::Hello& hello);
  void close(ConnectionId connection, std::string reason);
  void end(std::string reason);
  void beat(Time now);

  const Options options_;
  const Memory memory_;
  Effects& effects_;
  wire::Conversation conversation_;
  std::vector<Connection> connections_;
  ConnectionId last_connection_ = 0;
  ConnectionId current_ = 0;
  bool greeted_ = false;
  wire::Hello greeting_;  // the first one
  bool ended_ = false;
  Duration interval_{};
  Time beats_at_ = kNever;
};

}  // namespace skyward::agent

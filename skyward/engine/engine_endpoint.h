#pragma once

// The engine's end of the conversation with one node's agent: greets on each connection, delivers
// what arrives, reconnects where the agent outlives its connections, and decides when the node is
// lost (link_policy.h). wire/conversation.h has what both ends have in common.
//
// Pure: connections, frames and the time come in, Effects go out. engine/link.h performs them with
// real commands and streams, the storm with simulated ones.

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <string>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/engine/link_policy.h"
#include "skyward/wire/codec.h"
#include "skyward/wire/conversation.h"
#include "skyward/wire/message.h"

namespace skyward::engine {

class EngineEndpoint {
 public:
  struct Options {
    wire::Hello hello;        // `descriptors`: blobs go beside the frames
    bool reconnects = false;  // the agent outlives its connections
    LinkPolicy::Limits limits;
    std::uint32_t seed = 0;  // for the pauses between connections
  };
  // Where large data lies.
  struct Memory {
    wire::Outbox::Read read;
    wire::BlobInbox::Make make;
    // Takes over the memory of a result's or an item's blobs. Fails with `invalid` if it is not
    // what was announced.
    std::function<Status(wire::Payload&)> hold;
  };
  class Effects {
   public:
    virtual ~Effects() = default;
    // Starts a connection; answered by on_open() and on_end(), but not from inside this call.
    virtual void connect() = 0;
    // Ends the present one without on_end(). The other end has `grace` to notice.
    virtual void hang_up(Duration grace) = 0;
    // With what the command that connects has said.
    virtual Error with_its_words(Error why) { return why; }
    virtual void write(const wire::Message& message, wire::Envelope envelope) = 0;

    // To the owner. Each is the last thing that its call does, except for frames that follow.
    virtual void on_welcome() = 0;  // once
    virtual void on_message(wire::Message message) = 0;
    // It reconnects, and why; then that it has reconnected, and how long that took.
    virtual void on_trouble(std::string why) = 0;
    virtual void on_recovered(Duration after) = 0;
    // An attempt to reconnect has failed, though this computer has a network; others follow.
    virtual void on_not_reconnected() = 0;
    // An attempt to reach a node has failed; none has succeeded yet, and others follow.
    virtual void on_unreached(Error why) = 0;
    // An attempt has failed because this computer has no network; the node may be well.
    virtual void on_offline() = 0;
    virtual void on_lost(Error why) = 0;  // once, last
  };

  // `effects` must outlive this.
  EngineEndpoint(Options options, Memory memory, Effects& effects, Time now);
  EngineEndpoint(const EngineEndpoint&) = delete;
  EngineEndpoint& operator=(const EngineEndpoint&) = delete;

  // ---- Events. All but send() may lead to any effect.

  // Makes the first connection.
  void start(Time now);
  // Frames may be written.
  void on_open();
  // The error: a frame that cannot be read.
  void on_frame(Result<wire::DecodedFrame> frame, Time now);
  // The connection has written everything.
  void on_idle();
  // The connection, or the attempt to make one, has ended; `moved` as below.
  void on_end(ConnectionEnd end, std::uint64_t moved, Time now);
  // Call at next_deadline(). `moved`: how many bytes (or anything that grows) have arrived over the
  // present connection.
  void on_timer(std::uint64_t moved, Time now);
  Time next_deadline() const;

  // Leads only to write(); its own answers come with the next on_timer().
  // What is sent may wait for flush(), at the end of the turn.
  void send(wire::Message message);
  void flush();
  bool has_unsent() const { return conversation_.has_batch(); }
  // No effect follows, except for one message to the agent. True: the agent was told to exit and
  // will close the connection; otherwise the owner closes it.
  bool close();
  // The owner cannot even try to connect.
  void give_up(ErrorKind kind, std::string why);

  // ---- State

  bool is_over() const { return over_; }  // lost or closed
  bool is_connected() const { return policy_.is_connected(); }
  bool was_welcomed() const { return policy_.was_welcomed(); }
  // The agent was told to exit before close(), and had its time for that.
  bool was_told_to_end() const { return told_to_end_; }
  bool has_volumes() const { return has_volumes_; }  // to unmount at its end
  bool has_taken_leave() const { return !farewell_.empty(); }
  // The machine has been silent throughout.
  bool is_hopeless() const;
  const wire::Outbox& outbox() const { return conversation_.outbox(); }

 private:
  void connect(Time now);
  void handle(wire::Message message);
  void handle_welcome(const wire::Welcome& welcome, Time now);
  bool hold_payload(wire::Message& message);
  void refuse_task(const wire::Message& message, const Error& why);
  void answer_cancelled(const wire::RunTask& run);
  void deliver_answers();
  void check_pulse(std::uint64_t moved, Time now);
  void drop_connection(std::string why, Time now);
  void ended(ConnectionEnd end, Time now);
  std::string tries_text(Duration tried) const;
  void lose(ErrorKind kind, std::string why, std::string hint = {});

  Options options_;
  Memory memory_;
  Effects& effects_;
  wire::Conversation conversation_;
  LinkPolicy policy_;
  std::minstd_rand random_;
  std::deque<wire::Message> answers_;  // our own, for the next turn
  bool connecting_ = false;            // there is a connection, or an attempt to make one
  bool over_ = false;
  bool overrun_ = false;  // it has stopped acknowledging
  bool told_to_end_ = false;
  bool has_volumes_ = false;
  bool answered_ = false;  // since the connection broke, by anything
  bool offline_ = false;   // the same: there was no network here
  std::string farewell_;   // why the agent exits, as it said
  Time retry_at_ = kNever;
  // Heartbeats, in both directions.
  Time pulse_at_ = kNever;
  std::uint64_t moved_ = 0;
  Time moved_at_{};
  Time connecting_since_{};
  std::optional<Duration> login_;  // until anything moved on the present connection
};

}  // namespace skyward::engine

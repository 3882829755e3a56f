#pragma once

// The agent's end of the conversation with the engine: greeting, numbering, acknowledging, proof of
// life. A daemon's conversation outlives its connections: the engine calls again, says what it has,
// and both send the rest. One connection is the current one; a new one that knows the pool's secret
// takes its place.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "skyward/base/time.h"
#include "skyward/io/channel.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/wire/blob_inbox.h"
#include "skyward/wire/message.h"
#include "skyward/wire/outbox.h"
#include "skyward/wire/session.h"

namespace skyward::agent {

class Link {
 public:
  struct Events {
    std::function<void(const wire::Message&)> on_message;  // after the greeting; no Heartbeats
    std::function<void()> on_heard;                        // any word of the engine has come
    std::function<void(const wire::FetchBlob&)> on_fetch;
    std::function<void()> on_blobs_changed;  // some have grown, or are gone
    // Called once; of a daemon only when its engine has gone without a greeting. `reason` is empty
    // when the engine closed in order.
    std::function<void(std::string reason)> on_closed;
  };
  // `outlives`: the end of a connection is not the end of the conversation.
  Link(io::EventLoop& loop, bool outlives, Events events);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // A connection on which the engine will greet. Both ends non-blocking; `write` is empty for a
  // socket.
  void attach(io::FileDescriptor read, io::FileDescriptor write);

  void send(wire::Message message);
  // Where blobs are put together; parts may come from elsewhere, too. Lives as long as the link.
  wire::BlobInbox& inbox() { return inbox_; }
  // The pool that the engine greeted for.
  const std::string& pool() const { return pool_; }
  // A Heartbeat whenever nothing else was sent for so long.
  void start_heartbeats(Duration interval);
  // The last word of a daemon: it does not wait for another connection.
  void say_farewell(const std::string& reason);
  // What is waiting to be written goes out as far as the kernel takes it.
  void flush();
  // The engine does not keep up with what it is sent.
  bool is_backed_up() const;

 private:
  // One connection.
  struct Line {
    std::unique_ptr<io::Channel> channel;
    io::EventLoop::TimerId timer = 0;  // until the greeting
  };

  void receive(Line& line, io::Incoming incoming);
  void handle(wire::Message message);
  void greet(Line& line, const wire::Hello& hello);
  std::string refusal(const wire::Hello& hello) const;
  void answer(Line& line, wire::Welcome welcome);
  void resume(std::uint64_t last_received);
  void send_beside(wire::Message message);
  void pump();
  void write(const wire::Message& message, wire::Envelope envelope);
  void close(Line& line, std::string reason);
  void end(std::string reason);
  void beat();

  io::EventLoop& loop_;
  const bool outlives_;
  Events events_;
  wire::Session session_;
  wire::Outbox outbox_;  // on connections without descriptors
  wire::BlobInbox inbox_;
  std::vector<std::unique_ptr<Line>> lines_;
  Line* current_ = nullptr;
  bool greeted_ = false;      // once; then these hold
  bool descriptors_ = false;  // blobs go by descriptor
  std::string pool_;
  std::string token_;
  NodeId node_;
  bool ended_ = false;
  bool spoke_ = false;  // since the last beat
  Duration interval_{};
  io::EventLoop::TimerId timer_ = 0;
};

}  // namespace skyward::agent

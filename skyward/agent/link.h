#pragma once

// The agent's end of the conversation with the engine: greeting, numbering, acknowledging, proof of
// life. It speaks over one connection, and when that ends, the conversation does.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "skyward/base/time.h"
#include "skyward/io/channel.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/wire/message.h"
#include "skyward/wire/session.h"

namespace skyward::agent {

class Link {
 public:
  struct Events {
    std::function<void(const wire::Message&)> on_message;  // after the greeting; no Heartbeats
    // Called once. `reason` is empty when the engine closed the connection in order.
    std::function<void(std::string reason)> on_closed;
  };
  // Both ends non-blocking; `write` is empty for a socket.
  Link(io::EventLoop& loop, io::FileDescriptor read, io::FileDescriptor write, Events events);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void send(wire::Message message);
  // A Heartbeat whenever nothing else was sent for so long.
  void start_heartbeats(Duration interval);
  // What is waiting to be written goes out as far as the kernel takes it.
  void flush() { channel_->flush(); }
  // The engine does not keep up with what it is sent.
  bool is_backed_up() const;

 private:
  void receive(io::Incoming incoming);
  void greet(const wire::Hello& hello);
  void write(const wire::Message& message, wire::Envelope envelope);
  void close(std::string reason);
  void beat();

  io::EventLoop& loop_;
  Events events_;
  wire::Session session_;
  std::unique_ptr<io::Channel> channel_;
  bool greeted_ = false;
  bool descriptors_ = false;  // blobs go by descriptor
  bool closed_ = false;
  bool spoke_ = false;  // since the last beat
  Duration interval_{};
  io::EventLoop::TimerId timer_ = 0;
};

}  // namespace skyward::agent

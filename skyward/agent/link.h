#pragma once

// The streams of the agent's end of the conversation with the engine (agent_endpoint.h): frames to
// bytes and back, large data in shared memory, the timer.

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "skyward/agent/agent_endpoint.h"
#include "skyward/base/time.h"
#include "skyward/io/channel.h"
#include "skyward/io/deadline_timer.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/wire/blob_inbox.h"
#include "skyward/wire/message.h"

namespace skyward::agent {

class AgentLink final : private AgentEndpoint::Effects {
 public:
  // The same as in agent_endpoint.h.
  struct Events {
    std::function<void(const wire::Message&)> on_message;
    std::function<void()> on_heard;
    std::function<void(const wire::FetchBlob&)> on_fetch;
    std::function<void()> on_blobs_changed;
    std::function<void(std::string reason)> on_closed;
  };
  // `outlives`: the end of a connection is not the end of the conversation.
  AgentLink(io::EventLoop& loop, bool outlives, Events events);
  ~AgentLink() override;
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;

  // A connection on which the engine will greet. Both ends non-blocking; `write` is empty for a
  // socket.
  void attach(io::FileDescriptor read, io::FileDescriptor write);
  // A process that passes on such a connection, its own standard streams (connect.h). The
  // connection begins with it and ends with it, and it ends with the connection.
  void attach_relay(io::FileDescriptor relay);

  void send(wire::Message message);
  // Where the parts of blobs are put together; they may come from elsewhere, too. Lives as long as
  // the link.
  wire::BlobInbox& inbox() { return endpoint_.inbox(); }
  // The pool that the engine greeted for.
  const std::string& pool() const { return endpoint_.pool(); }
  // Sends a Heartbeat after each `interval` in which nothing else was sent.
  void start_heartbeats(Duration interval);
  // Says that the daemon exits; it does not wait for another connection.
  void say_farewell(const std::string& reason) { endpoint_.say_farewell(reason); }
  // Writes what is queued, as far as the kernel takes it.
  void flush();
  // The engine does not keep up.
  bool is_backed_up() const;

 private:
  void write(AgentEndpoint::ConnectionId connection, const wire::Message& message,
             wire::Envelope envelope) override;
  void close(AgentEndpoint::ConnectionId connection) override;
  void on_heard() override { events_.on_heard(); }
  void on_message(const wire::Message& message) override { events_.on_message(message); }
  void on_fetch(const wire::FetchBlob& fetch) override { events_.on_fetch(fetch); }
  void on_blobs_changed() override { events_.on_blobs_changed(); }
  void on_closed(std::string reason) override { events_.on_closed(std::move(reason)); }
  void log(const std::string& text) override;

  struct Connection {
    std::unique_ptr<io::Channel> channel;  // empty: the relay has not passed it on yet
    io::FileDescriptor relay;
  };

  void hear_relay(AgentEndpoint::ConnectionId connection);
  void open_channel(AgentEndpoint::ConnectionId connection, io::FileDescriptor read,
                    io::FileDescriptor write);
  void receive(AgentEndpoint::ConnectionId connection, io::Incoming incoming);

  io::EventLoop& loop_;
  Events events_;
  AgentEndpoint endpoint_;
  std::map<AgentEndpoint::ConnectionId, Connection> connections_;
  io::DeadlineTimer timer_;
  bool flush_posted_ = false;
};

}  // namespace skyward::agent

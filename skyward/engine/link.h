#pragma once

// The engine's end of the connection to one node's agent: the command that reaches it (an agent of
// our own, ssh …), the channel of frames over that command's stdio, and the session that survives
// the channel. Greets, checks versions, decodes; decides nothing else.

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/io/channel.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/process.h"
#include "skyward/provider/provider.h"
#include "skyward/spec/id.h"
#include "skyward/wire/message.h"
#include "skyward/wire/session.h"

namespace skyward::engine {

class Link {
 public:
  // All on the loop thread, never from inside a call of the owner's.
  struct Events {
    std::function<void(wire::Welcome)> on_welcome;
    std::function<void(wire::Message)> on_message;
    // Once; the command has ended or the agent was refused. `on_gone` follows.
    std::function<void(Error)> on_lost;
    // Once, last: the command was reaped. The link may be destroyed now.
    std::function<void()> on_gone;
  };

  // Starts the command; a failure to start it comes as on_lost, too.
  Link(io::EventLoop& loop, wire::Hello hello, const provider::Connection& connection, bool socket,
       Events events);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void send(wire::Message message);

  // Ends the conversation: the agent sees the end of its input and has `grace` to clean up, then it
  // is killed. on_lost is not called any more.
  void close(Duration grace);

 private:
  Status start(const provider::Connection& connection, bool socket);
  void receive(io::Incoming incoming);
  void handle_welcome(wire::Welcome welcome);
  void channel_closed(const Error& why);
  void read_stderr();
  void exited(io::ExitStatus status);
  void lose(ErrorKind kind, std::string why);
  void schedule_gone();

  io::EventLoop& loop_;
  Events events_;
  wire::Hello hello_;
  wire::Session session_;
  std::unique_ptr<io::Channel> channel_;
  std::unique_ptr<io::Process> process_;
  io::FileDescriptor stderr_;
  std::string stderr_tail_;
  std::string channel_error_;
  bool welcomed_ = false;
  bool lost_told_ = false;
  bool exited_ = false;
  io::EventLoop::TimerId timer_ = 0;
  std::shared_ptr<bool> alive_;  // false once destroyed; posted callbacks share it
};

}  // namespace skyward::engine

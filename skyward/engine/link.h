#pragma once

// The engine's end of the conversation with one node's agent. Each connection is one run of a
// command (link_attempt.h); the session survives it. Where the agent is a daemon behind a shell, a
// connection that ends, or on which nothing moves, is made again with growing pauses, and both ends
// send what the other has not got: the owner sees one welcome and, at the end, one loss.
//
// When it tries again and when it gives up is link_policy.h's to decide.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/engine/link_attempt.h"
#include "skyward/engine/link_policy.h"
#include "skyward/engine/strays.h"
#include "skyward/io/event_loop.h"
#include "skyward/provider/provider.h"
#include "skyward/wire/blob_inbox.h"
#include "skyward/wire/message.h"
#include "skyward/wire/outbox.h"
#include "skyward/wire/session.h"

namespace skyward::engine {

class Link {
 public:
  // All on the loop thread, never from inside a call of the owner's.
  struct Events {
    // Once. `reached_at`: when the machine answered first, where a shell is between.
    std::function<void(std::optional<Time> reached_at)> on_welcome;
    std::function<void(wire::Message)> on_message;
    // The connection is being made again, and why; and that it is there again, after so long.
    std::function<void(std::string)> on_trouble{};
    std::function<void(Duration)> on_recovered{};
    // Once; the agent is gone, cannot be reached or was refused. `on_gone` follows.
    std::function<void(Error)> on_lost;
    // Once, last: no process of the link is left. It may be destroyed now.
    std::function<void()> on_gone;
  };
  // Starts the command; a failure to start it comes as on_lost, too.
  // `life` counts the machines that have stood in the node's place. `strays`: of the whole pool;
  // outlives the link.
  Link(io::EventLoop& loop, wire::Hello hello, provider::Connection connection, bool socket,
       std::uint32_t life, const LinkPolicy::Limits& limits, Strays& strays, Events events);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void send(wire::Message message);

  // Ends the conversation: the agent is told, or sees the end of its input, and has `grace` to
  // clean up; then the command is killed. on_lost is not called any more.
  void close(Duration grace);
  // Who waits for the end wants to wait no longer than is safe; before or after close().
  void hurry();

 private:
  void inspect();
  void attempt();
  void sweep();
  void limit_sweep();
  EntryFile agent_file() const;
  EntryPlace place() const;
  void opened();
  void receive(io::Incoming incoming);
  void handle(wire::Message message);
  void handle_welcome(const wire::Welcome& welcome);
  void send_beside(wire::Message message);
  void refuse_task(const wire::Message& message, const Error& why);
  void pump();
  void write(const wire::Message& message, wire::Envelope envelope);
  void check_pulse();
  void drop_attempt(Attempt::End end);
  void attempt_ended(Attempt::End end);
  std::string tries_text(Duration tried) const;
  void attempt_gone(const Attempt* attempt);
  void lose(ErrorKind kind, std::string why, std::string hint = {});
  void note_stray();
  void schedule_gone();
  void post(std::function<void()> callback);

  io::EventLoop& loop_;
  Events events_;
  wire::Hello hello_;
  const provider::Connection connection_;
  const std::uint32_t life_;
  const LinkPolicy::Limits limits_;
  Strays& strays_;
  AgentProgram agent_;  // with a shell
  wire::Session session_;
  wire::Outbox outbox_;  // on connections without descriptors
  wire::BlobInbox inbox_;
  std::unique_ptr<Attempt> attempt_;              // the present one
  std::vector<std::unique_ptr<Attempt>> ending_;  // until their processes are reaped
  std::unique_ptr<io::Process> sweep_;
  Time sweep_until_ = kNever;
  bool swept_ = false;
  bool hurried_ = false;
  bool told_to_end_ = false;  // it had its time for that, when the link is closed
  std::optional<Time> reached_at_;
  bool heard_of_ = false;  // an agent may have been greeted, and live on without us
  bool over_ = false;      // lost or closed
  bool gone_told_ = false;
  std::string farewell_;      // the agent said why it ends
  bool has_volumes_ = false;  // it may take its time for that
  LinkPolicy policy_;
  bool answered_ = false;  // since the connection broke, by anything
  std::minstd_rand random_;
  // The pulse.
  std::uint64_t moved_ = 0;
  Time moved_at_{};
  Time pulse_due_{};
  bool spoke_ = false;  // since the last pulse
  io::EventLoop::TimerId pulse_ = 0;
  io::EventLoop::TimerId retry_ = 0;
  io::EventLoop::TimerId closing_ = 0;  // of the end, and of the sweep
  std::shared_ptr<bool> alive_;         // false once destroyed; posted callbacks share it
};

}  // namespace skyward::engine

#pragma once

// The connections of the engine's end of the conversation with one node's agent. engine_endpoint.h
// decides when to connect and when the node is lost. This part runs the commands that reach the
// agent (link_attempt.h), turns frames into bytes and back, puts large data into shared memory,
// keeps the timer, and sweeps: it ends what an agent may have left on its node.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/engine/engine_endpoint.h"
#include "skyward/engine/link_attempt.h"
#include "skyward/engine/link_policy.h"
#include "skyward/engine/lost_agents.h"
#include "skyward/io/deadline_timer.h"
#include "skyward/io/event_loop.h"
#include "skyward/provider/provider.h"
#include "skyward/wire/message.h"

namespace skyward::engine {

class EngineLink final : private EngineEndpoint::Effects {
 public:
  // All are called on the loop thread, never from inside a call by the owner.
  struct Events {
    // Once. `reached_at`: when the machine first answered, if a shell is in between.
    std::function<void(std::optional<Time> reached_at)> on_welcome;
    std::function<void(wire::Message)> on_message;
    // The connection broke, and why; Skyward reconnects. It is back, after this long.
    std::function<void(std::string)> on_trouble{};
    std::function<void(Duration)> on_recovered{};
    // An attempt to reconnect has failed, though this computer has a network.
    std::function<void()> on_not_reconnected{};
    // An attempt has failed, and none has succeeded yet; Skyward tries again.
    std::function<void(Error)> on_unreached{};
    // An attempt has failed because this computer has no network.
    std::function<void()> on_offline{};
    // Once; the agent is gone, cannot be reached or was refused. `on_gone` follows.
    std::function<void(Error)> on_lost;
    // Once, last: no process of the link is left. It may be destroyed now.
    std::function<void()> on_gone;
  };
  // Starts the command; reports a failure to start it as on_lost.
  // `life` counts the machines that have been this node. `lost_agents`: of the whole pool;
  // outlives the link.
  EngineLink(io::EventLoop& loop, wire::Hello hello, provider::Connection connection, bool socket,
             std::uint32_t life, const LinkPolicy::Limits& limits, LostAgents& lost_agents,
             Events events);
  ~EngineLink() override;
  EngineLink(const EngineLink&) = delete;
  EngineLink& operator=(const EngineLink&) = delete;

  void send(wire::Message message);
  const provider::Connection& connection() const { return connection_; }

  // Ends the conversation: the agent gets a message, or sees the end of its input, and has `grace`
  // to clean up; then the command is killed. on_lost is not called after this.
  void close(Duration grace);
  // Shortens the end to what is safe. Before or after close().
  void hurry();

 private:
  // Effects.
  void connect() override;
  void hang_up(Duration grace) override;
  Error with_its_words(Error why) override { return attempt_->with_its_words(std::move(why)); }
  void write(const wire::Message& message, wire::Envelope envelope) override;
  void on_welcome() override { events_.on_welcome(reached_at_); }
  void on_message(wire::Message message) override { events_.on_message(std::move(message)); }
  void on_trouble(std::string why) override;
  void on_recovered(Duration after) override;
  void on_not_reconnected() override;
  void on_unreached(Error why) override;
  void on_offline() override;
  void on_lost(Error why) override;

  void flush_later();
  void inspect();
  EntryPlace place() const;
  void receive(io::Incoming incoming);
  void attempt_ended(LinkAttempt::End end);
  void attempt_gone(const LinkAttempt* attempt);
  std::uint64_t moved_bytes() const { return attempt_ ? attempt_->moved_bytes() : 0; }

  void sweep();
  void sweep_again();
  void limit_sweep();
  void note_lost_agent();
  void schedule_gone();

  io::EventLoop& loop_;
  Events events_;
  const provider::Connection connection_;
  const std::uint32_t life_;
  const std::string pool_;
  const NodeId node_;
  const bool socket_;
  LostAgents& lost_agents_;
  std::vector<EntryFile> agents_;  // with a shell
  EngineEndpoint endpoint_;
  std::unique_ptr<LinkAttempt> attempt_;              // the present one
  std::vector<std::unique_ptr<LinkAttempt>> ending_;  // until their processes are reaped
  std::unique_ptr<io::Process> sweep_;
  Time sweep_until_ = kNever;
  bool swept_ = false;
  bool flush_posted_ = false;
  bool hurried_ = false;
  std::optional<Time> reached_at_;
  bool heard_of_ = false;  // an agent may have been greeted, and outlive us
  bool gone_told_ = false;
  io::DeadlineTimer timer_;
  io::EventLoop::TimerId closing_ = 0;  // of the end, and of the sweep
  std::shared_ptr<bool> alive_;         // false once destroyed; posted callbacks share it
};

}  // namespace skyward::engine

#pragma once

// Both ends of the conversation between the engine and one agent, and the network between them. The
// sessions are the real ones; what io and the loops do around them is redone here as thinly as it
// goes: greet, resume, acknowledge, make the connection anew when something is missing.
//
// A connection breaks at random: what is in flight is lost, each end notices in its own time and
// sends into the void until then. The engine comes back, or gives the node up, as its own policy
// says (engine/link_policy.h). An agent does not care; it ends when its lease does.

#include <functional>
#include <map>
#include <string>

#include "sim/dials.h"
#include "sim/world.h"
#include "skyward/base/error.h"
#include "skyward/engine/link_policy.h"
#include "skyward/spec/id.h"
#include "skyward/wire/blob_inbox.h"
#include "skyward/wire/message.h"
#include "skyward/wire/outbox.h"
#include "skyward/wire/session.h"

namespace skyward::sim {

class Link {
 public:
  struct Events {
    // To the engine.
    std::function<void()> on_joined;  // once
    std::function<void(wire::Message)> on_engine_message;
    std::function<void(Error)> on_lost;  // once, last
    // To the agent.
    std::function<void(wire::Message)> on_agent_message;
    std::function<void()> on_agent_heard;  // any frame has come
    std::function<void()> on_cut_off;      // the engine has closed; once
    // A connection has come that may start one, as none has been there yet.
    std::function<void()> on_start_agent;
    std::function<bool()> is_on;  // the machine
    // The link of another node's present machine, or null.
    std::function<Link*(NodeId)> peer;
  };

  // How the machine answers whoever calls.
  enum class Door { open, silent, refusing };

  Link(World& world, const NetworkDials& dials, std::string name, Door door, Events events);

  void engine_sends(wire::Message message) { send(engine_, std::move(message)); }
  void agent_sends(wire::Message message) { send(agent_, std::move(message)); }

  // The engine ends the conversation: no more calls to it.
  void engine_closes();
  // The engine's process is killed.
  void engine_killed();
  // An agent begins, knowing nothing of any conversation.
  void agent_started();
  // The agent's process ended in order: what it sent arrives, then the loss is told.
  void agent_ended();
  // The agent's process was killed; its machine goes on.
  void agent_killed();
  // The machine is gone with everything on it. Nobody need notice at once.
  void machine_died();
  // The engine, or what it starts, gets there now.
  bool is_reachable() const;

  int breaks() const { return breaks_; }
  int fetches() const { return fetches_; }  // blobs that came whole from another machine

 private:
  wire::BlobInbox make_inbox();
  bool is_broken() const { return engine_.connection != connection_; }

  struct End {
    explicit End(const char* its_name);
    const char* name;
    wire::Session session;
    wire::Outbox outbox;  // of far links
    wire::BlobInbox inbox;
    bool pumping = false;
    bool greeted = false;          // on this connection: may send
    std::uint64_t connection = 0;  // the one that it believes in
    Time last_arrival{};           // of frames sent by the other end
  };

  void connect();
  void break_connection();
  void schedule_break();
  void end_ungreeted(std::uint64_t broken);
  void engine_notices();
  void agent_notices();
  void send(End& end, wire::Message message);
  void send_far(End& end, wire::Message message);
  void send_numbered(End& end, wire::Message message);
  void pump(End& end);
  void deliver(End& end, wire::Message message);
  void beat();
  void attempt_ends(const engine::LinkPolicy::End& end, Duration delay);
  void decide(const engine::LinkPolicy::End& end);
  void resend(End& end, std::uint64_t last_received);
  void transmit(End& from, wire::Message message, wire::Envelope envelope);
  void schedule_arrival(End& to, std::uint64_t connection, wire::Message message,
                        wire::Envelope envelope);
  void arrive(End& end, std::uint64_t connection, wire::Message message, wire::Envelope envelope);
  void hello_arrives(const wire::Hello& hello, std::uint64_t connection);
  void welcome_arrives(const wire::Welcome& welcome);
  void lose(ErrorKind kind, std::string why);
  void fetch(const wire::FetchBlob& ask);
  void fetch_more(const wire::FetchBlob& ask, Time grown_at);
  void end_fetch(const wire::FetchBlob& ask, wire::FetchEnd end);

  World& world_;
  NetworkDials dials_;
  std::string name_;
  Door door_;
  Events events_;
  End engine_{"engine"};
  End agent_{"agent"};
  std::uint64_t connection_ = 0;  // the one that carries frames
  std::uint64_t last_line_ = 0;   // the last one that reached the agent
  int breaks_ = 0;
  int fetches_ = 0;
  std::uint64_t far_sends_ = 0;
  std::map<BlobId, std::uint32_t> fetching_;  // the agent; the attempt
  bool engine_open_ = true;
  bool agent_open_ = false;
  engine::LinkPolicy policy_;
  Time outage_ends_{};
  bool outage_refuses_ = false;  // whoever calls is turned away; else nothing is heard
  World::Timer reconnect_ = World::kNoTimer;
};

}  // namespace skyward::sim

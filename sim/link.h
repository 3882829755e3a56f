#pragma once

// The network between the engine and one agent: simulated streams that carry the frames of both
// ends. The ends are the real ones (engine/engine_endpoint.h, agent/agent_endpoint.h): they greet,
// number, acknowledge, reconnect and give up as they do in a pool.
//
// A connection breaks at random: what is in flight is lost, each end notices after a time of its
// own, and what it writes until then is lost, too. Frames arrive twice and out of order, though no
// stream does that: sessions must cope with it. None of this happens on links that are not far:
// there, blobs travel by descriptor, and agents end with their connection.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "sim/parameters.h"
#include "sim/simulator.h"
#include "skyward/agent/agent_endpoint.h"
#include "skyward/agent/blob_exchange.h"
#include "skyward/base/error.h"
#include "skyward/engine/engine_endpoint.h"
#include "skyward/spec/id.h"
#include "skyward/wire/message.h"

namespace skyward::sim {

class SimulatedLink {
 public:
  struct Events {
    // To the engine.
    std::function<void()> on_joined;  // once
    std::function<void(wire::Message)> on_engine_message;
    std::function<void()> on_offline;    // the engine's computer has no network
    std::function<void(Error)> on_lost;  // once, last
    // To the agent, from within its turns.
    std::function<void(wire::Message)> on_agent_message;
    std::function<void()> on_agent_heard;  // any frame has come
    std::function<void()> on_cut_off;      // its end of the conversation has ended; once
    // Something has arrived for the agent, which handles it when its loop gets there.
    std::function<void(Simulator::Event)> on_agent_turn = [](Simulator::Event step) { step(); };
    // agent_rings() is due as soon as the agent's loop gets there. Empty: now.
    std::function<void()> on_agent_timer{};
    // A connection has come that may start an agent, because there has been none.
    std::function<void()> on_start_agent;
    std::function<bool()> is_on;  // the machine
    // The link of another node's present machine, or null.
    std::function<SimulatedLink*(NodeId)> peer;
  };

  // How the machine answers a connection.
  enum class Door { open, silent, refusing };

  SimulatedLink(Simulator& simulator, const NetworkParameters& parameters, std::string name,
                Door door, Events events);
  SimulatedLink(const SimulatedLink&) = delete;
  SimulatedLink& operator=(const SimulatedLink&) = delete;
  ~SimulatedLink();

  void engine_sends(wire::Message message);
  void agent_sends(wire::Message message);
  void start_heartbeats(Duration interval);
  void agent_rings();

  // The engine ends the conversation: no more calls to it.
  void engine_closes();
  // The engine's process is killed.
  void engine_killed();
  // An agent starts, with no conversation.
  void agent_started();
  // The agent exited in order: what it sent arrives, then the end of its stream.
  void agent_ended(const std::string& reason);
  // The agent's process was killed; its machine stays up.
  void agent_killed();
  // The machine is gone with everything on it. The ends may notice later.
  void machine_died();
  // Whether the engine, or a command that it starts, can reach the machine now.
  bool is_reachable() const;

  int breaks() const { return breaks_; }
  int fetches() const { return fetches_; }  // blobs that came whole from another machine
  int stalls() const { return stalls_; }    // fetches given up: the source had no new data

 private:
  using ConnectionId = agent::AgentEndpoint::ConnectionId;
  using StreamId = std::uint64_t;  // from 1; never used twice

  // One direction of a connection.
  struct Way {
    bool open = false;  // what is written arrives
    bool idle_comes = false;
    Time last{};    // arrival
    Time greets{};  // nothing overtakes the greeting
  };
  struct Stream {
    ConnectionId line = 0;  // the agent's id for it; 0: it never arrived
    Way to_agent;
    Way to_engine;

    void open() { to_agent.open = to_engine.open = true; }
    void cut() { to_agent.open = to_engine.open = false; }
  };
  struct EngineEffects;
  struct AgentEffects;
  using PeerStreamId = agent::BlobExchange::StreamId;
  struct PeerStream;
  struct PeerEnd;
  struct PeerEffects;

  void connect();
  Status hold();
  void schedule_break(StreamId id);
  void break_stream(StreamId id);
  void end_for_engine(StreamId id, Duration delay, const char* why,
                      const engine::LinkPolicy::End& means = {});
  void end_for_agent(StreamId id, Duration delay);
  void close_by_engine();
  void close_by_agent(ConnectionId line);
  void write_to_agent(const wire::Message& message, wire::Envelope envelope);
  void write_to_engine(ConnectionId line, const wire::Message& message, wire::Envelope envelope);
  template <typename Arrive>
  void carry(Way& way, const wire::Message& message, wire::Envelope envelope, Arrive arrive);
  Time arrival(Way& way, bool greets);
  template <typename Idle>
  void idle_later(Way& way, Idle idle);
  void cut_agent_off(bool told, Duration delay);

  // Run `step` on an end that is still alive, and update its timer.
  template <typename Step>
  void engine_turn(Step step);
  template <typename Step>
  void agent_turn(Step step);
  void arm_engine_timer();
  void arm_agent_timer();

  // Past the engine, to other machines.
  void meet_peers();
  void dial_peer(PeerStreamId id, NodeId peer);
  void accept_peer(const std::shared_ptr<PeerStream>& stream);
  std::size_t write_to_peer(PeerStreamId id, ByteView bytes);
  void break_peer_stream(const std::shared_ptr<PeerStream>& stream);
  void end_for_peer(const std::shared_ptr<PeerStream>& stream, const PeerEnd& end, Duration delay);
  void close_peer(PeerStreamId id);
  void cut_peers_off(bool told);

  Simulator& simulator_;
  NetworkParameters parameters_;
  std::string name_;
  Door door_;
  Events events_;
  std::map<StreamId, Stream> streams_;
  StreamId last_stream_ = 0;
  int breaks_ = 0;
  Time outage_ends_{};
  // During it, connections are refused, or the engine's computer has no network; else there is no
  // answer.
  enum class Outage { silent, refusing, offline };
  Outage outage_ = Outage::silent;

  std::unique_ptr<EngineEffects> engine_effects_;
  engine::EngineEndpoint engine_;
  StreamId engine_stream_ = 0;  // its connection, or its attempt to make one
  std::uint64_t moved_ = 0;     // frames that have arrived over it
  bool engine_killed_ = false;
  std::uint64_t sends_ = 0;
  bool engine_flushes_ = false;  // soon
  Simulator::Timer engine_timer_ = Simulator::kNoTimer;

  std::unique_ptr<AgentEffects> agent_effects_;
  std::unique_ptr<agent::AgentEndpoint> agent_;  // of the last agent
  bool agent_runs_ = false;
  std::uint64_t agent_life_ = 0;
  bool agent_flushes_ = false;  // soon
  std::map<ConnectionId, StreamId> lines_;
  Simulator::Timer agent_timer_ = Simulator::kNoTimer;
  std::shared_ptr<PeerEffects> peer_effects_;      // of a type that link_peers.cc alone knows
  std::unique_ptr<agent::BlobExchange> exchange_;  // of the last agent
  std::map<PeerStreamId, std::shared_ptr<PeerStream>> peer_streams_;
  int fetches_ = 0;
  int stalls_ = 0;
};

}  // namespace skyward::sim

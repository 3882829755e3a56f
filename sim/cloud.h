#pragma once

// A cloud that forgives nothing: selling before prepare() or after teardown(), preparing a region
// before the last one is torn down, terminating what was
// never sold or has ended already, are bugs of the engine, though a real cloud would let them pass.
// As in the engine's loop, one verb runs at a time, in the order of the calls.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/bill.h"
#include "sim/machine.h"
#include "sim/parameters.h"
#include "sim/simulator.h"
#include "skyward/base/error.h"
#include "skyward/spec/id.h"
#include "skyward/spec/offer.h"

namespace skyward::sim {

class SimulatedCloud {
 public:
  template <typename T>
  using Answer = std::function<void(Result<T>)>;

  SimulatedCloud(Simulator& simulator, Journal& journal, const StormParameters& parameters);

  void list_offers(Answer<std::vector<Offer>> answer);
  void prepare(const Offer& offer, Answer<Cluster> answer);
  void provision(int count, Answer<std::vector<Instance>> answer);
  void terminate(std::vector<InstanceId> instances, Answer<void> answer);
  void teardown(Answer<void> answer);
  void charges(std::vector<InstanceId> instances, Answer<std::vector<Charge>> answer);

  SimulatedMachine& machine(const InstanceId& id) { return *sold_.at(id).machine; }
  std::size_t sold() const { return sold_.size(); }
  // Agents that began where one had been before.
  std::size_t restarts() const;
  // Everything was given back.
  void check_empty() const;
  // What the engine has asked for and not been given is asked by nobody any more.
  void driver_killed();
  // Nothing works on any machine, long after the driver's or the pool's end; the last agent ended
  // before `limit`, and the machine with it where it can end itself.
  void check_ended(Time limit) const;
  // What all of it cost, once it was given back.
  double dollars() const { return bill_.dollars(); }
  double dollars_in_vain() const;

 private:
  struct Sold {
    std::unique_ptr<SimulatedMachine> machine;
    std::size_t seat = 0;  // of hosts_, where they are one's own
    bool ended = false;
    int stuck = 0;  // terminate() failed, so often
  };

  // Runs `work` when the verbs before it are done, after a while of its own.
  void verb(Simulator::Event work);
  void next_verb();
  Instance sell();
  std::optional<std::size_t> free_seat() const;
  void let_agent_die(const InstanceId& id);
  void let_die(const InstanceId& id);
  void move_price();
  void check_rate() const;
  void bill_in_vain(int count);
  double price() const;
  void take_back(const InstanceId& id);
  void end(const InstanceId& id);

  Simulator& simulator_;
  Journal& journal_;
  StormParameters parameters_;
  std::deque<Simulator::Event> verbs_;
  bool busy_ = false;
  bool prepared_ = false;
  int regions_ = 0;  // told of
  bool price_moves_ = false;
  bool opened_ = false;  // the first machines were sold
  bool torn_down_ = false;
  bool driver_killed_ = false;
  struct Seat {
    std::shared_ptr<Host> host = std::make_shared<Host>();
    bool taken = false;
    int uses = 0;
  };
  std::vector<Seat> seats_;  // of machines of one's own
  std::map<InstanceId, Sold> sold_;
  Bill bill_;
  std::vector<InstanceId> in_vain_;  // came and went within a provision() that failed
  double spot_price_ = 0;
};

}  // namespace skyward::sim

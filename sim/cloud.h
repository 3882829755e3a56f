#pragma once

// A cloud that forgives nothing. Provisioning before prepare() or after teardown(), preparing a
// region before the previous one is torn down, terminating a machine that was never sold or has
// already ended: a real cloud would accept these, but they are bugs of the engine. As in the
// engine's loop, one verb runs at a time, in the order of the calls; only terminate() overtakes a
// provision() that waits in a queue.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
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
  // Whatever waits in a queue is not wanted any more.
  void stop_launching();
  void terminate(std::vector<InstanceId> instances, Answer<void> answer);
  void teardown(Answer<void> answer);
  void charges(std::vector<InstanceId> instances, Answer<std::vector<Charge>> answer);

  SimulatedMachine& machine(const InstanceId& id) { return *sold_.at(id).machine; }
  std::size_t sold() const { return sold_.size(); }
  int jobs_preempted() const { return jobs_preempted_; }
  // Agents that started where one had run before.
  std::size_t restarts() const;
  // Everything was released.
  void check_empty() const;
  // Drops the requests of the engine that have not been answered.
  void driver_killed();
  // Long after the end of the driver or the pool, no process runs on any machine. The last agent
  // ended before `limit`, and so did its machine if it can terminate itself.
  void check_ended(Time limit) const;
  // What everything cost, once it was released.
  double dollars() const { return bill_.dollars(); }
  double dollars_wasted() const;

 private:
  struct Sold {
    std::unique_ptr<SimulatedMachine> machine;
    std::size_t seat = 0;  // in seats_, for machines of the user's own
    bool ended = false;
    int stuck = 0;        // terminate() failed, so often
    std::size_t job = 0;  // in jobs_, where launches are jobs
  };

  struct Verb {
    Simulator::Event work;
    bool urgent = false;
  };
  // Runs `work` when the earlier verbs are done, after a delay. What is urgent does not wait for a
  // queue.
  void verb(Simulator::Event work) { add_verb({.work = std::move(work)}); }
  void urgent_verb(Simulator::Event work) { add_verb({.work = std::move(work), .urgent = true}); }
  void add_verb(Verb verb);
  void next_verb();
  void start(int count, const Answer<std::vector<Instance>>& answer);
  void wait_in_queue(int count, Answer<std::vector<Instance>> answer);
  void leave_queue(Simulator::Event next);
  void preempt_job(std::size_t job);
  void end_job(std::size_t job);
  void leave_job(const Sold& sold);
  Instance sell();
  std::optional<std::size_t> free_seat() const;
  void let_agent_die(const InstanceId& id);
  void let_die(const InstanceId& id);
  void move_price();
  void check_rate() const;
  void bill_wasted(int count);
  double price() const;
  void take_back(const InstanceId& id);
  void end(const InstanceId& id);

  Simulator& simulator_;
  Journal& journal_;
  StormParameters parameters_;
  std::deque<Verb> verbs_;
  bool busy_ = false;
  Answer<std::vector<Instance>> queued_;          // of the provision() that waits in a queue
  Simulator::Timer queue_ = Simulator::kNoTimer;  // its end
  bool launching_ = true;
  bool prepared_ = false;
  int regions_ = 0;  // offered
  bool price_moves_ = false;
  bool opened_ = false;  // the first machines were sold
  bool torn_down_ = false;
  bool driver_killed_ = false;
  struct Seat {
    std::shared_ptr<Host> host = std::make_shared<Host>();
    bool taken = false;
    int uses = 0;
  };
  std::vector<Seat> seats_;  // of machines of the user's own
  std::map<InstanceId, Sold> sold_;
  std::vector<std::vector<InstanceId>> jobs_;
  int jobs_preempted_ = 0;
  Bill bill_;
  std::vector<InstanceId> wasted_;  // launched and ended within a provision() that failed
  double spot_price_ = 0;
};

}  // namespace skyward::sim

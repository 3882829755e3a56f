#pragma once

// What can go wrong, and how often. Each is a named field; draw_parameters() sets them from the
// seed, so that storms differ: some are calm, some have one kind of fault, some have all.

#include <chrono>
#include <cstdint>
#include <optional>

#include "sim/random.h"
#include "skyward/base/time.h"
#include "skyward/spec/cost.h"
#include "skyward/spec/limits.h"

namespace skyward::sim {

using namespace std::chrono_literals;

struct NetworkParameters {
  Duration delay_min = 20us;
  Duration delay_max = 1ms;
  bool codec = false;   // frames travel as bytes
  double unstored = 0;  // of results and items: the program has no room for them
  // As over a network: blobs travel in parts, agents outlive connections, silence is noticed late.
  // Only then does any of the following happen.
  bool far = false;
  Duration break_mean{};  // a connection lives this long on average; 0: for ever
  double duplicate = 0;   // of a frame
  double reorder = 0;
  double outage = 0;             // of a break: the network is down for a while
  Duration outage_max = 30s;     // ... so long at most
  std::uint64_t blob_bytes = 0;  // that a node keeps without a task
  bool peers = false;            // nodes get blobs from each other
  bool gateway = false;          // all nodes are behind one, whose refusals say nothing about them
  double fetch_fail = 0;         // of such a transfer, at each step
};

struct CloudParameters {
  Duration verb_min = 1ms;
  Duration verb_max = 5s;
  double refuse = 0;            // each verb that opens a pool
  double sold_out = 0;          // provision() of a replacement
  double wasted = 0;            // of a provision() that fails: its machines launched all the same
  double stick = 0;             // terminate() fails; never more than twice for one instance
  double never_greet = 0;       // of an instance
  double unreachable = 0;       // of an instance: connections are refused
  Duration death_mean{};        // an instance lives this long on average; 0: for ever
  Duration agent_death_mean{};  // the same for the agent alone, while its machine goes on
  Duration recall_mean{};       // an instance is preempted after so long; 0: never
  Duration notice_max = 120s;   // ... with a notice up to this long before
};

// What machines cost. By default they have no price.
struct MoneyParameters {
  double on_demand = 0;  // dollars an hour
  bool spot = false;     // spot machines, whose price moves below that on demand
  Duration step_mean{};  // how long a spot price holds on average; 0: for ever
  BillingRules billing{};
  Duration charges_interval{};  // how often the cloud may be asked; 0: it reports no charges
  double charges_fail = 0;      // ... and gives no answer
  bool dead_machines_cost = true;
  std::optional<double> budget{};      // dollars
  std::optional<double> max_hourly{};  // dollars
};

// Opening, or a task, may fail because of the budget.
inline bool is_limited(const MoneyParameters& money) { return money.budget || money.max_hourly; }

// An agent's loop does one thing after another, and does not always get a CPU: what arrives
// meanwhile stays unread. Drawn from Simulator::crowds.
struct LoopParameters {
  Duration start_cost{};  // how long the start of a worker process blocks it
  Duration stall_mean{};  // the mean time between stalls; 0: never
  Duration stall_max{};   // the longest stall
};

struct NodeParameters {
  bool bootstrap = false;
  double bootstrap_fail = 0;
  double bootstrap_hang = 0;
  Duration start_min = 20ms;  // of a worker process
  Duration start_max = 1s;
  double start_fail = 0;  // it ends before its greeting, or soon after it
  double start_hang = 0;
  double defective = 0;       // of an agent: its machine is
  bool is_defective = false;  // each process ends soon after its greeting, and begins no task
  double sudden_death = 0;    // of a worker process, for each task
  double idle_death = 0;      // of a worker process, after each task
  double keep_mapped = 0;     // a blob after the task that it came with
  LoopParameters loop;        // of the agent
};

// What dies, and what comes back afterwards. Drawn from Simulator::returns.
struct ReturnParameters {
  double reboot = 0;      // of an agent's death: its machine was off for a while
  Duration off_max{};     // ... so long at most
  double late_start = 0;  // of an agent's death: a connection from before its time starts another
  // The user's own machines: they stay on when they are released, and the next one provisioned is
  // one of them, with whatever still runs there. How many more of them there are than nodes.
  std::optional<int> spare_hosts{};
  double sweep = 0;              // of lost agents: the engine reaches and ends it
  bool ends_itself = false;      // a machine can terminate itself, by a command of its agent
  Duration driver_death_mean{};  // the mean time until the program is killed; 0: never
};

// A launch is one job of a batch system, as at Slurm: it waits in a queue, its nodes are preempted
// together, and some stay in it after their release. Drawn from Simulator::jobs.
struct JobParameters {
  bool used = false;           // none of the following happens otherwise
  double queues = 0;           // of a launch: it waits before it starts
  Duration queue_max{};        // the longest wait
  Duration preempt_mean{};     // the mean time until a job is preempted; 0: never
  Duration grace_max{};        // the longest time from the end of its agents to that of the job
  double ends_with_first = 0;  // of the loss of its first node: the others go with it
  double stays = 0;            // of a release while others are in use; the first node always does
};

struct UserParameters {
  double quick = 0.5;  // of all tasks: microseconds to milliseconds
  double slow = 0.05;  // seconds
  bool tiny = false;   // most take microseconds: a process is sent several at once
  double raises = 0;
  double dies = 0;
  double hangs = 0;
  double streams = 0;
  double groups = 0;
  double cancels = 0;
  double timeouts = 0;
  double pinned = 0;
  double broadcasts = 0;
  double together = 0;  // of these: they need each other
  double blobs = 0;
  Duration pause = 100ms;  // between bursts
  int burst = 20;
  // The pool is closed when everything is answered, or after this time.
  std::optional<Duration> close_after;
  Duration lifetime{};
};

struct StormParameters {
  NetworkParameters network;
  CloudParameters cloud;
  NodeParameters node;
  UserParameters user;
  MoneyParameters money;
  ReturnParameters returns;
  JobParameters jobs;
  int nodes = 1;
  int workers_per_node = 1;
  int concurrency = 1;
  std::uint32_t max_tasks_given = kMaxTasksGiven;
  std::uint64_t max_kept_function_bytes = kMaxKeptFunctionBytes;
  int tasks = 100;
  bool calm = true;  // nothing but the tasks themselves can fail
};

// If `nodes` or `tasks` is 0, it is drawn, too.
StormParameters draw_parameters(Random& random, int nodes, int tasks);
// Over them.
void draw_returns(Random& returns, StormParameters& parameters);
// Over them; the number of tasks stays when it was asked for.
void draw_crowds(Random& crowds, StormParameters& parameters, int tasks);
// Drawn from Simulator::groups.
void draw_groups(Random& groups, StormParameters& parameters);
// Drawn from Simulator::together.
void draw_together(Random& together, StormParameters& parameters);
// Drawn from Simulator::memory.
void draw_memory(Random& memory, StormParameters& parameters);
// Drawn from Simulator::defects.
void draw_defects(Random& defects, StormParameters& parameters);
// Over them, for a part of the storms or, with `always`, for this one.
void draw_jobs(Random& jobs, StormParameters& parameters, bool always);

}  // namespace skyward::sim

#pragma once

// What the agent decides, apart from doing it. A node has workers, a worker has slots, a slot is
// one process that runs tasks one after another. Tasks wait in one queue (and one more per worker
// for tasks pinned to it) until a slot is free.
//
// A slot's *window* is what its process was sent and has not answered. It holds one task, unless
// tasks of the same function have been short: then the next ones are sent ahead, so that the
// process does not wait for the agent between two tasks. The front of the window is the running
// task. If it turns out to be slow, the others are withdrawn.
//
// Pure: plain state, synchronous calls, time as an argument. The loop calls these; sanity_check()
// after any of them.

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "skyward/agent/effects.h"
#include "skyward/base/time.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/message.h"
#include "skyward/wire/worker_protocol.h"

namespace skyward::agent {

// How a worker process ended (io has its own type, which cores must not include).
struct WorkerExit {
  std::string text;  // "exit code 3", "killed by signal 9 (SIGKILL)"
  int code = 0;
  bool by_signal = false;  // else it exited by itself
  bool by_sigkill = false;
  std::int64_t peak_bytes = 0;
  TaskId begun{};  // the last task that it began; 0: none
};

struct BootstrapEnd {
  bool ok = false;
  std::string command;  // the one that failed, if known
  std::string reason;
  std::vector<std::string> lines;
};

enum class AgentPhase : std::uint8_t {
  greeting,       // before Configure
  bootstrapping,  // the script runs
  starting,       // the devices are known, and slot 0 of every worker starts
  ready,
  failed,    // Failed was sent
  stopping,  // Shutdown came
  ended,     // exit was requested
};

struct AgentTask {
  wire::RunTask run;
  SharedBytes body;                        // the function; independent of AgentState::bodies
  std::uint64_t arrival = 0;               // order of queueing
  std::optional<SlotId> slot;              // the slot whose window it is in; empty: queued
  Duration expected{};                     // the expected run time when it was sent ahead
  bool withdrawn = false;                  // its slot was asked to return it unstarted
  std::uint32_t unread = 0;                // worker processes that ended without having read it
  std::optional<wire::TaskStatus> ending;  // cancelled or timed_out was requested
  bool delivered = false;                  // items: it cannot start over
  std::uint64_t items_left = 0;            // of a stream: how many more its reader has requested
  std::list<std::string> tail;             // last lines of its output; mostly none
};

enum class SlotPhase : std::uint8_t {
  absent,
  queued,  // its process starts after others have greeted, or after a pause
  starting,
  ready,
};

struct Slot {
  SlotId id;
  std::uint32_t worker = 0;
  std::uint32_t place = 0;  // within its worker; pinned tasks run at place 0
  SlotPhase phase = SlotPhase::absent;
  // After it could not start: before that time, only if no other slot is available for a task.
  Time retry_at{};
  std::uint32_t start_failures = 0;  // processes in a row that ended before they began a task
  // Of the task that all of them were to begin first: its body may not fit into the memory.
  std::optional<FunctionId> unread;
  Time start_at = kNever;  // the end of the pause after such a failure
  Time started_at{};
  Time start_deadline = kNever;
  std::deque<TaskId> window;
  Duration expected{};            // sum over the window
  Time front_since{};             // when the front became the front
  Time moved_at{};                // ... or its group moved on, or was looked at
  Time kill_at = kNever;          // the deadline of the interrupted front
  Time listed_deadline = kNever;  // in AgentState::deadlines
  Duration listed_expected{};     // in AgentState::open
  bool withdrew = false;          // the tasks behind this front were withdrawn
  bool took_rest = false;         // ... and the calls of its group that had not begun
  bool info_changed = false;      // since its process, which has not greeted yet, was started
  std::string killed;             // why the agent killed the process, until it has exited
  std::unordered_set<FunctionId> functions;  // bodies that the process has
  std::list<std::string> tail;               // last lines written outside of tasks
};

struct AgentState {
  AgentPhase phase = AgentPhase::greeting;
  wire::Configure configure;
  Time configured_at{};
  Time bootstrap_deadline = kNever;
  Time shutdown_deadline = kNever;
  Time lease_ends = kNever;     // extended by every message of the engine
  Time lifetime_ends = kNever;  // in any case
  Time pool_ends = kNever;      // when the engine ends the pool, before that
  Time warn_at = kNever;        // of that, until it was done
  Time gone_at = kNever;        // when the cloud preempts the machine, as announced
  std::string end_reason;       // once ended
  std::string step;             // the running step of the bootstrap
  bool bootstrap_timed_out = false;
  // Variables that the bootstrap script has set for each worker, over Configure's environment.
  std::vector<wire::KeyValues> told_environment;  // by worker
  std::optional<std::vector<std::string>> accelerators;
  std::string device_error;        // as in Ready
  bool devices_unknown = false;    //
  std::uint16_t peer_port = 0;     // where other agents connect; set by the loop
  std::uint64_t memory_bytes = 0;  // that this node may use; set by the loop
  std::vector<Slot> slots;         // by SlotId
  std::deque<SlotId> start_queue;  // slots in phase queued, in order
  std::vector<SlotId> starting;    // starting slots that others wait for
  // Processes that may start at the same time; set by the loop.
  std::uint32_t max_starting = kMinConcurrentStarts;
  bool has_begun = false;           // a process has begun a task
  std::uint32_t failed_rounds = 0;  // no slot could start a process that began one
  std::unordered_map<TaskId, AgentTask> tasks;
  std::deque<TaskId> queue;                // for any slot
  std::vector<std::deque<TaskId>> pinned;  // by worker
  // Maintained by reindex(), so that no message needs a walk over all slots.
  std::set<std::pair<Time, SlotId>> deadlines;
  std::set<std::pair<Duration, SlotId>> open;  // running, and can take more; by expected run time
  std::set<SlotId> idle, absent;               // can take a task; have no process
  std::set<std::uint32_t> pinned_waiting;      // workers whose `pinned` is not empty
  std::uint64_t arrivals = 0;
  std::unordered_map<FunctionId, SharedBytes> bodies;  // until the engine drops them
  std::unordered_map<FunctionId, Duration> run_times;  // rises at once, falls slowly
  std::unordered_map<BlobId, wire::Blob> blobs;
};

// A message of the engine. AgentEndpoint handles Hello and Heartbeat itself.
void on_message(AgentState& state, AgentEffects& effects, const wire::Message& message, Time now);
// Any frame of the engine has come, so it is alive: renews the lease.
void on_heard(AgentState& state, Time now);
// The conversation with the engine is over, for this reason: kills everything.
void on_disconnected(AgentState& state, AgentEffects& effects, const std::string& reason);

// The cloud preempts the machine at about `gone_at`; `reason` is what it said. Only the first
// notice counts.
void on_preempted(AgentState& state, AgentEffects& effects, Time gone_at, std::string reason,
                  Time now);

// A line of the bootstrap script on its descriptor 3: "begin deps" or, when a step is done, "deps";
// "worker 0 NAME=VALUE" ("worker *": all) sets a variable of a worker's environment; "say …" is for
// the user.
void on_bootstrap_step(AgentState& state, AgentEffects& effects, const std::string& line, Time now);
void on_bootstrap_end(AgentState& state, AgentEffects& effects, const BootstrapEnd& end, Time now);
// The model names of the node's devices. Workers start meanwhile; the node is not ready before.
// `silent`: the program that should have named them and did not answer in time; its answer may
// follow. `error`: what nvidia-smi says if it fails.
void on_accelerators(AgentState& state, AgentEffects& effects, std::vector<std::string> names,
                     Time now, std::string_view silent = {}, std::string error = {});

void on_worker_hello(AgentState& state, AgentEffects& effects, SlotId slot, Time now);
// A result or an item. All output that was written before it must have been given to on_output.
void on_worker_message(AgentState& state, AgentEffects& effects, SlotId slot,
                       wire::WorkerMessage message, Time now);
// The process broke the protocol or closed its connection: kills it. Its end will report `reason`.
void on_worker_broken(AgentState& state, AgentEffects& effects, SlotId slot, std::string reason);
void on_worker_exit(AgentState& state, AgentEffects& effects, SlotId slot, const WorkerExit& end,
                    Time now);

void on_output(AgentState& state, AgentEffects& effects, SlotId slot,
               std::vector<wire::OutputLine> lines);

// The variables that a worker's processes get in addition to the agent's own.
wire::KeyValues worker_environment(const AgentState& state, std::uint32_t worker);

// Does what is due. Call at next_deadline() or any time.
void on_timer(AgentState& state, AgentEffects& effects, Time now);
Time next_deadline(const AgentState& state);

// Aborts the program when the state contradicts itself.
void sanity_check(const AgentState& state);

}  // namespace skyward::agent

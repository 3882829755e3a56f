#pragma once

// What the agent's core may ask of the world. The loop does these things with processes and
// sockets; a test writes them down. Every call returns at once, and what comes of it arrives later
// as an on_… event of core.h.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "skyward/base/time.h"
#include "skyward/wire/message.h"

namespace skyward::agent {

// One task on its way into a worker process.
struct WorkerRun {
  const wire::RunTask& task;
  SharedBytes body;  // the function, when this process does not have it yet; else empty
  bool behind =
      false;  // sent while the process has unfinished tasks: its output begins with a mark
};

class AgentEffects {
 public:
  virtual ~AgentEffects() = default;

  // To the engine, in order of the calls.
  virtual void send(wire::Message message) = 0;

  // Runs the script; on_bootstrap_step for each step, on_bootstrap_end once.
  virtual void start_bootstrap(const wire::Configure& configure) = 0;
  // Kills the script's processes; on_bootstrap_end still comes.
  virtual void kill_bootstrap() = 0;

  // Starts the process of a slot; on_worker_hello when it greets, on_worker_exit once, in any case.
  virtual void start_worker(SlotId slot) = 0;
  virtual void run(SlotId slot, const WorkerRun& run) = 0;
  // Interrupts the task if it runs (cancel pipe, then SIGINT), makes the process skip it if it has
  // not begun.
  virtual void interrupt(SlotId slot, TaskId task) = 0;
  // Asks the process to give tasks back that it has not begun; answered by a result `cancelled` for
  // each.
  virtual void withdraw(SlotId slot, std::span<const TaskId> tasks) = 0;
  // Tells the process that the machine is gone after so long.
  virtual void warn(SlotId slot, Duration left) = 0;
  virtual void credit(SlotId slot, TaskId task, std::uint32_t count) = 0;
  // The process may forget the function: it has no task of it.
  virtual void drop_function(SlotId slot, FunctionId function) = 0;
  // Asks the process to end after what it has in hand.
  virtual void stop_worker(SlotId slot) = 0;
  // SIGKILL to the process and its group.
  virtual void kill_worker(SlotId slot) = 0;

  // After the agent has ended everything else: runs the command that ends the machine. Followed by
  // exit().
  virtual void end_machine(std::vector<std::string> command) = 0;
  // Ends the agent; nothing is asked for afterwards.
  virtual void exit(int code) = 0;
};

}  // namespace skyward::agent

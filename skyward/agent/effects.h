#pragma once

// What the agent's core may ask for. The loop does it with processes and sockets; a test records
// it. Every call returns at once; its outcome arrives later as an on_… event of core.h.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "skyward/base/time.h"
#include "skyward/wire/message.h"

namespace skyward::agent {

// One task on its way to a worker process.
struct WorkerRun {
  const wire::RunTask& task;
  SharedBytes body;  // the function, if the process does not have it yet; else empty
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
  // Asks the process (cancel pipe, then SIGURG) to return tasks that it has not begun; it answers
  // `cancelled` for each.
  virtual void withdraw(SlotId slot, std::span<const TaskId> tasks) = 0;
  // Takes those calls of a group from the process that it has not begun; they come back with an
  // item. Returns how many they are, nothing if the process is not at this group.
  virtual std::optional<std::uint32_t> take_rest(SlotId slot, TaskId group) = 0;
  // Tells the process when the machine will be gone.
  virtual void warn(SlotId slot, Duration left) = 0;
  virtual void credit(SlotId slot, TaskId task, std::uint32_t count) = 0;
  // The process may forget the function: it has no task of it.
  virtual void drop_function(SlotId slot, FunctionId function) = 0;
  // Tells the process the new value of COMPUTE_POOL.
  virtual void tell_instance_info(SlotId slot, const std::string& compute_pool) = 0;
  // Asks the process to exit after its present tasks.
  virtual void stop_worker(SlotId slot) = 0;
  // SIGKILL to the process and its group.
  virtual void kill_worker(SlotId slot) = 0;

  // After everything else has ended: runs the command that terminates the machine. exit() follows.
  virtual void end_machine(std::vector<std::string> command) = 0;
  // Ends the agent; no call follows.
  virtual void exit(int code) = 0;
};

}  // namespace skyward::agent

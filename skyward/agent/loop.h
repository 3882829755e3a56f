#pragma once

// Does what the core decides: the link to the engine, the worker processes, the bootstrap, timers
// and metrics of one node.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "skyward/agent/bootstrap.h"
#include "skyward/agent/core.h"
#include "skyward/agent/effects.h"
#include "skyward/agent/file_notice.h"
#include "skyward/agent/link.h"
#include "skyward/agent/metrics.h"
#include "skyward/agent/peers.h"
#include "skyward/agent/preemption_watch.h"
#include "skyward/agent/worker_proc.h"
#include "skyward/base/turn.h"
#include "skyward/io/deadline_timer.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/listener.h"

namespace skyward::agent {

class AgentLoop final : public AgentEffects {
 public:
  // An agent that ends with its connection, and with the process that started it: a signal to all
  // processes of a service is for that one, which ends the workers in order. `write` is empty when
  // `read` is a socket. Both must be non-blocking.
  AgentLoop(io::FileDescriptor read, io::FileDescriptor write);
  // A daemon, with its directory: engines connect to the listening socket, one after another, while
  // it lives. SIGTERM ends it in order.
  AgentLoop(io::FileDescriptor listener, std::string directory);

  // Serves the engine until it ends the conversation. Returns the exit code once the last process
  // of this node is gone.
  int run();

  void send(wire::Message message) override { link_.send(std::move(message)); }
  void start_bootstrap(const wire::Configure& configure) override;
  void kill_bootstrap() override;
  void start_worker(SlotId slot) override;
  void run(SlotId slot, const WorkerRun& run) override;
  void interrupt(SlotId slot, TaskId task) override;
  void withdraw(SlotId slot, std::span<const TaskId> tasks) override;
  void warn(SlotId slot, Duration left) override;
  std::optional<std::uint32_t> take_rest(SlotId slot, TaskId group) override;
  void credit(SlotId slot, TaskId task, std::uint32_t count) override;
  void drop_function(SlotId slot, FunctionId function) override;
  void tell_instance_info(SlotId slot, const std::string& compute_pool) override;
  void stop_worker(SlotId slot) override;
  void kill_worker(SlotId slot) override;
  void end_machine(std::vector<std::string> command) override;
  void exit(int code) override;

 private:
  explicit AgentLoop(bool outlives);
  void disconnect(const std::string& reason);
  void receive(const wire::Message& message);
  void prepare(const wire::Configure& configure);
  void meet_peers(const wire::Configure& configure);
  // Runs `step` on the core, and then whatever its effects have brought about.
  template <typename Step>
  void turn(Step step);
  void settle();
  void report(SlotId slot, std::vector<wire::OutputLine> lines);
  void release_own_volumes();
  void report_what_was_written();
  void sample_metrics(Duration interval);
  void collect_orphans();
  void watch_parent(std::uint64_t parent);
  void show_alive(const std::string& path);
  void relieve();
  void make_directory() const;
  void start_next_later();
  void start_now(SlotId slot);
  void end_worker(SlotId slot, const WorkerExit& end);

  io::EventLoop events_;
  std::string directory_;  // of a daemon
  AgentState state_;
  Turns turn_;  // of state_
  AgentLink link_;
  std::optional<io::Listener> listener_;  // of a daemon
  Peers peers_;
  MetricsSampler metrics_;
  io::DeadlineTimer timer_;
  std::unique_ptr<BootstrapProcess> bootstrap_;
  std::unique_ptr<PreemptionWatch> notice_;
  std::unique_ptr<FileNotice> file_notice_;
  std::vector<std::unique_ptr<WorkerProcess>> workers_;  // by SlotId
  std::vector<std::unique_ptr<WorkerProcess>> ended_;    // destroyed outside of their own calls
  // What processes had written before they were given a task: told after the turn that gave it.
  std::vector<std::pair<SlotId, std::vector<wire::OutputLine>>> written_before_;
  std::deque<SlotId> starts_;  // processes to be started, one a turn
  bool paused_ = false;        // output waits for the engine
  int exit_code_ = 0;
  std::vector<std::string> end_command_;
};

}  // namespace skyward::agent

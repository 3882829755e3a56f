#include "skyward/agent/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "skyward/agent/core_node.h"
#include "skyward/agent/end_command.h"
#include "skyward/agent/node_directory.h"
#include "skyward/base/stderr_line.h"
#include "skyward/io/ending_signals.h"
#include "skyward/io/file.h"
#include "skyward/io/machine.h"
#include "skyward/io/other_processes.h"
#include "skyward/io/own_process.h"
#include "skyward/io/process.h"
#include "skyward/spec/accelerator_script.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/link_limits.h"
#include "skyward/spec/reaper.h"
#include "skyward/spec/topology.h"

namespace skyward::agent {
namespace {

constexpr Duration kReliefInterval = std::chrono::milliseconds(5);
constexpr Duration kOrphanInterval = std::chrono::seconds(5);
constexpr Duration kParentInterval = std::chrono::seconds(1);
constexpr Duration kAliveInterval = std::chrono::seconds(3);
constexpr Duration kTerminateGrace = std::chrono::milliseconds(200);
constexpr std::string_view kAlive = "alive ";  // a step of the bootstrap

Time now() { return io::EventLoop::now(); }

}  // namespace

AgentLoop::AgentLoop(bool outlives)
    : link_(events_, outlives,
            {.on_message = [this](const wire::Message& message) { receive(message); },
             .on_heard = [this] { turn_.take([this] { on_heard(state_, now()); }); },
             .on_fetch = [this](const wire::FetchBlob& fetch) { peers_.fetch(fetch); },
             .on_blobs_changed = [this] { peers_.on_blobs_changed(); },
             .on_closed =
                 [this](const std::string& reason) {
                   if (!reason.empty()) write_stderr_line("skyward-agent: " + reason);
                   disconnect("the driver is gone");
                 }}),
      peers_(events_, link_.inbox(),
             [this](wire::BlobFetched fetched) { link_.send(std::move(fetched)); }),
      metrics_(events_),
      timer_(
          events_, [this] { return next_deadline(state_); },
          [this] { turn([this] { on_timer(state_, *this, now()); }); }) {}

AgentLoop::AgentLoop(io::FileDescriptor read, io::FileDescriptor write) : AgentLoop(false) {
  link_.attach(std::move(read), std::move(write));
  watch_parent(io::parent_process_id());
}

AgentLoop::AgentLoop(io::FileDescriptor listener, std::string directory) : AgentLoop(true) {
  listener_.emplace(events_, std::move(listener), [this](io::FileDescriptor connection) {
    link_.attach_relay(std::move(connection));
  });
  directory_ = std::move(directory);
  events_.watch_signal(io::kTerminateSignal, [this] {
    disconnect("it was told to end (SIGTERM; perhaps the machine is shutting down)");
  });
  // It ends unless the driver greets in time.
  events_.start_timer(now() + kGreetTimeout, [this] {
    if (state_.phase == AgentPhase::greeting) disconnect("no driver has greeted it");
  });
}

int AgentLoop::run() {
  io::adopt_orphans();
  collect_orphans();
  events_.run();
  link_.say_farewell(state_.end_reason);
  link_.flush();
  notice_.reset();
  file_notice_.reset();
  // Kills all first, then waits for each, so that processes that the kernel does not let end delay
  // this only once. The command that ends the machine, and so its cost, runs last.
  if (bootstrap_) bootstrap_->kill();
  for (const auto& worker : workers_) {
    if (worker) worker->kill();
  }
  bootstrap_.reset();
  workers_.clear();
  ended_.clear();
  release_own_volumes();
  // Where this machine stays on, the reaper of a pool that a task has opened still has work to do.
  std::vector<std::string> spared;
  if (state_.configure.end_command.empty()) {
    spared.assign(kReaperCommand.begin(), kReaperCommand.end());
  }
  io::kill_descendants(kKillTimeout, spared);
  if (!end_command_.empty())
    run_end_command(end_command_, [](Duration pause) { io::pause_thread(pause); });
  return exit_code_;
}

// The engine listens until the connection ends.
void AgentLoop::release_own_volumes() {
  if (directory_.empty()) return;
  const Status released = release_volumes(directory_);
  if (released) return;
  say(*this, released.error().message);
  link_.flush();
}

void AgentLoop::disconnect(const std::string& reason) {
  turn([&] { on_disconnected(state_, *this, reason); });
}

void AgentLoop::receive(const wire::Message& message) {
  if (const auto* configure = std::get_if<wire::Configure>(&message)) prepare(*configure);
  turn([&] { on_message(state_, *this, message, now()); });
}

// What a Configure means for the loop itself.
void AgentLoop::prepare(const wire::Configure& configure) {
  if (state_.phase != AgentPhase::greeting) return;
  state_.max_starting =
      std::max(kMinConcurrentStarts, 2 * static_cast<std::uint32_t>(io::usable_cpus()));
  state_.memory_bytes = io::memory_bytes();
  if (!directory_.empty() && !configure.end_script.empty())
    keep_end_script(directory_, configure.end_script);
  meet_peers(configure);
  workers_.resize(configure.workers.size() * std::max(1U, configure.concurrency));
  if (configure.heartbeat_ms > 0)
    link_.start_heartbeats(std::chrono::milliseconds(configure.heartbeat_ms));
  std::string gpus;
  for (const auto& [name, value] : configure.bootstrap_environment)
    if (name == kGpusVariable) gpus = value;
  metrics_.find_accelerators(std::move(gpus), [this](FoundDevices found) {
    turn([&] {
      on_accelerators(state_, *this, std::move(found.names), now(), found.silent,
                      std::move(found.error));
    });
  });
  if (configure.metrics_ms > 0) sample_metrics(std::chrono::milliseconds(configure.metrics_ms));
  const auto on_notice = [this](Duration left, std::string reason) {
    turn([&] { on_preempted(state_, *this, now() + left, std::move(reason), now()); });
  };
  if (configure.preemption == kEc2Notice && may_ask_ec2()) {
    notice_ = std::make_unique<PreemptionWatch>(events_, PreemptionWatch::Source{}, on_notice);
  } else if (configure.preemption.starts_with(kFileNotice)) {
    file_notice_ = std::make_unique<FileNotice>(
        events_, configure.preemption.substr(kFileNotice.size()), on_notice);
  }
}

void AgentLoop::make_directory() const {
  if (state_.configure.directory.empty()) return;
  std::error_code error;  // the worker's start fails then, and says why
  std::filesystem::create_directories(state_.configure.directory, error);
}

// Without other agents the engine sends everything itself.
void AgentLoop::meet_peers(const wire::Configure& configure) {
  if (configure.peer_key.empty()) return;
  const auto on_address = [this, key = configure.peer_key](const Result<std::string>& address) {
    const auto port = address ? peers_.listen(link_.pool(), key, *address) : fail(address);
    const bool is_in_time = state_.phase < AgentPhase::ready;  // when the engine is told
    if (port && is_in_time) {
      state_.peer_port = *port;
      return;
    }
    say(*this, fmt::format("other nodes cannot read large data from this one; your program sends "
                           "it to each: {}",
                           port ? "the node's name was resolved too late" : port.error().message));
  };
  peers_.find_own_address(configure.peer_address, on_address);
}

void AgentLoop::sample_metrics(Duration interval) {
  // The first reading only serves the second one's difference.
  metrics_.sample([this](const wire::MetricsSample& sample) {
    if (state_.phase == AgentPhase::ready) link_.send(sample);
  });
  events_.start_timer(now() + interval, [this, interval] { sample_metrics(interval); });
}

// The machine's own timer ends it when this file is not touched for a lease: an agent that was
// killed, or hangs, keeps no machine that costs.
void AgentLoop::show_alive(const std::string& path) {
  (void)io::touch(path);
  events_.start_timer(now() + kAliveInterval, [this, path] { show_alive(path); });
}

void AgentLoop::collect_orphans() {
  io::reap_orphans();
  events_.start_timer(now() + kOrphanInterval, [this] { collect_orphans(); });
}

// A child that the driver has forked keeps the connection open when the driver is killed.
void AgentLoop::watch_parent(std::uint64_t parent) {
  if (io::parent_process_id() != parent) return disconnect("the driver is gone");
  events_.start_timer(now() + kParentInterval, [this, parent] { watch_parent(parent); });
}

template <typename Step>
void AgentLoop::turn(Step step) {
  turn_.take(step);
  report_what_was_written();
  settle();
}

void AgentLoop::settle() {
#ifndef NDEBUG
  sanity_check(state_);
#endif
  ended_.clear();
  timer_.arm();
}

// Output is not read while the engine lags behind, so that the functions that write it wait, not
// our memory.
void AgentLoop::relieve() {
  const bool backed_up = link_.is_backed_up();
  if (backed_up != paused_) {
    paused_ = backed_up;
    for (auto& worker : workers_)
      if (worker) worker->pause_output(paused_);
  }
  if (paused_) events_.start_timer(now() + kReliefInterval, [this] { relieve(); });
}

void AgentLoop::start_bootstrap(const wire::Configure& configure) {
  bootstrap_ = std::make_unique<BootstrapProcess>(
      events_, configure,
      BootstrapProcess::Events{.on_step =
                                   [this](const std::string& line) {
                                     if (line.starts_with(kAlive))
                                       return show_alive(line.substr(kAlive.size()));
                                     turn([&] { on_bootstrap_step(state_, *this, line, now()); });
                                   },
                               .on_end =
                                   [this](const BootstrapEnd& end) {
                                     turn([&] { on_bootstrap_end(state_, *this, end, now()); });
                                   }});
}

void AgentLoop::kill_bootstrap() { bootstrap_->kill(); }

// A start takes many milliseconds on a busy machine: between two of them the loop looks at
// everything else, so that the engine hears of this node however many there are.
void AgentLoop::start_worker(SlotId slot) {
  starts_.push_back(slot);
  if (starts_.size() == 1) start_next_later();
}

void AgentLoop::start_next_later() {
  events_.start_timer(now(), [this] {
    const SlotId slot = starts_.front();
    starts_.pop_front();
    if (!starts_.empty()) start_next_later();
    if (const std::string& killed = state_.slots[slot.value].killed; !killed.empty()) {
      end_worker(slot, {.text = killed});
    } else {
      start_now(slot);
    }
  });
}

void AgentLoop::start_now(SlotId slot) {
  const Slot& its_slot = state_.slots[slot.value];
  const std::uint32_t worker = its_slot.worker;
  auto environment = worker_environment(state_, worker);
  environment.emplace_back(kSlotVariable, std::to_string(its_slot.place));
  if (!directory_.empty()) environment.emplace_back(kWorkVariable, name_of(directory_));
  environment.emplace_back("SKYWARD_MEMORY", std::to_string(state_.memory_bytes));
  environment.emplace_back("SKYWARD_CPUS", std::to_string(io::usable_cpus()));
  make_directory();  // a task may have removed it
  const WorkerProcess::Options options{.command = state_.configure.worker_command,
                                       .environment = std::move(environment),
                                       .directory = state_.configure.directory,
                                       .worker = worker,
                                       .outlasts_signals = directory_.empty()};
  auto started = WorkerProcess::start(
      events_, options,
      {.on_hello =
           [this, slot](const std::string&) {
             turn([&] { on_worker_hello(state_, *this, slot, now()); });
           },
       .on_message =
           [this, slot](wire::WorkerMessage message) {
             turn([&] { on_worker_message(state_, *this, slot, std::move(message), now()); });
           },
       .on_output = [this,
                     slot](std::vector<wire::OutputLine> lines) { report(slot, std::move(lines)); },
       .on_broken =
           [this, slot](std::string reason) {
             turn([&] { on_worker_broken(state_, *this, slot, std::move(reason)); });
           },
       .on_exit =
           [this, slot](const io::ExitStatus& status, TaskId begun) {
             const WorkerExit end{.text = status.describe(),
                                  .code = status.code,
                                  .by_signal = status.signal != 0,
                                  .by_sigkill = status.signal == io::kKillSignal,
                                  .peak_bytes = status.max_rss_bytes,
                                  .begun = begun};
             if (status.signal != io::kTerminateSignal) return end_worker(slot, end);
             // Whoever ends all processes of a machine has signalled this one, too. Then the
             // machine is lost, and its tasks run elsewhere.
             events_.start_timer(now() + kTerminateGrace,
                                 [this, slot, end] { end_worker(slot, end); });
           }});
  if (started) {
    workers_[slot.value] = std::move(*started);
    workers_[slot.value]->pause_output(paused_);
    return;
  }
  events_.post([this, slot, reason = started.error().message] {
    end_worker(slot, {.text = reason, .code = 127});
  });
}

void AgentLoop::report(SlotId slot, std::vector<wire::OutputLine> lines) {
  turn_.take([&] { on_output(state_, *this, slot, std::move(lines)); });
  if (!paused_ && link_.is_backed_up()) relieve();
}

void AgentLoop::report_what_was_written() {
  for (auto& [slot, lines] : std::exchange(written_before_, {})) report(slot, std::move(lines));
}

void AgentLoop::end_worker(SlotId slot, const WorkerExit& end) {
  if (workers_[slot.value]) ended_.push_back(std::move(workers_[slot.value]));
  turn_.take([&] { on_worker_exit(state_, *this, slot, end, now()); });
  report_what_was_written();
  events_.post([this] { settle(); });  // not now: this may be a call of the process that has ended
}

void AgentLoop::run(SlotId slot, const WorkerRun& run) {
  auto lines = workers_[slot.value]->run(run);
  if (!lines.empty()) written_before_.emplace_back(slot, std::move(lines));
}

void AgentLoop::interrupt(SlotId slot, TaskId task) { workers_[slot.value]->interrupt(task); }

void AgentLoop::withdraw(SlotId slot, std::span<const TaskId> tasks) {
  std::vector<std::uint64_t> ids;
  for (const TaskId task : tasks) ids.push_back(task.value | wire::kWorkerWithdrawBit);
  workers_[slot.value]->notify(ids);
}

void AgentLoop::warn(SlotId slot, Duration left) {
  const auto ms = static_cast<std::uint64_t>(left / std::chrono::milliseconds(1));
  workers_[slot.value]->notify(std::array{ms | wire::kWorkerNoticeBit});
}

std::optional<std::uint32_t> AgentLoop::take_rest(SlotId slot, TaskId group) {
  return workers_[slot.value]->take_rest(group);
}

void AgentLoop::credit(SlotId slot, TaskId task, std::uint32_t count) {
  workers_[slot.value]->credit(task, count);
}

void AgentLoop::tell_instance_info(SlotId slot, const std::string& compute_pool) {
  workers_[slot.value]->tell_instance_info(compute_pool);
}

void AgentLoop::drop_function(SlotId slot, FunctionId function) {
  workers_[slot.value]->drop(function);
}

void AgentLoop::stop_worker(SlotId slot) { workers_[slot.value]->stop(); }

void AgentLoop::kill_worker(SlotId slot) {
  // Nothing to kill when it has not been started yet, or could not be: its end is on the way.
  if (workers_[slot.value]) workers_[slot.value]->kill();
}

void AgentLoop::end_machine(std::vector<std::string> command) { end_command_ = std::move(command); }

void AgentLoop::exit(int code) {
  exit_code_ = code;
  events_.stop();
}

}  // namespace skyward::agent

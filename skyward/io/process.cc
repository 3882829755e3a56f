#include "skyward/io/process.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "skyward/io/polling.h"
#include "skyward/io/start_child.h"
#include "skyward/io/start_thread.h"

namespace skyward::io {

std::string ExitStatus::describe() const {
  if (code < 0) return "ended in an unknown way (another part of the program waited for it)";
  if (signal == 0) return fmt::format("exit code {}", code);
  const char* const name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("killed by signal {}", signal)
                         : fmt::format("killed by signal {} (SIG{})", signal, name);
}

struct Process::Impl : std::enable_shared_from_this<Impl> {
  Impl(EventLoop& event_loop, StartedChild started, bool leads_group,
       std::function<void(ExitStatus)> callback)
      : loop(event_loop),
        child(std::move(started)),
        has_group(leads_group),
        on_exit(std::move(callback)) {}

  EventLoop& loop;
  const StartedChild child;
  const bool has_group;
  std::function<void(ExitStatus)> on_exit;
  bool running = true;
  bool reaped = false;
  Time killed_at = kNever;
  // Only without a pidfd.
  std::thread waiter;
  std::atomic<bool> stop_waiter = false;

  Status start() {
    if (child.pidfd) {
      watch();
      return {};
    }
    try {
      waiter = start_thread([this, weak = weak_from_this()] {
        std::optional<ExitStatus> status;
        while (!status && !stop_waiter) {
          status = peek_exit(child.pid);
          if (!status) std::this_thread::sleep_for(kKernelPollInterval);
        }
        loop.post([weak, status] {
          if (const auto self = weak.lock()) self->ended(status);
        });
      });
    } catch (const std::system_error& error) {
      kill_and_reap();
      return fail(ErrorKind::exhausted,
                  fmt::format("no thread could be started to wait for a process: {}", error.what()),
                  "raise the limit of processes (ulimit -u)");
    }
    return {};
  }

  // A debugger may hold the child back though it has ended, and the descriptor alone does not tell.
  void watch() {
    loop.watch(child.pidfd.get(), [this] {
      const auto status = peek_exit(child.pid);
      if (status) return ended(status);
      loop.unwatch(child.pidfd.get());
      loop.start_timer(EventLoop::now() + kKernelPollInterval, [weak = weak_from_this()] {
        if (const auto self = weak.lock(); self && self->running) self->watch();
      });
    });
  }

  void ended(const std::optional<ExitStatus>& status) {
    if (!status || !running) return;
    const auto self = shared_from_this();  // the owner may let go inside on_exit
    running = false;
    stop_waiting();
    // Reaped afterwards: as a zombie it keeps its number, so that what it left behind in its group
    // can be signalled.
    const auto callback = std::exchange(on_exit, {});
    callback(*status);
    reaped = true;
    reap(child.pid);
  }

  void stop_waiting() {
    if (child.pidfd) loop.unwatch(child.pidfd.get());
    stop_waiter = true;
    if (waiter.joinable()) waiter.join();
  }

  void kill_and_reap() {
    if (!running) return;
    running = false;
    note_kill();
    signal_child(child, SIGKILL);
    stop_waiting();
    reaped = true;
    reap_killed(child, killed_at + kReapPatience);
  }

  // Patience counts from the first one: of many that were killed together, none waits after the
  // others.
  void note_kill() { killed_at = std::min(killed_at, EventLoop::now()); }
};

Process::Process(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Process>> Process::spawn(EventLoop& loop, const SpawnOptions& options,
                                                std::function<void(ExitStatus)> on_exit) {
  auto child = start_child(options);
  if (!child) return fail(child);
  auto impl =
      std::make_shared<Impl>(loop, *std::move(child), options.new_session, std::move(on_exit));
  if (const Status started = impl->start(); !started) return fail(started);
  return std::unique_ptr<Process>(new Process(std::move(impl)));
}

Process::~Process() { impl_->kill_and_reap(); }

pid_t Process::pid() const { return impl_->child.pid; }

void Process::signal(int number) {
  if (!impl_->running) return;
  if (number == SIGKILL) impl_->note_kill();
  signal_child(impl_->child, number);
}

void Process::interrupt() { signal(SIGINT); }

void Process::notify() { signal(SIGURG); }

void Process::kill_group() {
  if (impl_->reaped || !impl_->has_group) return;
  impl_->note_kill();
  ::kill(-impl_->child.pid, SIGKILL);
}

}  // namespace skyward::io

// `skyward run`: a pool for one command, the command on its nodes, and everything that ends it.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "skyward/call/error.h"
#include "skyward/cli/commands.h"
#include "skyward/cli/run_node.h"
#include "skyward/cli/run_policy.h"
#include "skyward/cli/run_request.h"
#include "skyward/display/display_text.h"
#include "skyward/display/terminal_view.h"
#include "skyward/io/ending_signals.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/machine.h"
#include "skyward/io/own_process.h"
#include "skyward/pool/pool.h"
#include "skyward/pool/program_end.h"
#include "skyward/run/run_command.h"

namespace skyward::cli {

namespace {

using namespace std::chrono_literals;

constexpr Duration kLookInterval = 100ms;
// For threads that may wait for a reader of standard output who does not read.
constexpr Duration kLastOutput = 5s;

struct Interrupted {
  int signal = 0;
};

struct RunEnd {
  int code = 0;
  int signal = 0;  // that ends the program; 0: it exits
};

// The signals that came, without repeats of the first one.
class Interrupts {
 public:
  Interrupts() : signals_([this](int number) { note(number); }) {}
  int count() const { return count_; }
  int first() const { return first_; }
  void throw_if_any() const {
    if (count_ > 0) throw Interrupted{first_};
  }

 private:
  // One thread calls it.
  void note(int number) {
    const Time now = io::EventLoop::now();
    if (first_ == 0) {
      first_ = number;
      first_at_ = now;
    } else if (is_repeat(number, now, first_, first_at_)) {
      return;
    }
    ++count_;
  }
  std::atomic<int> count_{0};
  std::atomic<int> first_{0};
  Time first_at_{};            // of note() alone
  io::EndingSignals signals_;  // last: it calls note()
};

class Run {
 public:
  Run(RunRequest request, bool quiet)
      : request_(std::move(request)),
        pool_(request_.spec),
        view_(quiet ? Display::quiet : Display::log) {}

  RunEnd run() {
    const Duration lifetime = request_.spec.timeout;
    if (lifetime > Duration{}) ask_at_ = pool_time() + lifetime - farewell_of(lifetime);
    try {
      pool_.open([this] {
        start_events();
        interrupts_.throw_if_any();
      });
      start_nodes();
      await_nodes();
    } catch (const Interrupted& interrupted) {
      interrupted_by_ = interrupted.signal;
    } catch (const std::exception& error) {
      failures_.push_back(in_options(error.what()));
    }
    close();
    end_threads();
    for (const std::string& failure : failures_) shared_.terminal.tell(failure);
    return end();
  }

 private:
  struct Part {
    std::unique_ptr<RunNode> node;
    std::thread thread;
  };
  struct Preemption {
    Time ends_at{};  // by pool_time()
    std::string reason;
  };

  Time pool_time() const {
    return pool_clock(request_.spec.provider.name, io::EventLoop::now(), io::time_with_sleep());
  }

  // The pool has events once it begins to open.
  void start_events() {
    if (events_.joinable()) return;
    events_ = std::thread([this] {
      std::vector<Event> events;
      while (pool_.next_events(events, view_.pause())) {
        for (Event& event : events) {
          if (auto* error = std::get_if<ErrorEvent>(&event)) {
            error->message = in_options(std::move(error->message));
          }
          note(event);
          view_.show(event);
        }
        view_.tick();
      }
    });
  }

  // What the end of the command depends on.
  void note(const Event& event) {
    const std::scoped_lock lock(shared_.mutex);
    if (const auto* warning = std::get_if<BudgetWarning>(&event)) {
      ask_for_budget_at_ = farewell_before_drain(warning->seconds_left, pool_time());
      budget_left_ = std::min(from_seconds(warning->seconds_left), kBeforeDrain);
    } else if (const auto* notice = std::get_if<InstancePreempted>(&event)) {
      preempted_[notice->node] = {.ends_at = pool_time() + from_seconds(notice->seconds_left),
                                  .reason = notice->reason};
    } else if (const auto* replaced = std::get_if<InstanceReplaced>(&event)) {
      preempted_.erase(replaced->node);
    }
  }

  BlobStore store() {
    return {.put = [this](ByteView bytes) { return pool_.store(bytes); }, .id = 1};
  }

  void start_nodes() {
    start_events();
    const Array<std::uint8_t> content(std::move(request_.content));
    const auto call = run::remote_run_command(request_.order, content);
    const int nodes = request_.spec.nodes;
    for (int i = 0; i < nodes; ++i) {
      std::string prefix = nodes > 1 ? fmt::format("node {}: ", i) : "";
      std::string output = request_.output;
      if (!output.empty() && nodes > 1) output += fmt::format("/node-{}", i);
      Handle handle = pool_.submit(call.on_node(static_cast<std::uint32_t>(i)).to_call(store()));
      Part part{.node = std::make_unique<RunNode>(shared_, std::move(handle), std::move(prefix),
                                                  std::move(output))};
      part.thread = std::thread([node = part.node.get()] { node->read(); });
      parts_.push_back(std::move(part));
    }
  }

  // Until all are done, or are not waited for any longer.
  void await_nodes() {
    int seen = 0;
    while (true) {
      {
        std::unique_lock lock(shared_.mutex);
        shared_.changed.wait_for(lock, kLookInterval);
      }
      if (all_done() || (given_up_ && !some(&is_sending))) return;
      const int count = interrupts_.count();
      const bool asked = std::exchange(seen, count) < count;
      if (some(&is_running)) {
        stop_running(asked);
      } else if (asked) {
        shared_.terminal.tell_now("interrupted: abandoning the files that have not come back");
        for (Part& part : parts_) part.node->cancel();
        return;
      }
    }
  }

  void stop_running(bool asked) {
    const Time now = io::EventLoop::now();
    if (asked) {
      shared_.terminal.tell_now(stopping_.has_begun()
                                    ? "interrupted again: sending the next signal at once"
                                    : "interrupted: asking the command to end");
      step(stopping_.ask(interrupts_.first(), now));
    } else if (stopping_.has_begun()) {
      if (const auto due = stopping_.due(now)) step(*due);
    } else if (shared_.terminal.is_broken()) {
      shared_.terminal.tell_now(
          "standard output is closed, or its disk is full: ending the command");
      step(stopping_.ask(io::kTerminateSignal, now));
    } else if (const auto early = early_end()) {
      shared_.terminal.tell_now(
          fmt::format("{}: asking the command to end, so that its results come back; {}",
                      early->why, early->advice));
      cut_off_ = true;
      step(stopping_.ask(io::kTerminateSignal, now, saving_time(early->left)));
    } else if (some(&has_failed)) {
      step(stopping_.ask(io::kTerminateSignal, now));
    }
  }

  // Why the command has to end now.
  struct EarlyEnd {
    std::string why;
    std::string advice;
    Duration left{};
  };
  std::optional<EarlyEnd> early_end() {
    const Time now = pool_time();
    if (now >= ask_at_) {
      const Duration left = farewell_of(request_.spec.timeout);
      return EarlyEnd{fmt::format("the machines' lifetime ends in {:.0f} s", seconds(left)),
                      "allow more time with --timeout SECONDS", left};
    }
    std::map<int, Preemption> preempted;
    {
      const std::scoped_lock lock(shared_.mutex);
      if (now >= ask_for_budget_at_) {
        return EarlyEnd{"the budget is almost spent", "allow more with --budget DOLLARS",
                        budget_left_};
      }
      preempted = preempted_;
    }
    // A command that has not begun there runs on the node's next machine.
    for (const auto& [node, preemption] : preempted) {
      const CommandState state = parts_.at(static_cast<std::size_t>(node)).node->state();
      if (!state.begun || !is_running(state)) continue;
      const Duration left = std::max(preemption.ends_at - now, Duration{});
      return EarlyEnd{fmt::format("node {} is preempted in {:.0f} s ({})", node, seconds(left),
                                  preemption.reason),
                      "for machines that are not preempted: --spot never", left};
    }
    return std::nullopt;
  }

  // As far as is known here.
  static bool is_running(const CommandState& state) { return !state.done && !state.code; }
  static bool is_sending(const CommandState& state) { return !state.done && state.code; }
  static bool has_failed(const CommandState& state) {
    return state.why || state.code.value_or(0) != 0;
  }
  bool some(bool (*is)(const CommandState&)) const {
    return std::ranges::any_of(parts_, [is](const Part& part) { return is(part.node->state()); });
  }
  bool all_done() const {
    return std::ranges::all_of(parts_, [](const Part& part) { return part.node->state().done; });
  }
  void step(const Stopping::Step& step) {
    given_up_ |= step.give_up;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const CommandState state = parts_[i].node->state();
      if (!is_running(state)) continue;
      if (!state.begun || step.give_up) {
        parts_[i].node->cancel();
      } else {
        const auto signal = run::remote_signal_command(request_.order.id, step.signal);
        Call call = signal.on_node(static_cast<std::uint32_t>(i)).to_call(store());
        call.options.while_preempted = true;
        (void)pool_.submit(std::move(call));
      }
    }
  }

  // Another signal while it closes makes it hurry.
  void close() {
    const int before = interrupts_.count();
    try {
      pool_.close([&] {
        if (interrupts_.count() > before) pool_.hurry();
      });
    } catch (const MachinesLeftError& error) {
      failures_.push_back(in_options(error.what()));
    }
  }

  void end_threads() {
    const Time deadline = io::EventLoop::now() + kLastOutput;
    std::unique_lock lock(shared_.mutex);
    while (io::EventLoop::now() < deadline) {
      lock.unlock();
      const bool done = all_done();
      lock.lock();
      if (done) break;
      shared_.changed.wait_for(lock, kLookInterval);
    }
    lock.unlock();
    if (!all_done()) {  // a thread waits for the reader of our output
      shared_.terminal.tell_now("nothing reads the output: dropping the rest of it");
      for (const std::string& failure : failures_) shared_.terminal.tell_now(failure);
      const RunEnd ended = end();
      if (ended.signal != 0) die_of(ended.signal);
      std::_Exit(ended.code);
    }
    for (Part& part : parts_) part.thread.join();
    if (events_.joinable()) events_.join();
  }

  RunEnd end() {
    const int code = exit_code();
    return {.code = code, .signal = ending_signal(code, interrupts_.first())};
  }

  int exit_code() {
    constexpr int kBrokenPipe = 128 + 13;
    constexpr int kCutOff = 124;  // as timeout(1) has it
    const auto failed = [](const Part& part) {
      const CommandState state = part.node->state();
      return state.why || state.incomplete || !state.done;
    };
    if (shared_.terminal.is_broken()) return kBrokenPipe;
    {
      const std::scoped_lock lock(shared_.mutex);
      const bool by_signal = shared_.failed_first && interrupts_.count() > 0;
      if (shared_.first_code != 0 && !by_signal) return shared_.first_code;
    }
    if (interrupted_by_ != 0) return exit_code_of(0, interrupted_by_);
    const bool own_failure = !failures_.empty() || std::ranges::any_of(parts_, failed);
    if (own_failure && interrupts_.count() > 0) return exit_code_of(0, interrupts_.first());
    if (own_failure) return kRunFailed;
    return cut_off_ ? kCutOff : 0;
  }

  RunRequest request_;
  Interrupts interrupts_;
  Pool pool_;
  TerminalView view_;
  std::thread events_;
  RunShared shared_;
  std::vector<Part> parts_;
  Stopping stopping_;
  Time ask_at_ = kNever;                 // before the machines' lifetime ends, by pool_time()
  Time ask_for_budget_at_ = kNever;      // … and before their money does; by `shared_.mutex`
  Duration budget_left_{};               // how long their money lasts from then on; the same
  std::map<int, Preemption> preempted_;  // of nodes, until they have other machines; the same
  bool cut_off_ = false;                 // the command was asked to end before any of them
  bool given_up_ = false;
  int interrupted_by_ = 0;
  std::vector<std::string> failures_;
};

}  // namespace

int run_program(const Streams& streams, const RunOptions& options) {
  const auto failed = [&](Error error) {
    error.message = in_options(std::move(error.message));
    error.hint = in_options(std::move(error.hint));
    (void)complain(streams, error);
    return kRunFailed;
  };
  try {
    io::ignore_write_signals();
    auto request = make_run_request(options);
    if (!request) return failed(request.error());
    for (const std::string& note : request->notes) {
      streams.err << "skyward: " << printable_text(note) << '\n';
    }
    const RunEnd ended = Run(*std::move(request), options.quiet).run();
    if (ended.signal != 0) die_of(ended.signal);
    return ended.code;
  } catch (const SkywardError& error) {
    streams.err << "skyward: " << printable_text(in_options(error.what())) << '\n';
    return kRunFailed;
  } catch (const std::exception& error) {  // no memory, or a file system that fails
    streams.err << "skyward: " << printable_text(error.what()) << '\n';
    return kRunFailed;
  }
}

}  // namespace skyward::cli

#pragma once

// For tests of the core: effects that are written down, and a node that is ready in one line. A
// test calls on_*, takes what it expects, in order, and ends (by TearDown) with
// expect_nothing_else() and sanity_check(). Time moves only when the test moves it.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "skyward/agent/core.h"

namespace skyward::agent {

// Writes down what the core asks for, as words, and messages to the engine apart.
class Recorder final : public AgentEffects {
 public:
  void send(wire::Message message) override { messages.push_back(std::move(message)); }
  void start_bootstrap(const wire::Configure& configure) override {
    actions.push_back("bootstrap " + configure.bootstrap);
  }
  void kill_bootstrap() override { actions.push_back("kill bootstrap"); }
  void start_worker(SlotId slot) override { note("start", slot); }
  void run(SlotId slot, const WorkerRun& run) override {
    note("run", slot,
         std::to_string(run.task.task.value) + (run.body.empty() ? "" : " with body") +
             (run.behind ? " behind" : ""));
  }
  void interrupt(SlotId slot, TaskId task) override {
    note("interrupt", slot, std::to_string(task.value));
  }
  void withdraw(SlotId slot, std::span<const TaskId> tasks) override {
    std::string ids;
    for (const TaskId id : tasks) ids += (ids.empty() ? "" : " ") + std::to_string(id.value);
    note("withdraw", slot, ids);
  }
  void warn(SlotId slot, Duration left) override {
    note("warn", slot, std::to_string(left / std::chrono::seconds(1)) + " s");
  }
  void credit(SlotId slot, TaskId task, std::uint32_t count) override {
    note("credit", slot, std::to_string(task.value) + " " + std::to_string(count));
  }
  void drop_function(SlotId slot, FunctionId function) override {
    note("drop", slot, std::to_string(function.value[0]));
  }
  void tell_instance_info(SlotId slot, const std::string& compute_pool) override {
    note("tell", slot, compute_pool);
  }
  void stop_worker(SlotId slot) override { note("stop", slot); }
  void kill_worker(SlotId slot) override { note("kill", slot); }
  void end_machine(std::vector<std::string> command) override {
    actions.push_back("end machine " + command.front());
  }
  void exit(int code) override { actions.push_back("exit " + std::to_string(code)); }

  std::optional<std::uint32_t> take_rest(SlotId slot, TaskId group) override {
    note("take rest", slot, std::to_string(group.value));
    return 0;
  }

  std::deque<std::string> actions;
  std::deque<wire::Message> messages;

 private:
  void note(const char* verb, SlotId slot, const std::string& rest = "") {
    actions.push_back(std::string(verb) + " " + std::to_string(slot.value) +
                      (rest.empty() ? "" : ": " + rest));
  }
};

class AgentCoreTest : public ::testing::Test {
 protected:
  void TearDown() override {
    sanity_check(state);
    expect_nothing_else();
  }

  void expect_nothing_else() {
    EXPECT_TRUE(effects.messages.empty())
        << effects.messages.size() << ", first of kind " << effects.messages.front().index();
    for (const std::string& action : effects.actions) ADD_FAILURE() << "not expected: " << action;
    effects.actions.clear();
    effects.messages.clear();
  }
  void take(const std::string& action) {
    ASSERT_FALSE(effects.actions.empty()) << "expected: " << action;
    EXPECT_EQ(effects.actions.front(), action);
    effects.actions.pop_front();
  }
  template <typename T>
  T take_message() {
    if (effects.messages.empty() || !std::holds_alternative<T>(effects.messages.front())) {
      ADD_FAILURE() << "expected a message " << typeid(T).name();
      return {};
    }
    T message = std::get<T>(std::move(effects.messages.front()));
    effects.messages.pop_front();
    return message;
  }
  wire::TaskResult take_result(std::uint64_t task, wire::TaskStatus status) {
    auto result = take_message<wire::TaskResult>();
    EXPECT_EQ(result.task.value, task);
    EXPECT_EQ(result.status, status);
    return result;
  }

  void configure(std::uint32_t workers, std::uint32_t concurrency, std::string bootstrap = "") {
    wire::Configure message;
    message.worker_command = {"python", "worker.py"};
    message.workers.resize(workers);
    message.concurrency = concurrency;
    message.bootstrap = std::move(bootstrap);
    on_message(state, effects, message, now);
  }
  // A node whose slots 0 have greeted.
  void make_ready(std::uint32_t workers, std::uint32_t concurrency) {
    configure(workers, concurrency);
    on_accelerators(state, effects, {}, now);
    for (std::uint32_t worker = 0; worker < workers; ++worker) {
      take("start " + std::to_string(worker * concurrency));
      hello(worker * concurrency);
    }
    take_message<wire::Ready>();
    expect_nothing_else();
  }
  void hello(std::uint32_t slot) { on_worker_hello(state, effects, SlotId{slot}, now); }

  wire::RunTask run_task(std::uint64_t task) {
    wire::RunTask run;
    run.task = TaskId{task};
    run.function = FunctionId{{1}};
    if (!std::exchange(sent_body, true))
      run.body = wire::small_buffer(SharedBytes(std::string("body")));
    return run;
  }
  void submit(const wire::RunTask& run) { on_message(state, effects, run, now); }
  void submit(std::uint64_t task) { submit(run_task(task)); }

  void worker_answers(std::uint32_t slot, std::uint64_t task, Duration took = 10ms,
                      wire::WorkerStatus status = wire::WorkerStatus::ok) {
    wire::WorkerMessage message;
    message.kind = wire::WorkerKind::result;
    message.status = status;
    message.task = TaskId{task};
    message.run_ns = static_cast<std::uint64_t>(took.count());
    on_worker_message(state, effects, SlotId{slot}, std::move(message), now);
    sanity_check(state);
  }
  // While it runs the front of its window, unless told otherwise.
  void worker_ends(std::uint32_t slot, WorkerExit end) {
    const auto& window = state.slots[slot].window;
    if (end.begun == TaskId{} && !window.empty()) end.begun = window.front();
    on_worker_exit(state, effects, SlotId{slot}, end, now);
    sanity_check(state);
  }
  void advance_to_next_deadline() {
    const Time next = next_deadline(state);
    ASSERT_NE(next, kNever);
    now = std::max(now, next);
    on_timer(state, effects, now);
    sanity_check(state);
  }
  void advance(Duration by) {
    now += by;
    on_timer(state, effects, now);
  }

  AgentState state;
  Recorder effects;
  Time now{1000s};
  bool sent_body = false;
};

}  // namespace skyward::agent

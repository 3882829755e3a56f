#include "skyward/pool/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <mutex>
#include <utility>
#include <variant>

#include "skyward/call/error.h"
#include "skyward/pool/pool_state.h"
#include "skyward/pool/program_end.h"
#include "skyward/wire/codec.h"

namespace skyward {
namespace {

[[noreturn]] void throw_not_open() {
  throw NotProvisionedError(
      "the pool is not provisioned: it is not open yet, or it was closed\nhint: use it inside its "
      "`with` block (in C++ between its construction and close())");
}

PoolCost sum(const CostFinal& bill, const PoolCost& cost) {
  return {.total = bill.total_cost + cost.total,
          .hourly = cost.hourly,
          .setup = bill.setup_cost + cost.setup,
          .useful = bill.useful_cost + cost.useful,
          .idle = bill.idle_cost + cost.idle,
          .lost = bill.lost_cost + cost.lost};
}

// The machines of one provider come after those of the other.
void add(CostFinal& bill, const CostFinal& next) {
  bill.total_cost += next.total_cost;
  bill.total_seconds += next.total_seconds;
  bill.hourly_rate = std::max(bill.hourly_rate, next.hourly_rate);
  bill.spot_count += next.spot_count;
  bill.ondemand_count += next.ondemand_count;
  bill.savings_vs_ondemand += next.savings_vs_ondemand;
  bill.setup_cost += next.setup_cost;
  bill.useful_cost += next.useful_cost;
  bill.idle_cost += next.idle_cost;
  bill.lost_cost += next.lost_cost;
}

double wall_seconds() { return static_cast<double>(engine::EngineLoop::wall_us()) * 1e-6; }

Event task_event(const TaskState& state, const Outcome& outcome) {
  if (outcome.status == OutcomeStatus::ok) {
    return TaskFinished{.task = state.id.value,
                        .name = state.function->name,
                        .node = outcome.node,
                        .worker = outcome.worker,
                        .run_seconds = outcome.run_seconds,
                        .timestamp = wall_seconds()};
  }
  const bool raised = outcome.status == OutcomeStatus::raised;
  return TaskFailed{.task = state.id.value,
                    .name = state.function->name,
                    .node = outcome.node,
                    .worker = outcome.worker,
                    .run_seconds = outcome.run_seconds,
                    .reason = raised ? "it raised" : outcome.error.message,
                    .timestamp = wall_seconds()};
}

}  // namespace

void PoolState::complete(TaskId task, Outcome outcome) {
  const auto state = tasks.take(task);
  if (!state) return;
  if (asked.collect_tasks) events.put(task_event(*state, outcome));
  if (send_again(state, outcome)) return;
  state->retrying.reset();
  state->finish(std::move(outcome));
}

bool PoolState::send_again(const std::shared_ptr<TaskState>& state, const Outcome& outcome) {
  if (!state->retrying || !may_retry(outcome)) return false;
  const TaskId next{next_task.fetch_add(1)};
  {
    const std::scoped_lock lock(state->mutex);
    if (state->cancelled) return false;
    state->id = next;
  }
  const std::uint32_t attempt = ++state->retrying->attempt;
  const std::uint32_t attempts = state->retrying->call.options.retries + 1;
  std::vector<Call> calls{state->retrying->call};
  const std::string& function = calls.front().function->name;
  const std::string line =
      failure_line ? failure_line(outcome, function) : fmt::format("{} failed", function);
  if (attempt == attempts) state->retrying.reset();
  tasks.add({state});
  const bool sent = state->loop->borrow([&](engine::EngineLoop& to) {
    to.submit(next, std::move(calls));
    // A cancel() since then has named a task that the engine did not know yet.
    const std::scoped_lock lock(state->mutex);
    if (state->cancelled) to.cancel(next);
  });
  if (!sent) {  // the pool has closed
    tasks.remove({state});
    return false;
  }
  std::optional<std::string> instance;
  if (!outcome.instance_id.empty()) instance = outcome.instance_id;
  emit(ErrorEvent{fmt::format("{}; attempt {} of {}", line, attempt, attempts), instance});
  return true;
}

void PoolState::deliver_item(TaskId task, wire::Payload item) {
  if (const auto state = tasks.find(task)) state->add_item(std::move(item));
}

void PoolState::emit(Event event) {
  if (const auto* part = std::get_if<CostFinal>(&event)) {
    const std::scoped_lock lock(mutex);
    add(bill, *part);
    billed = bill_due = true;
    return;
  }
  if (auto* stopped = std::get_if<PoolStopped>(&event)) {
    const bool goes_on_elsewhere = !last_choice;
    {
      const std::scoped_lock lock(mutex);
      held_back.reset();
      if (goes_on_elsewhere) held_back = std::move(*stopped);
    }
    if (goes_on_elsewhere) return;
    put_bill();
  }
  if (std::holds_alternative<PoolStopping>(event)) {
    const std::scoped_lock lock(mutex);
    stopping = true;
    expired = loop->has_expired();
  }
  if (auto* update = std::get_if<CostUpdate>(&event)) {
    const CostFinal before = bill_until_now();
    update->elapsed_seconds += before.total_seconds;
    update->accumulated_cost += before.total_cost;
  }
  if (auto* metrics = std::get_if<Metrics>(&event)) metrics->timestamp = wall_seconds();
  if (auto* started = std::get_if<TaskStarted>(&event)) started->timestamp = wall_seconds();
  events.put(std::move(event));
}

void PoolState::put_bill() {
  std::unique_lock lock(mutex);
  if (!std::exchange(bill_due, false)) return;
  const CostFinal all = bill;
  lock.unlock();
  events.put(all);
}

void PoolState::opened(Status status) {
  const std::scoped_lock lock(mutex);
  opened_status = std::move(status);
  changed.notify_all();
}

void PoolState::closed(Status machines_left) {
  if (last_choice) {
    put_bill();
    events.end();
  }
  const std::scoped_lock lock(mutex);
  loop_closed = true;
  left = std::move(machines_left);
  changed.notify_all();
}

void PoolState::hurry() {
  std::shared_ptr<engine::LoopAccess> closing;
  {
    const std::scoped_lock lock(mutex);
    if (!loop_closed) closing = access;
  }
  if (closing) closing->borrow([](engine::EngineLoop& to) { to.hurry(); });
}

void PoolState::set_closed() {
  put_bill();
  std::optional<PoolStopped> stopped;
  {
    const std::scoped_lock lock(mutex);
    stopped = std::exchange(held_back, std::nullopt);
  }
  if (stopped) events.put(*std::move(stopped));
  events.end();
  const std::scoped_lock lock(mutex);
  phase = Phase::closed;
  changed.notify_all();
}

void PoolState::check_owner() const {
  if (is_ours()) return;
  throw NotProvisionedError(
      "the pool belongs to the process that this one was forked from; open a pool of its own "
      "here");
}

std::shared_ptr<engine::LoopAccess> PoolState::active_loop() const {
  check_owner();
  std::shared_ptr<engine::LoopAccess> active;
  {
    const std::scoped_lock lock(mutex);
    if (phase == Phase::active) active = access;
  }
  // Without the lock: when nobody catches it, the pools end before the stack is unwound, if ever.
  if (!active) throw_not_open();
  return active;
}

void PoolState::check_options(const Call& call) const {
  if (!call.function) throw ConfigurationError("the call has no function");
  const auto check = [&](std::string_view what, std::optional<std::uint32_t> asked_for, int there) {
    // Signed, as -1 is what people pass by mistake.
    const auto number = static_cast<std::int32_t>(asked_for.value_or(0));
    if (number >= 0 && number < there) return;
    throw ConfigurationError(
        fmt::format("{} is called on {} {}, but there {} {}; they count from 0",
                    call.function->name, what, number, there == 1 ? "is" : "are", there));
  };
  const auto node = call.options.node;
  check("node", node ? std::optional(node->value) : std::nullopt, asked.nodes);
  check("worker", call.options.worker, workers_per_node(asked));
  if (call.options.together && call.options.retries > 0) {
    throw ConfigurationError(
        fmt::format("{}: its workers need each other, so none of them can be retried alone; "
                    "broadcast the call again instead of with_retries()",
                    call.function->name));
  }
}

std::vector<Handle> PoolState::submit(std::vector<Call> calls) {
  const auto active = active_loop();
  for (const Call& call : calls) {
    check_options(call);
    if (const Status fits = wire::check_limits(call.arguments); !fits) throw_error(fits.error());
  }
  TaskTable::States states;
  states.reserve(calls.size());
  // Calls of one batch mostly share their function.
  std::shared_ptr<const FunctionBody> last, stored;
  for (Call& call : calls) {
    auto state = std::make_shared<TaskState>();
    state->owner = owner;
    if (asked.collect_tasks) state->function = call.function;
    state->loop = active;
    state->pace = pace;
    states.push_back(std::move(state));
    if (call.function != last) {
      last = call.function;
      stored = blobs.store(last);
    }
    call.function = stored;
    if (call.options.retries > 0) {
      states.back()->retrying = std::make_unique<Retrying>(Retrying{.call = call});
    }
  }
  const TaskId first{next_task.fetch_add(calls.size())};
  for (std::size_t i = 0; i < states.size(); ++i) states[i]->id = TaskId{first.value + i};
  tasks.add(states);
  pace->began(static_cast<int>(states.size()));
  const auto send = [&](engine::EngineLoop& to) { to.submit(first, std::move(calls)); };
  if (!active->borrow(send)) {  // closed since we looked
    tasks.remove(states);
    throw_not_open();
  }
  return TaskTable::handles(std::move(states));
}

Pool::Pool(PoolSpec spec, FailureLine failure_line) : impl_(std::make_unique<PoolState>()) {
  if (const Status valid = validate(spec); !valid) throw_error(valid.error());
  impl_->asked = spec;
  impl_->failure_line = std::move(failure_line);
  impl_->spec = std::move(spec);
}

void Pool::hurry() {
  if (is_ours()) impl_->hurry();
}

Handle Pool::submit(Call call) {
  std::vector<Call> calls;
  calls.push_back(std::move(call));
  return std::move(impl_->submit(std::move(calls)).front());
}

std::vector<Handle> Pool::submit(std::vector<Call> calls) {
  return impl_->submit(std::move(calls));
}

std::vector<Handle> Pool::broadcast(const Call& call) {
  std::vector<Call> calls;
  const auto workers = static_cast<std::uint32_t>(workers_per_node(impl_->asked));
  for (int node = 0; node < impl_->asked.nodes; ++node) {
    for (std::uint32_t worker = 0; worker < workers; ++worker) {
      calls.push_back(call);
      calls.back().options.node = NodeId{static_cast<std::uint32_t>(node)};
      calls.back().options.worker = worker;
    }
  }
  return impl_->submit(std::move(calls));
}

wire::Blob Pool::store(ByteView bytes) {
  impl_->check_owner();
  return impl_->blobs.store(bytes);
}

std::vector<wire::Buffer> Pool::store_together(std::span<const ByteView> runs) {
  impl_->check_owner();
  return impl_->blobs.store_together(runs);
}

void Pool::keep(const wire::Blob& blob) {
  impl_->with_open_loop([&blob](engine::EngineLoop& loop) { loop.keep_blob(blob.id, true); });
}

void Pool::forget(const wire::Blob& blob) {
  impl_->with_open_loop([&blob](engine::EngineLoop& loop) { loop.keep_blob(blob.id, false); });
}

ByteView Pool::stored_bytes(const wire::Blob& blob) { return StoredBlobs::bytes(blob); }

std::uint64_t Pool::usable_memory() { return engine::EngineLoop::usable_memory(); }

bool Pool::next_events(std::vector<Event>& events, Duration timeout) {
  if (!is_ours()) return false;
  watch_signals_again();
  return impl_->events.take(events, timeout);
}

bool Pool::tell(std::string message, std::optional<InstanceId> instance) {
  return is_ours() &&
         impl_->events.put_if_open(ErrorEvent{std::move(message), std::move(instance)});
}

void Pool::note(std::string message, std::optional<InstanceId> instance) {
  if (is_ours()) impl_->events.note(ErrorEvent{std::move(message), std::move(instance)});
}

bool Pool::is_delivered() const { return !is_ours() || impl_->events.is_delivered(); }

void Pool::await_delivery(Duration limit) {
  if (is_ours()) impl_->events.await_delivery(limit);
}

bool Pool::is_ours() const { return impl_->is_ours(); }

const void* Pool::identity() const { return impl_->pace.get(); }

bool Pool::is_active() const {
  if (!is_ours()) return false;
  const std::scoped_lock lock(impl_->mutex);
  // The engine closes by itself when the pool's time is over, or no node is left.
  return impl_->phase == PoolState::Phase::active && !impl_->stopping;
}

bool Pool::has_expired() const { return is_ours() && impl_->expired; }

int Pool::instance_count() const { return is_active() ? impl_->asked.nodes : 0; }

int Pool::total_slots() const {
  return impl_->asked.nodes * workers_per_node(impl_->asked) * impl_->asked.concurrency;
}

std::uint64_t Pool::tasks_sent() const { return impl_->next_task - 1; }

std::uint64_t Pool::tasks_unfinished() const { return is_ours() ? impl_->tasks.size() : 0; }

PoolCost Pool::cost() const {
  if (!is_ours()) return {};
  CostFinal before;
  std::shared_ptr<engine::LoopAccess> running;
  {
    const std::scoped_lock lock(impl_->mutex);
    before = impl_->bill;
    if (!impl_->billed) running = impl_->access;
  }
  std::future<PoolCost> now;
  if (running) running->borrow([&now](engine::EngineLoop& loop) { now = loop.cost(); });
  return sum(before, now.valid() ? now.get() : PoolCost{});
}

NodeShell Pool::shell_of(NodeId node) const {
  impl_->check_owner();
  std::future<NodeShell> shell;
  impl_->with_open_loop([&](engine::EngineLoop& loop) { shell = loop.shell_of(node); });
  return shell.valid() ? shell.get() : NodeShell{};
}

std::uint64_t Pool::least_memory() const {
  impl_->check_owner();
  std::future<std::uint64_t> memory;
  impl_->with_open_loop([&](engine::EngineLoop& loop) { memory = loop.least_memory(); });
  return memory.valid() ? memory.get() : 0;
}

PoolSpec Pool::spec() const {
  impl_->check_owner();
  const std::scoped_lock lock(impl_->mutex);
  return impl_->spec;
}

std::size_t Pool::chosen_provider() const {
  impl_->check_owner();
  const std::scoped_lock lock(impl_->mutex);
  return impl_->chosen;
}

std::string Pool::job_id() const {
  impl_->check_owner();
  const std::scoped_lock lock(impl_->mutex);
  return impl_->job_id;
}

}  // namespace skyward

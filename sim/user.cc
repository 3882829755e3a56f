#include "sim/user.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/link_limits.h"
#include "skyward/spec/loss.h"

namespace skyward::sim {
namespace {

constexpr std::size_t kArrays = 6;
constexpr std::uint64_t kArrayBytes = 300'000;  // more than one part
constexpr std::uint64_t kSpreadArrayBytes = kMinSpreadBytes;
constexpr int kFunctions = 3;

}  // namespace

User::User(Simulator& simulator, const StormParameters& parameters, Pool pool)
    : simulator_(simulator),
      parameters_(parameters),
      pool_(std::move(pool)),
      left_(parameters.tasks),
      progress_(simulator.now()) {
  for (int i = 0; i < kFunctions; ++i) {
    wire::FunctionBody function;
    function.id.value[0] = static_cast<std::uint8_t>(i + 1);
    function.name = fmt::format("function{}", i);
    function.bytes = wire::small_buffer(SharedBytes(std::string("body of ") + function.name));
    functions_.push_back(std::make_shared<const wire::FunctionBody>(std::move(function)));
  }
  arrays_.resize(kArrays);
  for (Array& array : arrays_) {
    array.segment = simulator_.make_segment();
    renew(array);
  }
  if (parameters_.user.close_after)
    simulator_.after(*parameters_.user.close_after, [this] { close(); });
}

void User::opened(const Status& status) {
  SKYWARD_CHECK(!std::exchange(opened_, true), "opened() twice");
  progress_ = simulator_.now();
  if (!status) {
    SKYWARD_CHECK(
        !parameters_.calm || closing_ || parameters_.user.lifetime > Duration{} ||
            (is_limited(parameters_.money) && status.error().kind == ErrorKind::over_budget),
        "{}", status.error().message);
    left_ = std::min(left_, 3);  // it is refused politely
  }
  simulator_.after({}, [this] { next_burst(); });
}

void User::next_burst() {
  const int count = std::min(left_, simulator_.random.between(1, parameters_.user.burst));
  for (int i = 0; i < count; ++i) submit_one();
  left_ -= count;
  progress_ = simulator_.now();
  if (left_ == 0) return close_when_done();
  simulator_.after(simulator_.random.about(parameters_.user.pause), [this] { next_burst(); });
}

void User::submit_one() {
  if (simulator_.random.chance(parameters_.user.broadcasts)) return broadcast();
  std::optional<NodeId> node;
  std::optional<std::uint32_t> worker;
  if (simulator_.random.chance(parameters_.user.pinned)) {
    node = NodeId{static_cast<std::uint32_t>(
        simulator_.random.below(static_cast<std::uint64_t>(parameters_.nodes)))};
    if (simulator_.random.chance(0.5)) {
      worker = static_cast<std::uint32_t>(
          simulator_.random.below(static_cast<std::uint64_t>(parameters_.workers_per_node)));
    }
  }
  submit(draw_plan(), node, worker);
}

void User::broadcast() {
  const bool together =
      simulator_.together.chance(parameters_.user.together) && parameters_.nodes > 1;
  for (int node = 0; node < parameters_.nodes; ++node) {
    for (int worker = 0; worker < parameters_.workers_per_node; ++worker) {
      submit(together ? draw_together() : draw_plan(), NodeId{static_cast<std::uint32_t>(node)},
             static_cast<std::uint32_t>(worker));
    }
  }
}

TaskPlan User::draw_together() {
  TaskPlan plan = draw_plan();
  if (plan.kind == TaskKind::group) plan = {.key = plan.key, .run_ns = plan.run_ns};
  plan.together = 1;
  return plan;
}

TaskPlan User::draw_plan() {
  Random& random = simulator_.random;
  const UserParameters& user = parameters_.user;
  TaskPlan plan;
  plan.key = random.next();
  Duration run = random.between(1ms, 200ms);
  if (user.tiny) {
    run = random.chance(0.005) ? random.between(20ms, 200ms)
                               : random.between(Duration{}, Duration{50us});
  } else if (random.chance(user.quick)) {
    run = random.between(Duration{}, Duration{2ms});
  } else if (random.chance(user.slow)) {
    run = random.between(1s, 20s);
  }
  if (random.chance(user.raises)) {
    plan.kind = TaskKind::raises;
  } else if (random.chance(user.dies)) {
    plan.kind = TaskKind::dies;
  } else if (random.chance(user.hangs)) {
    plan.kind = random.chance(0.5) ? TaskKind::hangs : TaskKind::stubborn;
  } else if (random.chance(user.streams)) {
    plan.kind = TaskKind::stream;
    plan.items = static_cast<std::uint32_t>(random.below(40));
    run /= 10;
  }
  plan.run_ns = static_cast<std::uint64_t>(run.count());
  if (random.chance(0.3)) plan.lines = static_cast<std::uint32_t>(random.below(20));
  if (random.chance(user.blobs)) plan.blobs = static_cast<std::uint32_t>(random.between(1, 3));
  Random& groups = simulator_.groups;
  if (plan.kind != TaskKind::returns || !groups.chance(user.groups)) return plan;
  plan.kind = TaskKind::group;
  plan.items = static_cast<std::uint32_t>(groups.between(1, 100));
  plan.run_ns = static_cast<std::uint64_t>(groups.between(Duration{}, Duration{50us}).count());
  plan.lines = plan.blobs = 0;
  return plan;
}

void User::submit(TaskPlan plan, std::optional<NodeId> node, std::optional<std::uint32_t> worker) {
  Random& random = simulator_.random;
  wire::Call call;
  call.function = functions_[random.below(functions_.size())];
  call.options.node = node;
  call.options.worker = worker;
  call.options.together = plan.together != 0;
  Asked asked;
  asked.plan = plan;
  asked.at = simulator_.now();
  if (plan.kind == TaskKind::group) {
    wire::GroupWriter group;
    for (std::uint32_t i = 0; i < plan.items; ++i) group.add(bytes_of(plan).view);
    call.arguments = group.take();
    call.options.group = true;
    call.options.stream_window = asked.window = plan.items;
  } else {
    call.arguments.buffers.push_back(wire::small_buffer(bytes_of(plan)));
  }
  for (std::uint32_t i = 0; i < plan.blobs; ++i) {
    const std::size_t which = random.below(arrays_.size());
    Array& array = arrays_[which];
    ++array.uses;
    asked.arrays.push_back(which);
    wire::Blob blob{.id = array.id,
                    .size = parameters_.network.peers ? kSpreadArrayBytes : kArrayBytes,
                    .descriptor = array.segment,
                    .storage = simulator_.storage(array.segment)};
    if (parameters_.network.peers) blob.content[0] = static_cast<std::uint8_t>(which + 1);
    const std::uint64_t size = blob.size;
    call.arguments.buffers.push_back(wire::blob_buffer(std::move(blob), 0, size));
  }
  const bool hangs = plan.kind == TaskKind::hangs || plan.kind == TaskKind::stubborn;
  const bool cancels = random.chance(hangs ? 0.5 : parameters_.user.cancels);
  if ((hangs && !cancels) || random.chance(parameters_.user.timeouts)) {
    call.options.timeout = asked.timeout = random.between(1ms, 5s);
  }
  if (plan.kind == TaskKind::stream) {
    call.options.stream_window = asked.window = static_cast<std::uint32_t>(random.between(1, 20));
  }
  const TaskId id{next_task_++};
  calls_.emplace(id, std::move(asked));
  pool_.submit(id, std::move(call));
  if (cancels) cancel_later(id);
}

void User::cancel_later(TaskId task) {
  const Duration wait = simulator_.random.chance(0.3) ? Duration{} : simulator_.random.about(500ms);
  simulator_.after(wait, [this, task] {
    const auto found = calls_.find(task);
    if (found == calls_.end()) return;
    found->second.cancelled_at = simulator_.now();
    pool_.cancel(task);
  });
}

void User::complete(TaskId task, const wire::Outcome& outcome) {
  const auto found = calls_.find(task);
  SKYWARD_CHECK(found != calls_.end(), "task {} is answered twice", task.value);
  const Asked asked = std::move(found->second);
  calls_.erase(found);
  check_result(task, asked, outcome);
  if (asked.cancelled_at) {
    SKYWARD_CHECK(simulator_.now() - *asked.cancelled_at <= kCancelBackstop, "task {} after {} s",
                  task.value, seconds(simulator_.now() - *asked.cancelled_at));
  }
  release_arrays(asked);
  ++answered_;
  progress_ = simulator_.now();
  close_when_done();
}

void User::check_result(TaskId task, const Asked& asked, const wire::Outcome& outcome) {
  const TaskPlan& plan = asked.plan;
  switch (outcome.status) {
    case wire::OutcomeStatus::ok:
      if (plan.kind == TaskKind::group) {
        SKYWARD_CHECK(asked.items + 1 == asked.window, "{} of {} results of group {}",
                      asked.items + 1, asked.window, task.value);
        SKYWARD_CHECK(value_in(outcome.payload) == value_of(plan.key, plan.first + asked.window),
                      "last result of group {}", task.value);
        break;
      }
      SKYWARD_CHECK(plan.kind == TaskKind::returns || plan.kind == TaskKind::stream);
      SKYWARD_CHECK(value_in(outcome.payload) == value_of(plan.key), "result of task {}",
                    task.value);
      if (plan.kind == TaskKind::stream) {
        SKYWARD_CHECK(asked.items == plan.items, "{} of {} items of task {}", asked.items,
                      plan.items, task.value);
      }
      break;
    case wire::OutcomeStatus::raised:
      SKYWARD_CHECK(plan.kind == TaskKind::raises);
      SKYWARD_CHECK(value_in(outcome.payload) == value_of(plan.key), "exception of task {}",
                    task.value);
      break;
    case wire::OutcomeStatus::failed:
      check_failure(task, asked, outcome.error);
      return;
  }
  SKYWARD_CHECK(asked.lines == plan.lines, "{} of {} lines of task {}", asked.lines, plan.lines,
                task.value);
  done_in_order_.insert(task);
}

// Sent as often as it may be, never, or not to be sent again.
bool User::may_be_lost(const Asked& asked, int attempts) const {
  return attempts == 0 || attempts == static_cast<int>(kMaxAttempts) || asked.items > 0 ||
         asked.plan.together != 0 || stopping_ || closing_;
}

void User::check_failure(TaskId task, const Asked& asked, const Error& error) const {
  const NodeParameters& node = parameters_.node;
  bool allowed = false;
  switch (error.kind) {
    case ErrorKind::cancelled:
      allowed = asked.cancelled_at || stopping_ || closed_;
      break;
    case ErrorKind::timeout:
      allowed = parameters_.user.lifetime > Duration{} ||
                (asked.timeout > Duration{} && simulator_.now() - asked.at >= asked.timeout);
      break;
    case ErrorKind::task:
      allowed = asked.plan.kind == TaskKind::dies || node.sudden_death > 0 || node.start_fail > 0 ||
                node.start_hang > 0 || node.defective > 0;
      break;
    case ErrorKind::undelivered:
      allowed = parameters_.network.unstored > 0;
      break;
    case ErrorKind::lost:
    case ErrorKind::unreachable:
      allowed = !parameters_.calm && may_be_lost(asked, loss_of(error).attempts);
      break;
    case ErrorKind::invalid:
    case ErrorKind::denied:
    case ErrorKind::over_budget:
      allowed = is_limited(parameters_.money);
      break;
    case ErrorKind::exhausted:
    case ErrorKind::unavailable:
    case ErrorKind::unsupported:
      break;
  }
  SKYWARD_CHECK(allowed, "task {} failed: {}", task.value, error.message);
}

void User::deliver_item(TaskId task, const wire::Payload& item) {
  const auto found = calls_.find(task);
  SKYWARD_CHECK(found != calls_.end(), "an item of task {} after its end", task.value);
  Asked& asked = found->second;
  if (asked.plan.kind == TaskKind::group) return take_group_item(asked, task, item);
  ++asked.items;
  SKYWARD_CHECK(value_in(item) == value_of(asked.plan.key, asked.items), "item {} of task {}",
                asked.items, task.value);
  SKYWARD_CHECK(asked.items - asked.taken <= asked.window, "task {} is {} items ahead", task.value,
                asked.items - asked.taken);
  progress_ = simulator_.now();
  simulator_.after(simulator_.random.between(Duration{}, Duration{20ms}),
                   [this, task] { take_item(task); });
}

void User::take_group_item(Asked& asked, TaskId task, const wire::Payload& item) {
  const auto group = wire::group_item(item);
  SKYWARD_CHECK(group, "an item of group {}", task.value);
  progress_ = simulator_.now();
  for (const ByteView result : group->results) {
    ++asked.items;
    wire::Payload one;
    one.buffers.push_back(wire::small_buffer(SharedBytes(Bytes(result.begin(), result.end()))));
    SKYWARD_CHECK(value_in(one) == value_of(asked.plan.key, asked.plan.first + asked.items),
                  "result {} of group {}", asked.items, task.value);
  }
  if (group->withdrawn == 0) return;
  SKYWARD_CHECK(asked.items + group->withdrawn < asked.window, "group {}", task.value);
  asked.window -= group->withdrawn;
  TaskPlan rest = asked.plan;
  rest.first += asked.window;
  rest.items = group->withdrawn;
  ++resends_;
  simulator_.after({}, [this, rest] {
    --resends_;
    if (closed_) return;
    submit(rest, std::nullopt, std::nullopt);
  });
}

void User::take_item(TaskId task) {
  const auto found = calls_.find(task);
  if (found == calls_.end()) return;
  ++found->second.taken;
  pool_.item_taken(task, 1);
}

void User::retain_blob(const wire::Blob& blob) {
  simulator_.segment(blob.descriptor).retained = true;
}

void User::release_arrays(const Asked& asked) {
  for (const std::size_t which : asked.arrays) {
    Array& array = arrays_[which];
    if (--array.uses > 0) continue;
    const Segment& segment = simulator_.segment(array.segment);
    if (segment.retained) {
      array.segment = simulator_.make_segment();
    } else {
      SKYWARD_CHECK(segment.mapped == 0, "blob {} is written while {} tasks read it",
                    array.id.value, segment.mapped);
    }
    renew(array);
  }
}

void User::renew(Array& array) { array.id = BlobId{next_blob_++}; }

void User::event(const Event& event) {
  SKYWARD_CHECK(!closed_, "{} after the end", event_name(event));
  if (std::holds_alternative<PoolStopping>(event)) stopping_ = true;
  const auto* line = std::get_if<LogLine>(&event);
  if (line == nullptr || line->task == 0) return;
  SKYWARD_CHECK(!done_in_order_.contains(TaskId{line->task}), "a line of task {} after its end",
                line->task);
  const auto found = calls_.find(TaskId{line->task});
  if (found == calls_.end()) return;  // given up before its node said so
  Asked& asked = found->second;
  const auto attempt = static_cast<std::uint32_t>(std::stoul(line->line));
  if (attempt != asked.attempt) asked.lines = 0;
  SKYWARD_CHECK(attempt >= asked.attempt, "task {}", line->task);
  asked.attempt = attempt;
  SKYWARD_CHECK(line->line == fmt::format("{} {}", attempt, asked.lines), "'{}' of task {}",
                line->line, line->task);
  ++asked.lines;
}

void User::close_when_done() {
  if (left_ > 0 || resends_ > 0 || !calls_.empty() || closing_) return;
  simulator_.after(simulator_.random.between(Duration{}, Duration{2s}), [this] { close(); });
}

void User::close() {
  if (std::exchange(closing_, true)) return;
  simulator_.say("the user closes the pool");
  progress_ = simulator_.now();
  pool_.close();
}

void User::closed() {
  SKYWARD_CHECK(opened_, "closed() before opened()");
  SKYWARD_CHECK(!std::exchange(closed_, true), "closed() twice");
  SKYWARD_CHECK(calls_.empty(), "{}", stuck_text());
}

std::string User::stuck_text() const {
  std::string text = fmt::format("{} tasks are not answered", calls_.size());
  for (const auto& [id, asked] : calls_) {
    text += fmt::format(", {} (kind {})", id.value, static_cast<int>(asked.plan.kind));
    if (text.size() > 500) break;
  }
  return text;
}

}  // namespace skyward::sim

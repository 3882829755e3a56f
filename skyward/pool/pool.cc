#include "skyward/pool/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <future>
#include <mutex>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <variant>

#include "skyward/base/check.h"
#include "skyward/base/hash.h"
#include "skyward/call/error.h"
#include "skyward/engine/loop.h"
#include "skyward/engine/loop_access.h"
#include "skyward/engine/loop_choice.h"
#include "skyward/engine/received_blob.h"
#include "skyward/engine/wait_polling.h"
#include "skyward/io/forks.h"
#include "skyward/io/shared_memory.h"
#include "skyward/pool/event_queue.h"
#include "skyward/pool/pace.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/provider_settings.h"
#include "skyward/wire/codec.h"

namespace skyward {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLinkDecisionGrace = 10s;
// A function's body from here on is stored once and shared, not sent inside the call.
constexpr std::size_t kBlobBodyBytes = std::size_t{1} << 20;
// Where runs of one blob begin: vector instructions like whole cache lines.
constexpr std::size_t kRunAlignment = 64;

MachinesLeftError machines_left(const Error& error) {
  return MachinesLeftError(fmt::format("{}\n  hint: {}", error.message, error.hint));
}

// Where nothing can be thrown.
void complain(const MachinesLeftError& error) { fmt::print(stderr, "skyward: {}\n", error.what()); }

[[noreturn]] void throw_not_open() {
  throw NotProvisionedError(
      "the pool is not provisioned: it is not open yet, or it was closed\nhint: use it inside its "
      "`with` block (in C++ between its construction and close())");
}

// Tells the core that its thread only waits.
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

PoolCost sum(const PoolCost& a, const PoolCost& b) {
  return {.total = a.total + b.total,
          .hourly = a.hourly + b.hourly,
          .setup = a.setup + b.setup,
          .useful = a.useful + b.useful,
          .idle = a.idle + b.idle,
          .lost = a.lost + b.lost};
}

Outcome make_outcome(engine::Completion completion) {
  Outcome outcome;
  switch (completion.status) {
    case engine::Completion::Status::ok:
      outcome.status = OutcomeStatus::ok;
      break;
    case engine::Completion::Status::raised:
      outcome.status = OutcomeStatus::raised;
      break;
    case engine::Completion::Status::failed:
      outcome.status = OutcomeStatus::failed;
      break;
  }
  outcome.payload = std::move(completion.payload);
  outcome.error = std::move(completion.error);
  outcome.node = completion.node;
  outcome.worker = completion.worker;
  outcome.instance_id = std::move(completion.instance_id);
  outcome.run_seconds = static_cast<double>(completion.run_ns) * 1e-9;
  outcome.tail = std::move(completion.tail);
  return outcome;
}

}  // namespace

// Shared by the caller's handles and the engine's thread.
struct Handle::State {
  TaskId id;
  std::uint64_t owner = 0;  // process_generation() of the process that has the pool
  std::shared_ptr<const FunctionBody> function;  // where events tell of it
  std::shared_ptr<engine::LoopAccess> loop;
  std::shared_ptr<Pace> pace;

  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> done = false;  // set with the mutex held
  bool taken = false;
  Outcome outcome;
  std::deque<wire::Payload> items;
  std::function<void()> on_done;

  void finish(Outcome result) {
    std::function<void()> callback;
    pace->ended(
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(result.run_seconds)));
    {
      const std::scoped_lock lock(mutex);
      outcome = std::move(result);
      done = true;
      callback = std::move(on_done);
    }
    // Without the mutex: whoever wakes would only wait for it.
    changed.notify_all();
    if (callback) callback();
  }

  // For as long as a quick answer takes; the caller sleeps after that.
  void wait_awake() const {
    if (done || !pace->is_quick()) return;
    const Time limit = engine::Loop::now() + kAwakeWait;
    while (!done && engine::Loop::now() < limit) relax();
  }
};

Handle::State& Handle::state() const {
  if (!state_) {
    throw SkywardError("this handle or future refers to no task: it is empty or was moved from");
  }
  if (io::process_generation() != state_->owner) {
    throw NotProvisionedError(
        "this handle or future belongs to the process that this one was forked from, and its "
        "result arrives there\nhint: wait for it in the parent, or open a pool of its own here");
  }
  return *state_;
}

std::uint64_t Handle::task() const { return state().id.value; }

bool Handle::done() const { return state().done; }

bool Handle::wait(Duration timeout) const {
  State& task = state();
  if (timeout > Duration{}) task.wait_awake();
  std::unique_lock lock(task.mutex);
  return engine::wait_within(lock, task.changed, timeout, [&] { return task.done.load(); });
}

Outcome Handle::take() {
  State& task = state();
  const std::scoped_lock lock(task.mutex);
  if (!task.done) {
    throw SkywardError(
        fmt::format("task {} is not done: wait() comes before take()", task.id.value));
  }
  if (std::exchange(task.taken, true)) {
    throw SkywardError(fmt::format(
        "the result of task {} was already taken: take() and get() return it once", task.id.value));
  }
  return std::move(task.outcome);
}

void Handle::cancel() {
  const State& task = state();
  task.loop->borrow([&task](engine::Loop& loop) { loop.cancel(task.id); });
}

void Handle::on_done(std::function<void()> callback) {
  State& task = state();
  {
    const std::scoped_lock lock(task.mutex);
    if (!task.done) {
      task.on_done = std::move(callback);
      return;
    }
  }
  callback();
}

NextItem Handle::next(wire::Payload& item, Duration timeout) {
  State& task = state();
  std::unique_lock lock(task.mutex);
  const auto ready = [&] { return task.done || !task.items.empty(); };
  if (!engine::wait_within(lock, task.changed, timeout, ready)) return NextItem::time_over;
  if (task.items.empty()) return NextItem::ended;
  item = std::move(task.items.front());
  task.items.pop_front();
  lock.unlock();
  task.loop->borrow([&task](engine::Loop& loop) { loop.item_taken(task.id, 1); });
  return NextItem::item;
}

// The pool's own part: what callers and the engine's thread share.
struct PoolImpl final : engine::Caller {
  const std::uint64_t owner = io::process_generation();
  PoolSpec asked;  // as it was given
  std::unique_ptr<engine::Loop> loop;
  std::shared_ptr<engine::LoopAccess> access;  // to `loop`; set with the mutex held
  std::shared_ptr<io::Arena> arena;
  std::shared_ptr<Pace> pace = std::make_shared<Pace>(engine::Loop::cpu_count());
  std::atomic<std::uint64_t> next_task{1};
  // Of all pools: none takes what another has stored for its own.
  static inline std::atomic<std::uint64_t> next_blob{1};
  std::string job_id;
  std::atomic<bool> content_named = false;  // blobs go to other machines: their content names them

  std::mutex bodies_mutex;
  std::unordered_map<FunctionId, std::weak_ptr<const engine::FunctionRef>> bodies;

  mutable std::mutex mutex;
  std::condition_variable changed;
  enum class Phase : std::uint8_t { closed, opening, active, closing } phase = Phase::closed;
  std::optional<Status> opened_status;
  bool loop_closed = true;
  Status left;  // which machines may not have ended, when it was closed last
  std::atomic<bool> last_choice = true;  // no other provider is tried after this one
  PoolSpec spec;                         // with the provider that it has
  std::size_t chosen = 0;                // ... which has this place among those that were given
  PoolCost spent;  // at providers that were given back, since it was opened last

  std::mutex tasks_mutex;
  std::unordered_map<TaskId, std::shared_ptr<Handle::State>> tasks;

  EventQueue events;

  std::shared_ptr<Handle::State> find(TaskId task, bool forget) {
    const std::scoped_lock lock(tasks_mutex);
    const auto found = tasks.find(task);
    if (found == tasks.end()) return nullptr;
    auto state = found->second;
    if (forget) tasks.erase(found);
    return state;
  }

  static double wall_seconds() { return static_cast<double>(engine::Loop::wall_us()) * 1e-6; }

  static Event task_event(const Handle::State& state, const engine::Completion& completion) {
    const double run_seconds = static_cast<double>(completion.run_ns) * 1e-9;
    if (completion.status == engine::Completion::Status::ok) {
      return TaskFinished{.task = state.id.value,
                          .name = state.function->name,
                          .node = completion.node,
                          .worker = completion.worker,
                          .run_seconds = run_seconds,
                          .timestamp = wall_seconds()};
    }
    const bool raised = completion.status == engine::Completion::Status::raised;
    return TaskFailed{.task = state.id.value,
                      .name = state.function->name,
                      .node = completion.node,
                      .worker = completion.worker,
                      .run_seconds = run_seconds,
                      .reason = raised ? "it raised" : completion.error.message,
                      .timestamp = wall_seconds()};
  }

  // ---- engine::Caller, on the engine's thread
  void complete(TaskId task, engine::Completion completion) override {
    const auto state = find(task, true);
    if (!state) return;
    if (asked.collect_tasks) events.put(task_event(*state, completion));
    state->finish(make_outcome(std::move(completion)));
  }

  void deliver_item(TaskId task, wire::Payload item) override {
    const auto state = find(task, false);
    if (!state) return;
    {
      const std::scoped_lock lock(state->mutex);
      state->items.push_back(std::move(item));
    }
    state->changed.notify_all();
  }

  void retain_blob(const wire::Blob& blob) override {
    // Blobs with an id are those that store() made.
    if (blob.id == BlobId{} || !blob.storage) return;
    auto segment = std::static_pointer_cast<const io::Arena::Segment>(blob.storage);
    std::const_pointer_cast<io::Arena::Segment>(segment)->retained = true;
  }

  void emit(Event event) override {
    if (const auto* bill = std::get_if<CostFinal>(&event)) {
      const std::scoped_lock lock(mutex);
      spent = sum(spent, {.total = bill->total_cost,
                          .setup = bill->setup_cost,
                          .useful = bill->useful_cost,
                          .idle = bill->idle_cost,
                          .lost = bill->lost_cost});
    }
    if (std::holds_alternative<PoolStopped>(event) && !last_choice) return;  // it goes on elsewhere
    if (auto* metrics = std::get_if<Metrics>(&event)) metrics->timestamp = wall_seconds();
    if (auto* started = std::get_if<TaskStarted>(&event)) started->timestamp = wall_seconds();
    events.put(std::move(event));
  }

  void opened(Status status) override {
    const std::scoped_lock lock(mutex);
    opened_status = std::move(status);
    changed.notify_all();
  }

  void closed(Status machines_left) override {
    if (last_choice) events.end();
    const std::scoped_lock lock(mutex);
    loop_closed = true;
    left = std::move(machines_left);
    changed.notify_all();
  }

  // See Pool::hurry().
  void hurry() {
    std::shared_ptr<engine::LoopAccess> closing;
    {
      const std::scoped_lock lock(mutex);
      if (!loop_closed) closing = access;
    }
    if (closing) closing->borrow([](engine::Loop& to) { to.hurry(); });
  }

  // `poll`, for whoever waits for the end: what it throws hurries the end on. Kept is the first.
  std::function<void()> hurrying(const std::function<void()>& poll, std::exception_ptr& thrown) {
    if (!poll) return {};
    return [this, &poll, &thrown] {
      try {
        poll();
      } catch (...) {
        if (!thrown) thrown = std::current_exception();
        hurry();
      }
    };
  }

  // Waits for the engine to be done with everything, then ends its thread. Which machines may be
  // left.
  Status end_loop(const std::function<void()>& poll) {
    Status result;
    {
      std::unique_lock lock(mutex);
      engine::wait_polling(lock, changed, poll, [this] { return loop_closed; });
      result = std::exchange(left, {});
    }
    access->end();
    loop.reset();
    return result;
  }

  void set_closed() {
    events.end();
    const std::scoped_lock lock(mutex);
    phase = Phase::closed;
    changed.notify_all();
  }

  void set_chosen(std::size_t place) {
    const std::scoped_lock lock(mutex);
    chosen = place;
  }

  void begin_opening();
  std::vector<std::size_t> order(const std::vector<PoolSpec>& choices,
                                 const std::function<void()>& poll) const;
  Status open_choice(const PoolSpec& choice, const std::function<void()>& poll);

  PoolCost spent_until_now() const {
    const std::scoped_lock lock(mutex);
    return spent;
  }

  bool is_ours() const { return io::process_generation() == owner; }

  // Calls `use` with the loop of an open pool; false when it is not open.
  template <typename Use>
  bool with_open_loop(Use use) const {
    if (!is_ours()) return false;
    std::shared_ptr<engine::LoopAccess> open;
    {
      const std::scoped_lock lock(mutex);
      if (phase == Phase::active) open = access;
    }
    return open && open->borrow(std::move(use));
  }

  void check_owner() const {
    if (is_ours()) return;
    throw NotProvisionedError(
        "the pool belongs to the process that this one was forked from; open a pool of its own "
        "here");
  }

  std::shared_ptr<engine::LoopAccess> active_loop() const {
    check_owner();
    const std::scoped_lock lock(mutex);
    if (phase != Phase::active) throw_not_open();
    return access;
  }

  wire::Blob make_blob(std::shared_ptr<io::Arena::Segment> segment, std::size_t size);
  wire::Blob store(ByteView bytes);
  std::vector<wire::Buffer> store_together(std::span<const ByteView> runs);
  std::shared_ptr<const engine::FunctionRef> make_ref(const FunctionBody& function);
  void check_place(const Call& call) const;
  std::vector<Handle> submit(std::vector<Call> calls);
};

wire::Blob PoolImpl::make_blob(std::shared_ptr<io::Arena::Segment> segment, std::size_t size) {
  wire::Blob blob{.id = BlobId{next_blob.fetch_add(1)},
                  .size = size,
                  .descriptor = segment->memory->descriptor()};
  if (content_named) {
    const auto digest = sha256({segment->memory->data(), size});
    std::copy_n(digest.begin(), blob.content.size(), blob.content.begin());
  }
  blob.storage = std::move(segment);
  return blob;
}

wire::Blob PoolImpl::store(ByteView bytes) {
  check_owner();
  auto segment = arena->acquire(bytes.size());
  if (!segment) throw_error(segment.error());
  if (const Status filled = (*segment)->memory->fill(bytes); !filled) throw_error(filled.error());
  return make_blob(*std::move(segment), bytes.size());
}

std::vector<wire::Buffer> PoolImpl::store_together(std::span<const ByteView> runs) {
  check_owner();
  std::vector<std::size_t> offsets;
  std::size_t size = 0;
  for (const ByteView run : runs) {
    offsets.push_back(size);
    size += (run.size() + kRunAlignment - 1) / kRunAlignment * kRunAlignment;
  }
  auto segment = arena->acquire(size);
  if (!segment) throw_error(segment.error());
  io::SharedMemory& memory = *(*segment)->memory;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const ByteView run = runs[i];
    if (const Status written = memory.write(offsets[i], run); !written) {
      throw_error(written.error());
    }
    // The memory may be a used one: the same runs must make the same blob.
    const std::size_t end = offsets[i] + run.size();
    const std::size_t next = i + 1 < runs.size() ? offsets[i + 1] : size;
    std::fill_n(memory.data() + end, next - end, std::byte{});
  }
  const wire::Blob blob = make_blob(*std::move(segment), size);
  std::vector<wire::Buffer> buffers;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    buffers.push_back(wire::blob_buffer(blob, offsets[i], runs[i].size()));
  }
  return buffers;
}

// A large body is a blob; it stays the same one for as long as tasks use it.
std::shared_ptr<const engine::FunctionRef> PoolImpl::make_ref(const FunctionBody& function) {
  if (function.bytes.size() < kBlobBodyBytes) {
    return std::make_shared<const engine::FunctionRef>(
        engine::FunctionRef{function.id, wire::small_buffer(function.bytes), function.name});
  }
  if (function.bytes.size() > kMaxFunctionBytes) {
    throw_error({ErrorKind::invalid,
                 fmt::format("{} has {} bytes with what it refers to, more than {}", function.name,
                             function.bytes.size(), kMaxFunctionBytes),
                 "pass large data as arguments, not inside the function"});
  }
  const std::scoped_lock lock(bodies_mutex);
  if (const auto known = bodies.find(function.id); known != bodies.end()) {
    if (auto ref = known->second.lock()) return ref;
  }
  std::erase_if(bodies, [](const auto& entry) { return entry.second.expired(); });
  const wire::Blob blob = store(function.bytes.view);
  retain_blob(blob);  // agents map it
  auto ref = std::make_shared<const engine::FunctionRef>(
      engine::FunctionRef{function.id, wire::blob_buffer(blob, 0, blob.size), function.name});
  bodies[function.id] = ref;
  return ref;
}

void PoolImpl::check_place(const Call& call) const {
  if (!call.function) throw ConfigurationError("the call has no function");
  const auto check = [&](std::string_view what, std::optional<std::uint32_t> asked_for, int there) {
    // Signed, as -1 is what people pass by mistake.
    const auto number = static_cast<std::int32_t>(asked_for.value_or(0));
    if (number >= 0 && number < there) return;
    throw ConfigurationError(
        fmt::format("{} is called on {} {}, but there {} {}; they count from 0",
                    call.function->name, what, number, there == 1 ? "is" : "are", there));
  };
  check("node", call.options.node, asked.nodes);
  check("worker", call.options.worker, workers_per_node(asked));
}

std::vector<Handle> PoolImpl::submit(std::vector<Call> calls) {
  const auto active = active_loop();
  for (const Call& call : calls) {
    check_place(call);
    if (const Status fits = wire::check_limits(call.arguments); !fits) throw_error(fits.error());
  }
  std::vector<std::shared_ptr<Handle::State>> states;
  std::vector<engine::TaskSpec> specs;
  states.reserve(calls.size());
  specs.reserve(calls.size());
  // Calls of one batch mostly share their function.
  const FunctionBody* last_body = nullptr;
  std::shared_ptr<const engine::FunctionRef> last_ref;
  for (Call& call : calls) {
    if (call.function.get() != last_body) {
      last_body = call.function.get();
      last_ref = make_ref(*last_body);
    }
    engine::TaskSpec task;
    task.id = TaskId{next_task.fetch_add(1)};
    task.function = last_ref;
    task.arguments = std::move(call.arguments);
    if (call.options.node) task.node = NodeId{*call.options.node};
    task.worker = call.options.worker;
    task.timeout = call.options.timeout;
    task.stream_window = call.options.stream_window;
    auto state = std::make_shared<Handle::State>();
    state->id = task.id;
    state->owner = owner;
    if (asked.collect_tasks) state->function = call.function;
    state->loop = active;
    state->pace = pace;
    states.push_back(std::move(state));
    specs.push_back(std::move(task));
  }
  {
    const std::scoped_lock lock(tasks_mutex);
    for (const auto& state : states) tasks.emplace(state->id, state);
  }
  pace->began(static_cast<int>(specs.size()));
  const auto send = [&specs](engine::Loop& to) { to.submit(std::move(specs)); };
  if (!active->borrow(send)) {  // closed since we looked
    const std::scoped_lock lock(tasks_mutex);
    for (const auto& state : states) tasks.erase(state->id);
    throw_not_open();
  }
  std::vector<Handle> handles;
  handles.reserve(states.size());
  for (auto& state : states) handles.push_back(Handle(std::move(state)));
  return handles;
}

Pool::Pool(PoolSpec spec) : impl_(std::make_unique<PoolImpl>()) {
  if (const Status valid = validate(spec); !valid) throw_error(valid.error());
  impl_->asked = spec;
  impl_->spec = std::move(spec);
  impl_->arena = io::Arena::create(kArenaKeepBytes);
}

Pool::~Pool() {
  try {
    close();
  } catch (const MachinesLeftError& error) {
    complain(error);
  }
  // NOLINTNEXTLINE(bugprone-unused-return-value): what is in there waits for threads of the parent.
  if (!is_ours()) static_cast<void>(impl_.release());
}

void PoolImpl::begin_opening() {
  check_owner();
  {
    const std::scoped_lock lock(mutex);
    if (phase != Phase::closed) throw ConfigurationError("the pool is open already");
    phase = Phase::opening;
    job_id = engine::Loop::new_job_id();
    spent = {};
  }
  events.open(asked.record_root, job_id);
}

// The choices in the order in which they are tried.
std::vector<std::size_t> PoolImpl::order(const std::vector<PoolSpec>& choices,
                                         const std::function<void()>& poll) const {
  if (choices.size() > 1 && asked.selection != Selection::first) {
    return engine::order_of(asked, engine::best_offers(choices, poll));
  }
  std::vector<std::size_t> as_given(choices.size());
  std::iota(as_given.begin(), as_given.end(), std::size_t{0});
  return as_given;
}

// Fails with everything given back.
Status PoolImpl::open_choice(const PoolSpec& choice, const std::function<void()>& poll) {
  auto provider = provider::make_provider(choice.provider);
  if (!provider) return fail(provider);
  if (Status possible = (*provider)->check(choice); !possible) return possible;
  engine::Options options;
  options.job_id = job_id;
  options.heartbeat_timeout = kHeartbeatTimeout;
  options.workers_per_node = static_cast<std::uint32_t>(workers_per_node(choice));
  const provider::Capabilities capabilities = (*provider)->capabilities();
  options.billing = capabilities.billing;
  options.charges_interval = capabilities.charges_interval;
  options.private_network = capabilities.private_network;
  content_named = !capabilities.descriptors;
  if (!capabilities.descriptors) {
    // The link decides; the core only sees to it that somebody does.
    options.heartbeat_timeout =
        choice.heartbeat_timeout + choice.reconnect_timeout + kLinkDecisionGrace;
    options.heartbeat_interval = choice.heartbeat_timeout / 4;
    options.greet_timeout = capabilities.greet_timeout + kBootstrapTimeout;  // slow uploads
    options.lease = choice.lease;
  }
  {
    const std::scoped_lock lock(mutex);
    spec = choice;
    opened_status.reset();
    loop_closed = false;
    loop = std::make_unique<engine::Loop>(choice, std::move(options), *std::move(provider), *this);
    access = std::make_shared<engine::LoopAccess>(*loop);
  }
  loop->open();
  Status status;
  try {
    std::unique_lock lock(mutex);
    engine::wait_polling(lock, changed, poll, [this] { return opened_status.has_value(); });
    status = *opened_status;
    if (status) {
      last_choice = true;
      phase = Phase::active;
    }
  } catch (...) {
    last_choice = true;
    loop->close();
    std::exception_ptr again;  // of no interest: the first one goes on from here
    if (const Status ended = end_loop(hurrying(poll, again)); !ended) {
      complain(machines_left(ended.error()));
    }
    throw;
  }
  if (status) return status;
  if (const Status ended = end_loop({}); !ended) {
    Error why = status.error();
    why.message += "; " + ended.error().message;
    why.hint = ended.error().hint;
    status = std::unexpected(std::move(why));
  }
  return status;
}

void Pool::open(const std::function<void()>& poll) {
  impl_->begin_opening();
  std::vector<ProviderFailure> failures;
  try {
    std::vector<PoolSpec> choices = choices_of(impl_->asked);
    for (PoolSpec& choice : choices) {
      auto complete = engine::with_settings(choice.provider);
      if (!complete) throw_error(complete.error());
      choice.provider = *std::move(complete);
    }
    const auto label = [&](std::size_t i) { return provider_label(choices[i].provider.name); };
    const std::vector<std::size_t> order = impl_->order(choices, poll);
    for (std::size_t i = 0; i < order.size(); ++i) {
      impl_->last_choice = i + 1 == order.size();
      impl_->set_chosen(order[i]);
      PoolSpec& choice = choices[order[i]];
      if (choice.budget) *choice.budget -= impl_->spent_until_now().total;
      Status status = impl_->open_choice(choice, poll);
      if (status) return;
      failures.push_back({label(order[i]), std::move(status.error())});
      if (impl_->last_choice) break;
      impl_->events.put(ErrorEvent{fmt::format("{} failed: {}; trying {}", label(order[i]),
                                               failures.back().error.message, label(order[i + 1])),
                                   std::nullopt});
    }
  } catch (...) {
    impl_->last_choice = true;
    impl_->set_closed();
    throw;
  }
  impl_->set_closed();
  if (failures.size() == 1) throw_error(failures.front().error);
  throw AllProvidersFailedError(std::move(failures));
}

void Pool::hurry() {
  if (is_ours()) impl_->hurry();
}

void Pool::close(const std::function<void()>& poll) {
  if (!is_ours()) return;
  bool on_loop_thread = false;
  impl_->with_open_loop(
      [&on_loop_thread](engine::Loop& loop) { on_loop_thread = loop.is_this_thread(); });
  if (on_loop_thread) {
    throw SkywardError(
        "close() was called from on_done(), on the thread that does the closing\n"
        "hint: tell another thread to close the pool");
  }
  std::exception_ptr thrown;
  const auto hurrying = impl_->hurrying(poll, thrown);
  Status left;
  {
    std::unique_lock lock(impl_->mutex);
    if (impl_->phase == PoolImpl::Phase::closing) {  // another thread is at it
      engine::wait_polling(lock, impl_->changed, hurrying,
                           [this] { return impl_->phase == PoolImpl::Phase::closed; });
    }
    if (impl_->phase == PoolImpl::Phase::active) {
      impl_->phase = PoolImpl::Phase::closing;
      lock.unlock();
      impl_->loop->close();
      left = impl_->end_loop(hurrying);
      impl_->set_closed();
    }
  }
  if (thrown && !left) complain(machines_left(left.error()));
  if (thrown) std::rethrow_exception(thrown);
  if (!left) throw machines_left(left.error());
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
      calls.back().options.node = static_cast<std::uint32_t>(node);
      calls.back().options.worker = worker;
    }
  }
  return impl_->submit(std::move(calls));
}

wire::Blob Pool::store(ByteView bytes) { return impl_->store(bytes); }

std::vector<wire::Buffer> Pool::store_together(std::span<const ByteView> runs) {
  return impl_->store_together(runs);
}

void Pool::keep(const wire::Blob& blob) {
  impl_->with_open_loop([&blob](engine::Loop& loop) { loop.keep_blob(blob.id, true); });
}

void Pool::forget(const wire::Blob& blob) {
  impl_->with_open_loop([&blob](engine::Loop& loop) { loop.keep_blob(blob.id, false); });
}

ByteView Pool::stored_bytes(const wire::Blob& blob) {
  const auto segment = std::static_pointer_cast<const io::Arena::Segment>(blob.storage);
  return {segment->memory->data(), blob.size};
}

bool Pool::next_events(std::vector<Event>& events, Duration timeout) {
  return is_ours() && impl_->events.take(events, timeout);
}

bool Pool::is_delivered() const { return !is_ours() || impl_->events.is_delivered(); }

void Pool::await_delivery(Duration limit) {
  if (is_ours()) impl_->events.await_delivery(limit);
}

bool Pool::is_ours() const { return impl_->is_ours(); }

bool Pool::is_active() const {
  if (!is_ours()) return false;
  const std::scoped_lock lock(impl_->mutex);
  // The engine closes by itself when the pool's time is over.
  return impl_->phase == PoolImpl::Phase::active && !impl_->loop_closed;
}

int Pool::instance_count() const { return is_active() ? impl_->asked.nodes : 0; }

int Pool::total_slots() const {
  return impl_->asked.nodes * workers_per_node(impl_->asked) * impl_->asked.concurrency;
}

std::uint64_t Pool::tasks_sent() const { return impl_->next_task - 1; }

std::uint64_t Pool::tasks_unfinished() const {
  if (!is_ours()) return 0;
  const std::scoped_lock lock(impl_->tasks_mutex);
  return impl_->tasks.size();
}

PoolCost Pool::cost() const {
  if (!is_ours()) return {};
  const PoolCost before = impl_->spent_until_now();
  std::future<PoolCost> now;
  impl_->with_open_loop([&now](engine::Loop& loop) { now = loop.cost(); });
  return now.valid() ? sum(before, now.get()) : before;
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

SharedBytes map_buffer(const wire::Buffer& buffer) {
  if (!buffer.in_blob()) return buffer.bytes;
  SKYWARD_CHECK(buffer.blob.id == BlobId{}, "only received blobs can be mapped");
  const auto received = std::const_pointer_cast<engine::ReceivedBlob>(
      std::static_pointer_cast<const engine::ReceivedBlob>(buffer.blob.storage));
  auto mapping = received->map(buffer.blob.size);
  if (!mapping) throw_error(mapping.error());
  SKYWARD_CHECK(buffer.offset + buffer.size <= (*mapping)->size());
  const ByteView view((*mapping)->data() + buffer.offset, buffer.size);
  return {*std::move(mapping), view};
}

}  // namespace skyward

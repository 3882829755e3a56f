#include "skyward/pool/compute_pool.h"

#include <errno.h>  // program_invocation_short_name
#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <optional>
#include <system_error>

#include "skyward/base/stderr_line.h"
#include "skyward/call/error.h"
#include "skyward/call/remote_error.h"
#include "skyward/pool/callbacks.h"
#include "skyward/pool/executable.h"
#include "skyward/pool/program_start.h"
#include "skyward/spec/memory_size.h"
#include "skyward/wire/worker_protocol.h"

namespace skyward {
namespace {

template <typename T>
T value_or_throw(Result<T> result) {
  if (!result) throw_error(result.error());
  return *std::move(result);
}

// Blobs are known to one pool only.
std::uint64_t next_store_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

PoolSpec to_spec(const PoolOptions& options) {
  require_init();
  if (!options.image.pip.empty()) {
    throw ConfigurationError(
        "image.pip lists Python packages, but the workers of a C++ pool are C++ programs\nhint: "
        "remove "
        "it, or open the pool from Python");
  }
  PoolSpec spec;
  spec.provider = provider_to_take(options.provider);
  spec.image = options.image;
  spec.image.python.clear();
  spec.nodes = options.nodes;
  spec.machine = options.machine;
  spec.accelerator = options.accelerator.get();
  spec.cpus = options.cpu;
  if (!options.memory.empty()) spec.memory_mb = value_or_throw(parse_memory_mb(options.memory));
  spec.volumes = options.volume;
  spec.spot = options.spot.get();
  spec.max_hourly_cost = options.max_hourly_cost;
  spec.budget = options.budget;
  spec.concurrency = options.concurrency;
  spec.timeout = zero_if_forever(options.timeout);
  spec.env = options.env;
  spec.collect_metrics = options.collect_metrics;
  spec.collect_tasks = options.collect_tasks;
  spec.lease = options.lease;
  spec.heartbeat_timeout = options.heartbeat_timeout;
  spec.reconnect_timeout = options.reconnect_timeout;
  spec.runtime.command = {value_or_throw(this_executable()), "--skyward-worker"};
  spec.runtime.environment = {{wire::kWorkerVariable, program_invocation_short_name}};
  for (const ProviderSpec& other : options.other_providers) {
    spec.other_providers.push_back({.provider = provider_to_take(other), .runtime = spec.runtime});
  }
  spec.selection = value_or_throw(parse_selection(options.selection));
  spec.agent_path = value_or_throw(find_agent());
  spec.record_root = find_record_root();
  return spec;
}

}  // namespace

AcceleratorRequest::AcceleratorRequest(Named named)
    : accelerator_(value_or_throw(checked({.name = std::string(named.name)}))) {}

SpotRequest::SpotRequest(Word word) : spot_(value_or_throw(parse_spot(word.text))) {}

ComputePool::ComputePool(PoolOptions options) : ComputePool(std::move(options), [] {}) {}

ComputePool::ComputePool(PoolOptions options, const std::function<void()>& check)
    : pool_(to_spec(options),
            [](const Outcome& outcome, const std::string& function) {
              return failure_line(outcome, function, &map_buffer);
            }),
      store_id_(next_store_id()),
      ends_with_program_([this] { end_with_program(); }, [this] { pool_.hurry(); }) {
  // The pool has events from the moment it begins to open, which is when it first calls back.
  const auto start_events = [this, &options] {
    if (events_.joinable()) return;
    events_ = std::thread([this, on_event = std::move(options.on_event),
                           display = options.display] { deliver_events(on_event, display); });
  };
  const auto opened = [this] {
    opening_ = false;
    opening_.notify_all();
  };
  try {
    pool_.open([&start_events, &check] {
      start_events();
      throw_if_program_ends();
      check();
    });
    start_events();
    ends_with_program_.note_open();
    opened();
  } catch (...) {
    opened();
    start_events();
    close();
    throw;
  }
}

ComputePool::~ComputePool() {
  try {
    close();
  } catch (const MachinesLeftError& error) {
    write_stderr_line(fmt::format("skyward: {}", error.what()));
  }
  if (!events_.joinable()) return;
  // It is on_event that destroys the pool.
  *destroyed_ = true;
  events_.detach();
}

void ComputePool::close() {
  std::exception_ptr left;
  try {
    pool_.close();
  } catch (const MachinesLeftError&) {
    left = std::current_exception();
  }
  if (!pool_.is_ours()) {  // a forked child has none of the threads
    if (events_.joinable()) events_.detach();
    return;
  }
  if (events_id_ != std::this_thread::get_id()) {
    wait_for_callbacks(pool_.identity());
    const std::scoped_lock lock(joining_);
    if (events_.joinable()) events_.join();
  }
  if (left) std::rethrow_exception(left);
}

// On a thread of its own, while another one ends the program: the opening, where it still goes on,
// sees that and gives up.
void ComputePool::end_with_program() {
  constexpr auto kLastEvents = std::chrono::seconds(2);
  opening_.wait(true);
  try {
    pool_.close();
  } catch (const std::exception& error) {
    write_stderr_line(fmt::format("skyward: {}", error.what()));
  }
  static_cast<void>(delivered_.try_acquire_for(kLastEvents));
}

BlobStore ComputePool::store() {
  return {.put = [this](ByteView bytes) { return pool_.store(bytes); }, .id = store_id_};
}

void ComputePool::deliver_events(const std::function<void(const Event&)>& on_event,
                                 Display display) {
  TerminalView view(display);
  std::vector<Event> events;
  bool complained = false;
  bool destroyed = false;
  destroyed_ = &destroyed;
  events_id_ = std::this_thread::get_id();
  note_events_thread();
  while (pool_.next_events(events, view.pause())) {
    for (const Event& event : events) {
      view.show(event);
      if (!on_event) continue;
      std::string complaint;
      try {
        on_event(event);
      } catch (const std::exception& error) {
        complaint = error.what();
      } catch (...) {
        complaint = "not a std::exception";
      }
      if (destroyed) return;
      if (complaint.empty() || std::exchange(complained, true)) continue;
      complaint = "on_event threw an exception; Skyward keeps calling it: " + complaint;
      if (display == Display::quiet) {
        write_stderr_line("skyward: " + complaint);
      } else {
        view.show(ErrorEvent{complaint, std::nullopt});
      }
    }
    view.tick();
  }
  delivered_.release();
}

}  // namespace skyward

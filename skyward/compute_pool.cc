#include "skyward/compute_pool.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <optional>
#include <system_error>

#include "skyward/error.h"
#include "skyward/executable.h"
#include "skyward/spec/memory_size.h"
#include "skyward/worker.h"

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
  spec.timeout = options.timeout;
  spec.env = options.env;
  spec.collect_metrics = options.collect_metrics;
  spec.lease = options.lease;
  spec.heartbeat_timeout = options.heartbeat_timeout;
  spec.reconnect_timeout = options.reconnect_timeout;
  spec.runtime.command = {value_or_throw(this_executable()), "--skyward-worker"};
  spec.runtime.environment = {{"SKYWARD_WORKER", "1"}};
  for (const ProviderSpec& other : options.other_providers) {
    spec.other_providers.push_back({.provider = provider_to_take(other), .runtime = spec.runtime});
  }
  spec.selection = value_or_throw(parse_selection(options.selection));
  spec.agent_path = value_or_throw(find_agent());
  spec.record_root = find_record_root();
  return spec;
}

}  // namespace

AcceleratorRequest::AcceleratorRequest(const char* name)
    : accelerator_(value_or_throw(checked({.name = name}))) {}

SpotRequest::SpotRequest(const char* word) : spot_(value_or_throw(parse_spot(word))) {}

ComputePool::ComputePool(PoolOptions options)
    : pool_(to_spec(options)),
      store_id_(next_store_id()),
      display_(options.display),
      on_event_(std::move(options.on_event)) {
  // The pool has events from the moment it begins to open, which is when it first calls back.
  const auto start_events = [this] {
    if (!events_.joinable()) events_ = std::thread([this] { deliver_events(); });
  };
  try {
    pool_.open(start_events);
    start_events();
  } catch (...) {
    start_events();
    close();
    throw;
  }
}

ComputePool::~ComputePool() {
  try {
    close();
  } catch (const MachinesLeftError& error) {
    fmt::print(stderr, "skyward: {}\n", error.what());
  }
}

void ComputePool::close() {
  std::exception_ptr left;
  try {
    pool_.close();
  } catch (const MachinesLeftError&) {
    left = std::current_exception();
  }
  // A forked child has no such thread.
  if (events_.joinable()) pool_.is_ours() ? events_.join() : events_.detach();
  if (left) std::rethrow_exception(left);
}

BlobStore ComputePool::store() {
  return {.put = [this](ByteView bytes) { return pool_.store(bytes); }, .id = store_id_};
}

void ComputePool::deliver_events() {
  TerminalView view(display_);
  std::vector<Event> events;
  bool complained = false;
  while (pool_.next_events(events, view.pause())) {
    for (const Event& event : events) {
      view.show(event);
      if (!on_event_) continue;
      std::string complaint;
      try {
        on_event_(event);
      } catch (const std::exception& error) {
        complaint = error.what();
      } catch (...) {
        complaint = "not a std::exception";
      }
      if (complaint.empty() || std::exchange(complained, true)) continue;
      view.show(ErrorEvent{"on_event threw, and goes on being called: " + complaint, std::nullopt});
    }
    view.tick();
  }
}

MultiPool::MultiPool(std::vector<PoolOptions> options) : pools_(options.size()) {
  std::vector<std::exception_ptr> failures(options.size());
  std::vector<std::jthread> threads;  // joined before what they write to goes
  for (std::size_t i = 0; i < options.size(); ++i) {
    threads.emplace_back([this, &options, &failures, i] {
      try {
        pools_[i] = std::make_unique<ComputePool>(std::move(options[i]));
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  }
  threads.clear();
  for (const std::exception_ptr& failure : failures) {
    if (!failure) continue;
    close_all();
    std::rethrow_exception(failure);
  }
}

MultiPool::~MultiPool() { close_all(); }

void MultiPool::close_all() {
  std::vector<std::jthread> threads;
  for (auto& pool : pools_) {
    if (!pool) continue;
    try {
      threads.emplace_back([&pool] { pool.reset(); });
    } catch (const std::system_error&) {  // no more threads: one after the other
      pool.reset();
    }
  }
}

}  // namespace skyward

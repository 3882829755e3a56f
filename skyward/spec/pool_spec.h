#pragma once

// What a user asks for, complete and resolved by the face: nothing in it is looked up later.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/text.h"
#include "skyward/base/time.h"
#include "skyward/spec/accelerator.h"
#include "skyward/spec/image.h"
#include "skyward/spec/link_limits.h"
#include "skyward/spec/spot.h"
#include "skyward/spec/volume.h"

namespace skyward {

// In the id of a pool.
inline constexpr int kJobIdDigits = 8;

// Which cloud, and its constructor's arguments as text.
struct ProviderSpec {
  std::string name = "local";
  std::map<std::string, std::string> settings{};
  std::string setting(const std::string& key) const { return value_at(settings, key); }
  bool operator==(const ProviderSpec&) const = default;
};

inline constexpr std::string_view kAgentWord = "{agent}";

// How a node runs the user's functions.
struct WorkerRuntime {
  // argv of a worker process; the word "{python}" is replaced by the interpreter of the image's
  // environment, and kAgentWord at the beginning by the node's agent.
  std::vector<std::string> command{};
  // Interpreter of an empty image on this machine (the driver's own); "" for workers without
  // Python.
  std::string python{};
  std::map<std::string, std::string> environment{};
  // For nodes that do not share this machine's files: tar files of modules, each named by its
  // content, unpacked there and importable in this order. "{archive}" at the start of a word of
  // `command` becomes the directory of the first.
  std::vector<std::string> archives{};
  std::string uv{};  // this machine's uv, for nodes that have none; empty: not brought along
  bool operator==(const WorkerRuntime&) const = default;
};

// Another provider that the pool's machines may come from, and how its nodes run functions.
struct ProviderChoice {
  ProviderSpec provider{};
  WorkerRuntime runtime{};
  bool operator==(const ProviderChoice&) const = default;
};

// Which of several providers is tried first; the others follow if it fails.
enum class Selection : std::uint8_t {
  first,      // in the order in which they are given
  cheapest,   // by the price of what fits; all are asked
  available,  // in that order, those that have nothing that fits last; all are asked
};

// "first", "cheapest" or "available"; for another word the error names the nearest.
Result<Selection> parse_selection(std::string_view text);
std::string_view to_string(Selection selection);

struct PoolSpec {
  ProviderSpec provider{};
  std::vector<ProviderChoice> other_providers{};
  Selection selection = Selection::first;
  Image image{};
  int nodes = 1;
  // What each machine must have. `cpus` and `memory_mb` are for one worker: a machine whose GPUs
  // are split needs as many times of it. 0: whatever there is.
  std::optional<Accelerator> accelerator{};
  double cpus = 0;
  std::int64_t memory_mb = 0;
  std::string architecture{};  // "x86_64" or "arm64"; empty: that of this program
  std::string machine{};       // the provider's name of the type; empty: chosen by the above
  Spot spot{};
  std::optional<double> max_hourly_cost{};  // dollars an hour, of all machines together
  std::optional<double> budget{};           // dollars, for the whole life of the pool
  std::vector<Volume> volumes{};
  int concurrency = 1;                       // slots per worker
  Duration timeout{};                        // lifetime of the pool's machines
  std::map<std::string, std::string> env{};  // merged over image.env
  bool collect_metrics = true;
  bool collect_tasks = false;  // emit TaskStarted, TaskFinished and TaskFailed
  // Whether a preemption notice launches a replacement at once. A pool of a single call that cannot
  // run again has no use for one.
  bool prepares_successors = true;
  WorkerRuntime runtime{};
  std::string agent_path{};  // the skyward-agent binary to run or to upload
  // ... and those for machines of other architectures, by "x86_64" or "arm64".
  std::map<std::string, std::string> other_agents{};
  std::string record_root{};  // directory for the pool's log files (pool_record.h); empty: none
  // kJobIdDigits hex digits, new at each opening, set by the engine: what a provider makes for the
  // pool is named by them ("aws-1a2b3c4d"), so that its log files and its machines are found by one
  // name.
  std::string job_id{};

  // Of nodes on other machines. Skyward reconnects when nothing arrives for `heartbeat_timeout`; a
  // node that cannot be reached for `reconnect_timeout` more is lost (none: as suits the provider).
  // A machine ends itself when this program has been silent for `lease`.
  Duration heartbeat_timeout = kRemoteHeartbeatTimeout;
  std::optional<Duration> reconnect_timeout{};
  Duration lease = kLease;

  bool operator==(const PoolSpec&) const = default;
};

// The pool with one provider alone, for each of its providers in the order in which they are given.
std::vector<PoolSpec> choices_of(const PoolSpec& spec);

// Workers of each machine: one, or one for each partition of its GPUs.
int workers_per_node(const PoolSpec& spec);

// The architecture of this program and of `agent_path`: "x86_64" or "arm64".
std::string_view own_architecture();
// All agents, that for machines like this one first.
std::vector<std::string> agents_of(const PoolSpec& spec);

// Everything that can be refused before anything is launched.
Status validate(const PoolSpec& spec);

}  // namespace skyward

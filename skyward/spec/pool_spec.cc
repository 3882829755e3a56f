// What a pool may ask for. To add a parameter: a field of PoolSpec in pool_spec.h and its check
// here; in C++ a field of pool/pool_options.h, passed on in pool/compute_pool.cc; in Python
// python/src/spec.cc, and python/skyward/pool/request.py and compute_pool.py; a row in
// docs/guide/parameters.md.

#include "skyward/spec/pool_spec.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "skyward/base/nearest.h"
#include "skyward/spec/json_text.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/provider_settings.h"

namespace skyward {

namespace {

constexpr double kMostCpus = 10000;
constexpr Duration kLeastSilence = std::chrono::milliseconds(10);

Status check_range(std::string_view name, int value, int largest, std::string_view advice) {
  if (value >= 1 && value <= largest) return {};
  return fail(ErrorKind::invalid,
              fmt::format("{}={} is out of range: it must be 1 to {}", name, value, largest),
              std::string(advice));
}

// The limits of silence: they are told to agents in whole milliseconds.
Status check_silence(const PoolSpec& spec) {
  for (const auto& [name, value] :
       {std::pair("heartbeat_timeout", spec.heartbeat_timeout),
        std::pair("reconnect_timeout", spec.reconnect_timeout.value_or(kReconnectTimeout)),
        std::pair("lease", spec.lease)}) {
    if (value >= kLeastSilence && value <= kMostSilence) continue;
    return fail(ErrorKind::invalid,
                fmt::format("{}={:g} s is out of range: it must be {:g} to {:g} s", name,
                            seconds(value), seconds(kLeastSilence), seconds(kMostSilence)),
                "leave it out for a value that suits most networks");
  }
  return {};
}

// Beyond it, whole micro-dollars would not be exact.
constexpr double kMostDollars = 1e9;

// What each machine must have, and what it may cost.
Status check_machine(const PoolSpec& spec) {
  if (spec.accelerator) {
    const auto accelerator = checked(*spec.accelerator);
    if (!accelerator) return fail(accelerator);
  }
  if (!(spec.cpus >= 0 && spec.cpus <= kMostCpus)) {
    return fail(ErrorKind::invalid, fmt::format("cpu={:g} is out of range", spec.cpus),
                "give the processors that each worker needs, for example 4");
  }
  if (spec.memory_mb < 0) {
    return fail(ErrorKind::invalid, fmt::format("memory={} MB is negative", spec.memory_mb),
                "give the memory that each worker needs, for example \"32GB\"");
  }
  if (!spec.architecture.empty() && spec.architecture != "x86_64" && spec.architecture != "arm64") {
    return fail(ErrorKind::invalid,
                fmt::format("architecture=\"{}\" is not known", spec.architecture),
                "choose \"x86_64\" or \"arm64\", or leave it out for this computer's");
  }
  if (spec.max_hourly_cost &&
      !(*spec.max_hourly_cost > 0 && *spec.max_hourly_cost < kMostDollars)) {
    return fail(
        ErrorKind::invalid,
        fmt::format("max_hourly_cost={:g} is not an amount of money", *spec.max_hourly_cost),
        "give dollars an hour for all machines together, or leave it out");
  }
  if (spec.budget && !(*spec.budget > 0 && *spec.budget < kMostDollars)) {
    return fail(ErrorKind::invalid,
                fmt::format("budget={:g} is not an amount of money", *spec.budget),
                "give dollars for all machines over the whole life of the pool, or leave it out");
  }
  if (Status status = validate(spec.spot); !status) return status;
  return validate(spec.volumes);
}

constexpr std::array<std::string_view, 3> kSelections = {"first", "cheapest", "available"};

Status check_runtime(const WorkerRuntime& runtime) {
  if (Status status = validate_environment(runtime.environment, "runtime.environment"); !status) {
    return status;
  }
  if (runtime.command.empty() || runtime.command[0].empty()) {
    return fail(ErrorKind::invalid, "runtime.command is empty: nothing says how to start a worker",
                "give the program and its arguments");
  }
  return {};
}

Status check_provider(const ProviderSpec& provider) {
  if (provider.name.empty()) {
    return fail(ErrorKind::invalid, "no provider is named", "name one, for example \"local\"");
  }
  return validate_settings(provider.name, provider.settings);
}

}  // namespace

Result<Selection> parse_selection(std::string_view text) {
  for (std::size_t i = 0; i < kSelections.size(); ++i) {
    if (kSelections[i] == text) return static_cast<Selection>(i);
  }
  std::string shown;
  append_json_string(shown, text);
  return fail(ErrorKind::invalid, fmt::format("selection={} is not known", shown),
              did_you_mean(text, kSelections) + "choose \"first\", \"cheapest\" or \"available\"");
}

std::string_view to_string(Selection selection) {
  return kSelections[static_cast<std::size_t>(selection)];
}

std::vector<PoolSpec> choices_of(const PoolSpec& spec) {
  PoolSpec alone = spec;
  alone.other_providers.clear();
  std::vector<PoolSpec> choices = {alone};
  for (const ProviderChoice& other : spec.other_providers) {
    alone.provider = other.provider;
    alone.runtime = other.runtime;
    choices.push_back(alone);
  }
  return choices;
}

int workers_per_node(const PoolSpec& spec) {
  return spec.accelerator ? workers_per_node(*spec.accelerator) : 1;
}

std::string_view own_architecture() {
#if defined(__aarch64__)
  return "arm64";
#else
  return "x86_64";
#endif
}

std::vector<std::string> agents_of(const PoolSpec& spec) {
  std::vector<std::string> agents = {spec.agent_path};
  for (const auto& [architecture, path] : spec.other_agents) agents.push_back(path);
  return agents;
}

Status validate(const PoolSpec& spec) {
  if (Status status = check_provider(spec.provider); !status) return status;
  for (const ProviderChoice& other : spec.other_providers) {
    if (Status status = check_provider(other.provider); !status) return status;
    if (Status status = check_runtime(other.runtime); !status) return status;
  }
  if (Status status = check_range("nodes", spec.nodes, kMaxNodes,
                                  "a pool has at least one node; for more, open several pools");
      !status) {
    return status;
  }
  if (Status status =
          check_range("concurrency", spec.concurrency, kMaxConcurrency,
                      "each slot is a process; about one per CPU of a node is a good number");
      !status) {
    return status;
  }
  if (Status status = check_machine(spec); !status) return status;
  if (spec.timeout < Duration::zero()) {
    return fail(ErrorKind::invalid,
                fmt::format("timeout={:g} s is negative: it is the lifetime of the pool's machines",
                            seconds(spec.timeout)),
                "give a number of seconds, or 0 for no limit");
  }
  if (Status status = check_silence(spec); !status) return status;
  if (Status status = validate(spec.image); !status) return status;
  if (Status status = validate_environment(spec.env, "env"); !status) return status;
  if (Status status = check_runtime(spec.runtime); !status) return status;
  if (spec.agent_path.empty()) {
    return fail(ErrorKind::invalid, "agent_path is empty: the skyward-agent program was not found",
                "install skyward again, or give the path of a skyward-agent that you built");
  }
  return {};
}

}  // namespace skyward

#pragma once

// The options of a ComputePool.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/base/forever.h"
#include "skyward/display/terminal_view.h"
#include "skyward/pool/providers.h"
#include "skyward/spec/accelerator.h"
#include "skyward/spec/event.h"
#include "skyward/spec/image.h"
#include "skyward/spec/pool_spec.h"

namespace skyward {

// An accelerator by name ("A100", "H100-NVL"), as made by accelerators.h, or none. An unknown name
// throws ConfigurationError.
class AcceleratorRequest {
 public:
  AcceleratorRequest() = default;
  template <std::convertible_to<std::string_view> Text>
  AcceleratorRequest(const Text& name) : AcceleratorRequest(Named{name}) {}
  AcceleratorRequest(std::nullptr_t) = delete;  // leave it out for none
  AcceleratorRequest(Accelerator accelerator) : accelerator_(std::move(accelerator)) {}
  const std::optional<Accelerator>& get() const { return accelerator_; }

 private:
  struct Named {
    std::string_view name;
  };
  explicit AcceleratorRequest(Named named);

  std::optional<Accelerator> accelerator_;
};

// How to use spot machines: a word of spot.h, their minimum share, or a Spot.
class SpotRequest {
 public:
  SpotRequest() = default;
  template <std::convertible_to<std::string_view> Text>
  SpotRequest(const Text& word) : SpotRequest(Word{word}) {}
  SpotRequest(std::same_as<bool> auto) = delete;  // say "always" or "never"
  SpotRequest(std::nullptr_t) = delete;
  SpotRequest(double least_share) : spot_(Spot::Percent(least_share)) {}
  SpotRequest(Spot spot) : spot_(spot) {}
  const Spot& get() const { return spot_; }

 private:
  struct Word {
    std::string_view text;
  };
  explicit SpotRequest(Word word);

  Spot spot_{};
};

struct PoolOptions {
  std::optional<ProviderSpec> provider = {};  // none: see provider_to_take()
  // Tried when that one has no machines: .other_providers = {sky::AWS{}, sky::SSH{.hosts = {…}}}.
  std::vector<ProviderSpec> other_providers = {};
  // The order in which providers are tried. "first": as given; "cheapest": by what the pool would
  // cost there; "available": as given, but those without a matching offer last.
  std::string selection = "first";
  Image image = {};  // its env and apt; pip is for Python functions and refused here
  int nodes = 1;
  std::string machine = {};  // the provider's name of the type; empty: chosen by the next three
  AcceleratorRequest accelerator = {};
  double cpu = 0;                   // processors that each worker needs; 0: whatever there is
  std::string memory = {};          // memory that each worker needs, for example "32GB"
  std::vector<Volume> volume = {};  // storage to mount
  SpotRequest spot = {};
  std::optional<double> max_hourly_cost = {};  // dollars an hour, of all machines together
  // Dollars for all machines over the life of the pool: before they are spent, it starts no more
  // tasks and releases the machines.
  std::optional<double> budget = {};
  int concurrency = 1;                          // tasks that a worker runs at the same time
  TimeLimit timeout = std::chrono::hours(1);    // lifetime of the pool's machines
  std::map<std::string, std::string> env = {};  // for the workers, over image.env
  Display display = Display::log;
  // Every event, in order, on a thread of its own; see event.h and match.h. What it throws is
  // reported once and dropped. It may close the pool, and may destroy it, after which it gets no
  // more events.
  std::function<void(const Event&)> on_event = {};
  bool collect_metrics = true;
  bool collect_tasks = false;  // events when tasks start, finish and fail
  // For nodes on other machines. After `heartbeat_timeout` without a message, Skyward reconnects; a
  // machine that stays unreachable for `reconnect_timeout` more (12 s; 5 min at Slurm and
  // Kubernetes) is lost and replaced; one that hears nothing from this program for `lease` ends its
  // tasks, and itself where it can.
  TimeLimit lease = std::chrono::minutes(10);
  TimeLimit heartbeat_timeout = std::chrono::seconds(3);
  std::optional<TimeLimit> reconnect_timeout = {};
};

}  // namespace skyward

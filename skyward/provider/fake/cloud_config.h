#pragma once

// What a fake cloud sells, and its faults. All durations are in the cloud's own time.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "skyward/base/time.h"
#include "skyward/spec/cost.h"

namespace skyward::provider::fake {

struct MachineType {
  std::string name{};         // "fake-a100"
  std::string accelerator{};  // as the catalogue has it; empty: none
  double accelerator_memory_gb = 0;
  int devices = 1;
  int cpus = 8;
  double memory_gb = 64;
  MicroDollars on_demand = 0;  // an hour
  MicroDollars spot = 0;       // an hour
};

struct CloudConfig {
  std::vector<MachineType> types{};
  int zones = 2;

  // How many machines of a type there are, in each zone ("fake-a100") or in one
  // ("fake-a100/zone-b"); not named: no limit. `spot_capacity` is how many of them are sold as spot
  // machines.
  std::map<std::string, int> capacity{};
  std::map<std::string, int> spot_capacity{};
  std::optional<int> quota{};  // machines of this account at the same time

  Duration launch_delay =
      std::chrono::seconds(30);  // from the request to running; a third more or less
  Duration end_delay = std::chrono::seconds(5);  // from the request to the end, billed
  double failed_boots = 0;                       // share of machines that terminate instead
  double leaked_disks = 0;                       // share of disks that outlive their machine

  Duration listing_lag{};          // until a listing shows a change
  double requests_per_second = 0;  // 0: any number
  int burst = 10;                  // ... of which so many may come at once
  double lost_replies = 0;         // share of requests that take effect and are not answered
  double server_errors = 0;        // share that fails inside, before or after it took effect

  // So many spot machines, drawn by the seed among the first ones launched, are preempted. The
  // notice comes when the machine has been in use for about `preempt_after` (half more or less).
  int preemptions = 0;
  Duration preempt_after = std::chrono::seconds(60);
  Duration notice = std::chrono::seconds(120);
  std::vector<Duration> storms{};  // at these times all spot machines are preempted

  double price_volatility = 0;  // of spot prices, for each interval
  Duration price_interval = std::chrono::minutes(5);
  BillingRules billing{};

  std::uint64_t seed = 1;
};

}  // namespace skyward::provider::fake

#pragma once

// What the engine's core knows about a pool besides its spec.

#include <cstdint>
#include <string>

#include "skyward/base/time.h"
#include "skyward/spec/cost.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/link_limits.h"

namespace skyward::engine {

struct Options {
  std::string job_id;
  Duration provision_timeout = kProvisionTimeout;  // of each launch

  // Liveness.
  Duration heartbeat_timeout;
  Duration heartbeat_interval = kHeartbeatInterval;
  Duration greet_timeout = kGreetTimeout;
  Duration lease{};  // of a node's agent; zero: it ends with its connection

  // Limits of a node.
  std::uint32_t workers_per_node = 1;
  std::uint32_t max_tasks_given = kMaxTasksGiven;                 // to one node at a time
  std::uint64_t max_kept_function_bytes = kMaxKeptFunctionBytes;  // on one node

  Duration idle_memory = kIdleMemory;  // see Caller::drop_unused_memory()

  // The cloud's bills.
  BillingRules billing{};
  Duration charges_interval{};    // how often the cloud is asked; zero: never
  MicroDollars spent_before = 0;  // of the budget, at other providers
  // How long after the last CostUpdate the next one comes without metrics; zero: it does not.
  Duration cost_interval = 5s;

  bool real_devices = true;  // nodes have the devices that their offers name

  // Between nodes.
  bool private_network = true;  // they alone reach each other by the addresses of instances
  std::string peer_key;  // the secret that agents prove to each other; empty: they do not connect
};

}  // namespace skyward::engine

#pragma once

// What the engine's core is told of a pool besides its spec.

#include <cstdint>
#include <string>

#include "skyward/base/time.h"
#include "skyward/spec/cost.h"
#include "skyward/spec/limits.h"

namespace skyward::engine {

struct Options {
  std::string job_id;

  // Signs of life.
  Duration heartbeat_timeout;
  Duration heartbeat_interval = kHeartbeatInterval;
  Duration greet_timeout = kGreetTimeout;
  Duration lease{};  // of a node's agent; zero: it ends with its connection

  // What a node takes.
  std::uint32_t workers_per_node = 1;
  std::uint32_t max_tasks_given = kMaxTasksGiven;                 // to one node at a time
  std::uint64_t max_kept_function_bytes = kMaxKeptFunctionBytes;  // on one node

  // The cloud's bills.
  BillingRules billing{};
  Duration charges_interval{};  // the cloud is asked so often; zero: never

  // Between nodes.
  bool private_network = true;  // they reach each other by the addresses that instances report
  std::string peer_key;         // what the agents prove to each other; empty: they do not talk
};

}  // namespace skyward::engine

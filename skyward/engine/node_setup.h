#pragma once

// What the loop knows about a node's environment and the core does not. It arrives with on_joined
// and goes to the agent in Configure.

#include <optional>
#include <string>
#include <vector>

#include "skyward/base/time.h"
#include "skyward/wire/message.h"

namespace skyward::engine {

struct NodeSetup {
  std::vector<std::string> worker_command;
  std::string directory;
  std::string bootstrap;
  wire::KeyValues bootstrap_environment;
  std::vector<std::string> end_command;  // run on the machine, ends its cost
  std::string end_script;                // run after the workers have exited
  std::optional<Time> reached_at;        // the machine answered, before its agent did
  std::string preemption;                // where the cloud announces a preemption
};

}  // namespace skyward::engine

#pragma once

// What the loop knows of a node's environment and the core does not: it comes with on_joined, and
// goes to the agent in Configure.

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
  std::vector<std::string> end_command;  // ends the machine's cost, from inside
  std::string end_script;                // run when the workers are gone
  std::optional<Time> reached_at;        // the machine answered, before its agent did
  std::string preemption;                // where the cloud announces that it takes it back
};

}  // namespace skyward::engine

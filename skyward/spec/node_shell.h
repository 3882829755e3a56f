#pragma once

// How a node is reached whose agent is behind a shell.

#include <string>
#include <utility>
#include <vector>

namespace skyward {

// A command of this machine. It takes one more argument, a line that the node's shell runs with the
// command's standard input and output. An empty command: the node is a process of this machine, or
// has no machine just now.
struct NodeShell {
  std::vector<std::string> command{};
  std::vector<std::pair<std::string, std::string>> environment{};  // of the command, here
  std::string directory{};                                         // of the command, here
};

}  // namespace skyward

#pragma once

// Agents of a pool that were lost, or told to end, and have not been seen to end. They may still
// run when their machine is provisioned again, or never went away. The next connection to such a
// machine ends them. Not thread-safe.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "skyward/spec/id.h"

namespace skyward::engine {

class LostAgents {
 public:
  // Only the latest are remembered; earlier ones end when their leases expire.
  static constexpr std::size_t kMost = 64;

  void add(NodeId node, std::uint32_t life) {
    remove(node, life);
    names_.push_back(name(node, life));
    if (names_.size() > kMost) names_.pop_front();
  }
  void remove(NodeId node, std::uint32_t life) { std::erase(names_, name(node, life)); }
  // "NODE.LIFE,NODE.LIFE", as `skyward-agent connect --former` takes it.
  std::string text() const { return fmt::format("{}", fmt::join(names_, ",")); }

 private:
  static std::string name(NodeId node, std::uint32_t life) {
    return fmt::format("{}.{}", node.value, life);
  }
  std::deque<std::string> names_;
};

}  // namespace skyward::engine

#pragma once

// Agents of a pool that were given up, or told to end, and not seen to end: their machines may be
// bought again (or never went away), with them still at work. Whoever connects to such a machine
// next ends them. Not for threads.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "skyward/spec/id.h"

namespace skyward::engine {

class Strays {
 public:
  // Of so many the latest are known; those before end by their leases.
  static constexpr std::size_t kMost = 64;

  void add(NodeId node, std::uint32_t life) {
    remove(node, life);
    places_.push_back(name(node, life));
    if (places_.size() > kMost) places_.pop_front();
  }
  void remove(NodeId node, std::uint32_t life) { std::erase(places_, name(node, life)); }
  // "NODE.LIFE,NODE.LIFE", as `skyward-agent connect --former` takes it.
  std::string text() const { return fmt::format("{}", fmt::join(places_, ",")); }

 private:
  static std::string name(NodeId node, std::uint32_t life) {
    return fmt::format("{}.{}", node.value, life);
  }
  std::deque<std::string> places_;
};

}  // namespace skyward::engine

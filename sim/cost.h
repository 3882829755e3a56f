#pragma once

// The engine's CPU time per task, by the number of nodes: the real core, and nodes that answer at
// once.

#include <string>

namespace skyward::sim {

// One line of JSON for each pool size.
std::string cost_report();

}  // namespace skyward::sim

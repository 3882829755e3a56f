#pragma once

// What a task costs the engine, by the number of nodes: the real core, nodes that answer at once.

#include <string>

namespace skyward::sim {

// One line of JSON for each pool size.
std::string cost_report();

}  // namespace skyward::sim

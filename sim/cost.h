#pragma once

// What tasks and nodes cost the engine, in CPU time and memory: the real core, and nodes that
// answer at once.

#include <cstdint>
#include <string>

namespace skyward::sim {

// JSON. "pools": for each number of nodes, what a task costs when so many `tasks` run, what memory
// a node takes, and by how much the memory has grown from the first tenth of the tasks to the last.
// "queue": a million tasks that wait while all nodes are busy.
std::string cost_report(std::uint64_t tasks);

}  // namespace skyward::sim

#pragma once

// The compute functions of `skyward run`. They run in a worker that is the agent itself
// (`skyward-agent work`), in a directory of the node.

#include <cstdint>
#include <span>
#include <string>

#include "skyward/call/function.h"
#include "skyward/run/order.h"

namespace skyward::run {

// Makes a working directory of the order's entries, runs the command in it, and removes it. The
// first piece says that the command runs: from then on the task is not tried again elsewhere.
void run_command(Sink<Piece>& out, const RunOrder& order, std::span<const std::uint8_t> content);
inline constexpr auto remote_run_command = compute<run_command>;

// Sends a signal to the command of the run on this node and to its children. False if none runs.
bool signal_command(const std::string& id, int number);
inline constexpr auto remote_signal_command = compute<signal_command>;

// For the worker's process: registers both functions in it. `python_path`: what kPython in a
// command stands for.
void register_run_functions(std::string python_path);

}  // namespace skyward::run

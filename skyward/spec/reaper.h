#pragma once

// The command of a reaper (provider/renting/reaping.h), by which an agent recognizes one.

#include <array>

namespace skyward {

inline constexpr std::array kReaperCommand = {"skyward", "reap"};

}  // namespace skyward

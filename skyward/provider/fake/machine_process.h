#pragma once

// The process that plays a fake cloud's machine: it gets the preemption notice, and is killed, with
// everything in it, when the power is cut. Its pid and its other files are in its directory.

#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/time.h"

namespace skyward::provider::fake {

// Capabilities::preemption of these machines: their agents look for this file in their directory.
inline constexpr const char* kNoticeFile = "file:.skyward-notice";

class MachineProcess {
 public:
  // `directory`: where the agent is started; it is the machine's alone.
  explicit MachineProcess(std::string directory) : directory_(std::move(directory)) {}

  // Starts `command` as the machine, unless its power is off.
  std::vector<std::string> command(const std::vector<std::string>& command) const;
  void announce_end(Duration left, std::string_view reason) const;
  // For good. Kills nothing but what command() has started.
  void power_off() const;

 private:
  std::string directory_;
};

}  // namespace skyward::provider::fake

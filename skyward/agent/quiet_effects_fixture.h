#pragma once

// For tests of the core: effects that do nothing. A test overrides those that it is about.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "skyward/agent/core.h"

namespace skyward::agent {

class QuietEffects : public AgentEffects {
 public:
  void send(wire::Message) override {}
  void start_bootstrap(const wire::Configure&) override {}
  void kill_bootstrap() override {}
  void start_worker(SlotId) override {}
  void run(SlotId, const WorkerRun&) override {}
  void interrupt(SlotId, TaskId) override {}
  void withdraw(SlotId, std::span<const TaskId>) override {}
  void warn(SlotId, Duration) override {}
  std::optional<std::uint32_t> take_rest(SlotId, TaskId) override { return 0; }
  void credit(SlotId, TaskId, std::uint32_t) override {}
  void drop_function(SlotId, FunctionId) override {}
  void tell_instance_info(SlotId, const std::string&) override {}
  void stop_worker(SlotId) override {}
  void kill_worker(SlotId) override {}
  void end_machine(std::vector<std::string>) override {}
  void exit(int) override {}
};

}  // namespace skyward::agent

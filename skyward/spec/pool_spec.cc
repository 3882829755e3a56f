#include "skyward/spec/pool_spec.h"

#include <fmt/format.h>

#include "skyward/spec/limits.h"

namespace skyward {

namespace {

Status check_range(std::string_view name, int value, int largest, std::string_view advice) {
  if (value >= 1 && value <= largest) return {};
  return fail(ErrorKind::invalid,
              fmt::format("{}={} is out of range: allowed is 1 to {}", name, value, largest),
              std::string(advice));
}

}  // namespace

Status validate(const PoolSpec& spec) {
  if (spec.provider.name.empty()) {
    return fail(ErrorKind::invalid, "no provider is named", "name one, for example \"local\"");
  }
  if (Status status = check_range("nodes", spec.nodes, kMaxNodes,
                                  "a pool has at least one node; for more, open several pools");
      !status) {
    return status;
  }
  if (Status status =
          check_range("concurrency", spec.concurrency, kMaxConcurrency,
                      "every slot is a process; about one for each CPU of a node is a good number");
      !status) {
    return status;
  }
  if (spec.timeout < Duration::zero()) {
    return fail(ErrorKind::invalid,
                fmt::format("timeout={:g} s is negative: it is the lifetime of the pool's machines",
                            seconds(spec.timeout)),
                "give a number of seconds, or 0 for no limit");
  }
  if (Status status = validate(spec.image); !status) return status;
  if (Status status = validate_environment(spec.env, "env"); !status) return status;
  if (Status status = validate_environment(spec.runtime.environment, "runtime.environment");
      !status) {
    return status;
  }
  if (spec.runtime.command.empty() || spec.runtime.command[0].empty()) {
    return fail(ErrorKind::invalid, "runtime.command is empty: nothing says how to start a worker",
                "give the program and its arguments");
  }
  if (spec.agent_path.empty()) {
    return fail(ErrorKind::invalid, "agent_path is empty: the skyward-agent program was not found",
                "install skyward again, or give the path of a skyward-agent that you built");
  }
  return {};
}

}  // namespace skyward

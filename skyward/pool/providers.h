#pragma once

// Where a pool's machines come from: `.provider = sky::AWS{.region = "eu-west-1"}`. What is left
// out comes from the environment, else from skyward.toml, else is as noted here. A cloud that this
// version does not support is refused when the pool opens, before anything is started.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "skyward/pool/clouds.h"  // IWYU pragma: export
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_spec.h"

namespace skyward {

// The nodes are processes of this machine.
struct Local {
  operator ProviderSpec() const { return {.name = "local", .settings = {}}; }
};

// Existing machines, reached by OpenSSH; each host is one node. Host keys are always verified.
struct SSH {
  std::vector<std::string> hosts{};            // host, user@host or user@host:port
  std::optional<std::string> user{};           // where a host names none
  std::optional<int> port{};                   // the same
  std::optional<std::string> identity_file{};  // besides those in the ssh configuration
  std::vector<std::string> jump{};             // by way of these, in order
  std::optional<std::string> known_hosts{};    // path; empty: the user's own files
  std::optional<std::string> config{};         // instead of ~/.ssh/config
  // "ec2": they are spot machines of EC2, whose preemption notices Skyward listens for.
  std::optional<std::string> preemption{};
  operator ProviderSpec() const;
};

// Nodes that are reached by commands: any command that takes one more argument and runs it in a
// shell there, such as {"podman", "exec", "-i", "c1", "sh", "-c"}. Each command is one node; those
// beyond `nodes` replace lost nodes. This program is copied there and is the worker, so it must be
// able to run there.
struct Command {
  std::vector<std::vector<std::string>> commands{};
  // The address at which the other nodes reach the node of each command; empty: all are on one
  // machine.
  std::vector<std::string> addresses{};
  operator ProviderSpec() const;
};

// The provider of pools that name this one, or none: then $SKYWARD_PROVIDER, else the one in
// skyward.toml, else this machine. $SKYWARD_PROVIDER=local uses this machine instead of every
// cloud. Throws ConfigurationError.
ProviderSpec provider_to_take(const std::optional<ProviderSpec>& named);

// Everything that a provider sells, sorted by device, its count, processors and memory. Asks the
// provider; throws ProvisioningError if that fails. `poll` is called about every 100 ms meanwhile
// and may throw, which ends the waiting.
std::vector<Offer> available_instances(const ProviderSpec& provider,
                                       const std::function<void()>& poll = {});

}  // namespace skyward

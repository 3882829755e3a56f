#pragma once

// The provider of a fake cloud (simulation.h). It works as any cloud's provider does, but its
// machines are processes of this computer, like the local provider's, so that functions really run.
// The accelerators that its machines claim to have do not exist.

#include <functional>
#include <memory>

#include "skyward/provider/fake/simulation.h"
#include "skyward/provider/local/local.h"
#include "skyward/provider/provider.h"
#include "skyward/provider/sweep.h"

namespace skyward::provider::fake {

// A cloud on the real clock, for pools of this process. What its pools write is kept in a directory
// of this user and removed with it; directories that dead processes left there are removed, too.
Result<std::shared_ptr<Simulation>> start_simulation(CloudConfig config, double speed);

// One computer that rents at a fake cloud.
struct ClientComputer {
  std::shared_ptr<Simulation> cloud;
  World world;  // of the cloud's time
  std::string owner = "you";
  LocalSurroundings local{};
};
// Its ledger is kept in `state_directory`.
ClientComputer make_client_computer(std::shared_ptr<Simulation> cloud,
                                    const std::string& state_directory);

std::unique_ptr<Provider> make_fake(const ProviderSpec& spec, ClientComputer computer);
// Setting: "cloud", the name of a Simulation of this process; the others are the local provider's.
Result<std::unique_ptr<Provider>> make_fake(const ProviderSpec& spec);

// Removes what the computer's pools have left behind (provider/sweep.h).
Status sweep(const ClientComputer& computer, const SweepOptions& options,
             const std::function<void(const Swept&)>& tell, Time deadline);

}  // namespace skyward::provider::fake

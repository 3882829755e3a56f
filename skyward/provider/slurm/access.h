#pragma once

// Where Slurm's commands run: here, or on a login node that ssh reaches.

#include <optional>
#include <string>

#include "skyward/provider/slurm/slurm_api.h"
#include "skyward/provider/ssh/command.h"
#include "skyward/provider/world.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider::slurm {

struct Access {
  std::optional<SshTarget> login{};  // none: this computer

  // The way there, for a command or with the commands of slurm/keeper.h.
  Words words_for(const Words& command) const;
  // The same for a command that takes one more word: a line for a shell on a node.
  Words words_to(std::string_view job, std::string_view node) const;
  Runner runner(const World& world) const;
};

// Fails with `invalid` when `login` names no machine.
Result<Access> find_access(const std::string& login);
// Fails with `unsupported` where no login node is set, and this computer is none. Asks Slurm only
// where it is installed and its settings are not where they usually are.
Status is_reachable(const World& world, const ProviderSpec& spec, Time deadline);

// Runs what follows without the marks of the job in which this program may run itself, which srun
// would take for orders, and without SBATCH_CLUSTERS: only one cluster is looked at.
Words outside_jobs();

}  // namespace skyward::provider::slurm

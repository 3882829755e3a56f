#pragma once

// What keeps agents alive at Slurm: the script of a job, whose keeper runs on each of its nodes,
// and the command that reaches one. Pure text.
//
// Slurm kills whatever a step has started when its `srun` ends, an agent's daemon included. So a
// connecting command hands its line to the keeper, and copies what goes in and out.

#include <string>
#include <string_view>

#include "skyward/base/time.h"
#include "skyward/provider/slurm/slurm_api.h"

namespace skyward::provider::slurm {

// A keeper ends when the file `claimed` has not been touched for `limit`, or there is one `over`,
// both in its directory; then it kills whatever it has started. A SIGTERM it passes on to that.
struct KeeperTerms {
  Duration limit{};  // whole minutes
  Duration look_every = std::chrono::seconds(5);
};

// The keeper's directory on the node, for a shell within the job.
inline constexpr std::string_view kKeeperDirectory = "/tmp/skyward-keeper-$(id -u)-$SLURM_JOB_ID";

std::string keeper_script(const KeeperTerms& terms);
// For sbatch: a keeper on each node of the job. The job ends with the last one.
std::string job_script(const KeeperTerms& terms);

// For bash on the node, as the first step of a bootstrap: the agent claims the node from then on.
std::string claim_script();
// Ends the node's keeper.
Words end_words();

// Takes one more word: a line for a shell, which the node's keeper runs. Within the job.
Words call_words();
// The same from a node where Slurm's commands are.
Words srun_words(std::string_view job, std::string_view node);
// The same through a command that takes one line for a shell on the login node: {"ssh", "host"}.
Words call_through(const Words& login, const Words& words);

}  // namespace skyward::provider::slurm

#pragma once

// What keeps agents alive at Slurm: the script of a job, whose keeper runs on each of its nodes,
// and the command that reaches one. Pure text.
//
// Slurm kills whatever a step has started when its `srun` ends, an agent's daemon included. So a
// connecting command hands its line to the keeper, and copies what goes in and out.

#include <string>
#include <string_view>

#include "skyward/provider/keeping/keeping.h"
#include "skyward/provider/slurm/slurm_api.h"

namespace skyward::provider::slurm {

// The keeper's directory on the node, for a shell within the job.
inline constexpr std::string_view kKeeperDirectory = "/tmp/skyward-keeper-$(id -u)-$SLURM_JOB_ID";

// Kills what it has started when it ends. A SIGTERM it passes on to that.
std::string keeper_script(const KeeperTerms& terms);
// For sbatch: a keeper on each node of the job. The job ends with the last one.
std::string job_script(const KeeperTerms& terms);

// Takes one more word: a line for a shell, which the node's keeper runs. Within the job.
Words call_words();
// The same from a node where Slurm's commands are.
Words srun_words(std::string_view job, std::string_view node);

}  // namespace skyward::provider::slurm

#pragma once

// Nodes of a Slurm cluster: the pool submits jobs, and waits in the queue. docs/guide/slurm.md says
// more.
// Made by tools/providers.py from the sheets in skyward/provider; ./dev static compares them.

#include <optional>
#include <string>
#include <vector>

#include "skyward/spec/pool_spec.h"

namespace skyward {

struct Slurm {
  // A partition, or several separated by commas. Default: any that fits.
  std::optional<std::string> partition{};
  // The account that the jobs are charged to. Default: the site's default.
  std::optional<std::string> account{};
  // The quality of service. Default: the site's default.
  std::optional<std::string> qos{};
  // What each node must have, as sbatch takes it: `"gpu:h100:2"`. Default: from the pool's
  // `accelerator`.
  std::optional<std::string> gres{};
  // The longest that a job may run: `"8:00:00"`, `"2-12:00:00"`. Default: from the pool's
  // `timeout`.
  std::optional<std::string> time{};
  // The login node, reached by ssh: `"me@login.example.org"`, or a host of your ssh configuration.
  // Default: your computer.
  std::optional<std::string> login{};
  // Request whole nodes, even if the pool needs less. Default: false.
  std::optional<bool> exclusive{};
  // Further sbatch options, one string each: `"--constraint=a100"`.
  std::optional<std::vector<std::string>> extra{};
  operator ProviderSpec() const;
};

}  // namespace skyward

#pragma once

// A user at a cluster, with everything that pools have there: jobs alone. Their nodes are ended by
// Slurm when their time is over, and by their keepers before that.

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "skyward/provider/marks.h"
#include "skyward/provider/renting/named_account.h"
#include "skyward/provider/slurm/access.h"
#include "skyward/provider/slurm/jobs.h"

namespace skyward::provider::slurm {

class SlurmAccount final : public NamedAccount {
 public:
  // The world outlives this.
  SlurmAccount(const World& world, const Access& access)
      : api_(access.runner(world), command_clock(world),
             access.login ? access.login->text() : std::string()) {}

  Api& api() { return api_; }

  std::string_view provider() const override { return kProvider; }
  std::string_view cloud() const override { return kSlurm; }
  bool machines_end_themselves() const override { return true; }
  Result<SweepAccount> sign_in(Time deadline) override {
    const auto user = api_.user(deadline);
    if (!user) return std::unexpected(to_error(user.error(), "Slurm: the cluster"));
    const std::string account = user->name + "@" + user->cluster;
    return SweepAccount{.owner = owner_digits(account),
                        .account = account,
                        .home_region = user->cluster,
                        .is_clock_unknown = true};
  }
  ApiResult<std::vector<NamedMachine>> machines(Time deadline) override {
    const auto jobs = api_.jobs(deadline);
    if (!jobs) return std::unexpected(jobs.error());
    return machines_of(*jobs, memories_);
  }
  std::vector<SideResourceKind*> kinds() override { return {}; }
  std::unique_ptr<MachineApi> machine_api(const Cluster& cluster) override {
    return std::make_unique<Jobs>(api_, memories_, Mark{.pool = cluster.id});
  }
  // To launch more of them.
  std::unique_ptr<MachineApi> launch_api(const Mark& mark, JobOrder order) {
    return std::make_unique<Jobs>(api_, memories_, mark, std::move(order));
  }

 private:
  Api api_;
  std::map<std::string, JobMemory> memories_;  // of the jobs that this process has seen run
};

}  // namespace skyward::provider::slurm

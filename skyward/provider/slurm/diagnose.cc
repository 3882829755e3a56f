#include "skyward/provider/slurm/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "skyward/provider/renting/findings.h"
#include "skyward/provider/settings.h"
#include "skyward/provider/slurm/partitions.h"
#include "skyward/provider/slurm/slurm_account.h"

namespace skyward::provider::slurm {

Status diagnose(const World& world, const SettingOrigin&,
                const std::function<void(const Finding&)>& tell, Time deadline) {
  const auto spec = with_settings(world, {.name = kProvider, .settings = {}});
  if (!spec) return fail(spec);
  const auto failed = [&](std::string_view what, const Error& why) {
    tell(finding_of(what, why));
    return Status();
  };
  if (const Status here = is_reachable(world, *spec, deadline); !here) {
    return failed("login", here.error());
  }
  const auto access = find_access(spec->setting("login"));
  if (!access) return failed("login", access.error());
  const auto wishes = read_wishes(*spec);
  if (!wishes) return failed("settings", wishes.error());
  SlurmAccount account(world, *access);
  Api& api = account.api();
  const auto user = api.user(deadline);
  tell(finding_of("cluster", user,
                  user ? fmt::format("{} as {}{}", user->cluster, user->name,
                                     access->login ? " through " + access->login->text() : "")
                       : ""));
  if (!user) return {};
  const auto groups = api.node_groups(deadline);
  if (!groups) {
    tell(finding_of("partitions", groups));
    return {};
  }
  std::string names;
  for (const Candidate& candidate : candidates_of(*groups, *wishes, user->cluster)) {
    names += fmt::format("{}{} ({} nodes)", names.empty() ? "" : ", ",
                         candidate.offer.instance_type, candidate.nodes);
  }
  tell({.what = "partitions",
        .good = !names.empty(),
        .detail = names.empty() ? "none accepts jobs" : names,
        .hint = names.empty() ? "'sinfo -s' lists the partitions and their states" : ""});
  const auto jobs = api.jobs(deadline);
  tell(finding_of("jobs", jobs, jobs ? fmt::format("{} of yours", jobs->size()) : ""));
  return {};
}

Status has_credentials(const World& world, Time deadline) {
  return is_reachable(world, with_readable_settings(world, kProvider), deadline);
}

}  // namespace skyward::provider::slurm

#include "skyward/provider/slurm/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "skyward/provider/slurm/keeper.h"

namespace skyward::provider::slurm {

namespace {

using namespace std::chrono_literals;

// How long to look for a cluster when the user names none.
constexpr Duration kShortLook = 10s;

// The names alone: SLURM_CONF says where the cluster's settings are, and stays.
constexpr const char* kOutsideJobs =
    "for name in SBATCH_CLUSTERS $(env | sed -n 's/^\\(SLURM_[A-Z0-9_]*\\)=.*/\\1/p'); do\n"
    "  [ \"$name\" = SLURM_CONF ] || unset \"$name\"\n"
    "done\n"
    "exec \"$@\"";

constexpr const char* kConfigurations[] = {"/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf",
                                           "/run/slurm/conf/slurm.conf",
                                           "/opt/slurm/etc/slurm.conf"};

// What a profile on the login node may say.
Words at_this_cluster(const Words& command) {
  Words out{"env", "-u", "SBATCH_CLUSTERS", "-u", "SLURM_CLUSTERS"};
  out.insert(out.end(), command.begin(), command.end());
  return out;
}

}  // namespace

Words outside_jobs() { return {"sh", "-c", kOutsideJobs, "skyward-outside"}; }

Words Access::words_for(const Words& command) const {
  if (login) return through(ssh_command(*login, {}), at_this_cluster(command));
  Words out = outside_jobs();
  out.insert(out.end(), command.begin(), command.end());
  return out;
}

Words Access::words_to(std::string_view job, std::string_view node) const {
  const Words srun = srun_words(job, node);
  return login ? call_through(ssh_command(*login, {}), at_this_cluster(srun)) : words_for(srun);
}

Runner Access::runner(const World& world) const {
  return [access = *this, run = world.run_with_input](const Words& words, std::string_view input,
                                                      Duration timeout) {
    io::SpawnOptions options;
    options.command = access.words_for(words);
    if (access.login) options.environment = {{"SSH_ASKPASS_REQUIRE", "never"}};
    return run(options, timeout, input);
  };
}

Result<Access> find_access(const std::string& login) {
  if (login.empty()) return Access{};
  auto target = parse_ssh_target(login);
  if (!target) {
    Error why = std::move(target.error());
    why.message = "Slurm: login: " + why.message;
    return std::unexpected(std::move(why));
  }
  return Access{.login = *std::move(target)};
}

// Programs of Slurm may be installed without a cluster, and a cluster may keep its settings
// anywhere, or give them to its computers over the network.
Status is_reachable(const World& world, const ProviderSpec& spec, Time deadline) {
  if (!spec.setting("login").empty()) return {};
  constexpr const char* kHint =
      "run on a login node of the cluster, or name one: login=\"me@login\"";
  if (!has_program(world, "sbatch")) {
    return fail(ErrorKind::unsupported, "Slurm: there is no sbatch on this computer", kHint);
  }
  const bool has_cluster =
      world.variable("SLURM_CONF").has_value() ||
      std::ranges::any_of(kConfigurations, [&](const char* path) { return world.exists(path); });
  if (has_cluster) return {};
  Api api(Access{}.runner(world), command_clock(world));
  const auto user = api.user(std::min(deadline, world.now() + kShortLook));
  if (user) return {};
  return fail(ErrorKind::unsupported,
              "Slurm: this computer is not part of a cluster: " + user.error().message, kHint);
}

}  // namespace skyward::provider::slurm

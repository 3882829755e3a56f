#include "skyward/provider/container/diagnose.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "skyward/provider/container/container_account.h"
#include "skyward/provider/container/wishes.h"
#include "skyward/provider/renting/findings.h"
#include "skyward/provider/settings.h"

namespace skyward::provider::container {

Status diagnose(const World& world, const SettingOrigin&,
                const std::function<void(const Finding&)>& tell, Time deadline) {
  const auto spec = with_settings(world, {.name = kProvider, .settings = {}});
  if (!spec) return fail(spec);
  const auto failed = [&](std::string_view what, const Error& why) {
    tell(finding_of(what, why));
    return Status();
  };
  const auto access = find_access(*spec);
  if (!access) return failed("settings", access.error());
  const auto wishes = read_wishes(*spec);
  if (!wishes) return failed("settings", wishes.error());
  ContainerAccount account(world, *access);
  const auto user = account.sign_in(deadline);
  if (!user) return failed("engine", user.error());
  const EngineHost& host = account.host();
  tell({.what = "engine", .good = true, .detail = account.access().text()});
  tell({.what = "host",
        .good = true,
        .detail = fmt::format("{}: {} processors, {:.1f} GiB", host.name, host.cpus,
                              static_cast<double>(host.memory_mb) / 1024)});
  std::map<std::string, int> gpus;
  for (const HostGpu& gpu : host.gpus) ++gpus[gpu.name];
  std::string listed;
  for (const auto& [model, count] : gpus) {
    listed += fmt::format("{}{} of {}", listed.empty() ? "" : ", ", count, model);
  }
  tell({.what = "GPUs", .good = true, .detail = listed.empty() ? "nvidia-smi lists none" : listed});
  const auto ends = account.api().ends_at_logout(deadline);
  if (ends && *ends) {
    tell({.what = "containers",
          .detail = fmt::format("they end there when your last ssh session does ({})", host.name),
          .hint = "run 'loginctl enable-linger' there"});
  }
  if (is_named_network(wishes->network)) {
    tell(finding_of("network", account.api().network(wishes->network, deadline), wishes->network));
  }
  return {};
}

Status has_credentials(const World& world, Time) {
  const auto access = find_access(with_readable_settings(world, kProvider));
  if (!access) return fail(access);
  return is_reachable(world, *access);
}

}  // namespace skyward::provider::container

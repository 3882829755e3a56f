#include "skyward/provider/verda/verda_account.h"

#include <algorithm>
#include <set>
#include <string>

namespace skyward::provider::verda {

ApiResult<std::vector<SideResource>> VerdaTexts::list(Time deadline) {
  return mapped(api_.texts(path_, deadline),
                [](const NamedText& one) { return SideResource{.id = one.id, .name = one.name}; });
}

ApiResult<std::string> VerdaVolumes::create(const std::string&, Time) {
  return std::unexpected(ApiError{.refusal = Refusal::invalid,
                                  .heard = Heard::not_sent,
                                  .message = "disks come with their machines"});
}

ApiResult<std::vector<SideResource>> VerdaVolumes::list(Time deadline) {
  const auto told = api_.volumes(deadline);
  if (!told) return std::unexpected(told.error());
  std::set<std::string> servers;
  if (std::ranges::any_of(*told, [](const ServerVolume& one) { return !one.server.empty(); })) {
    const auto all = list_servers(api_, deadline);
    if (!all) return std::unexpected(all.error());
    for (const NamedMachine& one : *all) {
      if (one.status.stage != Stage::terminated) servers.insert(one.status.instance.id);
    }
  }
  std::vector<SideResource> out;
  for (const ServerVolume& one : *told) {
    if (!servers.contains(one.server)) out.push_back({.id = one.id, .name = one.name});
  }
  return out;
}

// A refusal may mean that it is being deleted already, to the trash or for good.
ApiResult<void> VerdaVolumes::remove(const std::string& id, Time deadline) {
  auto done = api_.delete_volume(id, deadline);
  if (done || done.error().refusal != Refusal::invalid) return done;
  const auto told = api_.volume(id, deadline);
  if (!told && told.error().refusal == Refusal::not_found) return std::unexpected(told.error());
  if (told && told->ending) done.error().refusal = Refusal::conflict;
  return done;
}

// Listing is what a token is good for: an id that is none is found out by it.
Result<SweepAccount> VerdaAccount::sign_in(Time deadline) {
  const auto told = api_.texts("ssh-keys", deadline);
  if (!told) return std::unexpected(to_error(told.error(), "Verda: listing keys"));
  return sweep_account();
}

}  // namespace skyward::provider::verda

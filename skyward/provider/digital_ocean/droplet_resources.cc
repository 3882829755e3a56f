#include "skyward/provider/digital_ocean/droplet_resources.h"

namespace skyward::provider::digital_ocean {

ApiResult<std::string> SshKeys::create(const std::string& name, Time deadline) {
  return api_.create_ssh_key(name, public_key_, deadline);
}

ApiResult<std::vector<SideResource>> SshKeys::list(Time deadline) {
  return mapped(api_.ssh_keys(deadline),
                [](const SshKey& key) { return SideResource{.id = key.id, .name = key.name}; });
}

ApiResult<void> SshKeys::remove(const std::string& id, Time deadline) {
  return api_.delete_ssh_key(id, deadline);
}

ApiResult<std::string> DropletTags::create(const std::string& name, Time deadline) {
  const auto made = api_.create_tag(name, deadline);
  if (!made) return std::unexpected(made.error());
  return name;
}

ApiResult<std::vector<SideResource>> DropletTags::list(Time deadline) {
  return mapped(api_.tags(deadline),
                [](const std::string& tag) { return SideResource{.id = tag, .name = tag}; });
}

ApiResult<void> DropletTags::remove(const std::string& id, Time deadline) {
  return api_.delete_tag(id, deadline);
}

ApiResult<std::string> Firewalls::create(const std::string& name, Time deadline) {
  return api_.create_firewall(name, tag_, deadline);
}

ApiResult<std::vector<SideResource>> Firewalls::list(Time deadline) {
  return mapped(api_.firewalls(deadline),
                [](const Firewall& one) { return SideResource{.id = one.id, .name = one.name}; });
}

ApiResult<void> Firewalls::remove(const std::string& id, Time deadline) {
  return api_.delete_firewall(id, deadline);
}

}  // namespace skyward::provider::digital_ocean

#pragma once

// What a pool has at DigitalOcean beside droplets: the key that logs in, the tag that names its
// droplets to the firewall, and the firewall.

#include <string>
#include <utility>
#include <vector>

#include "skyward/provider/digital_ocean/digital_ocean_api.h"
#include "skyward/provider/renting/side_resources.h"

namespace skyward::provider::digital_ocean {

class SshKeys final : public SideResourceKind {
 public:
  // `public_key`: of the one to make.
  explicit SshKeys(Api& api, std::string public_key = {})
      : api_(api), public_key_(std::move(public_key)) {}

  std::string_view kind() const override { return "ssh_key"; }
  ApiResult<std::string> create(const std::string& name, Time deadline) override;
  ApiResult<std::vector<SideResource>> list(Time deadline) override;
  ApiResult<void> remove(const std::string& id, Time deadline) override;

 private:
  Api& api_;
  const std::string public_key_;
};

class DropletTags final : public SideResourceKind {
 public:
  explicit DropletTags(Api& api) : api_(api) {}

  std::string_view kind() const override { return "tag"; }
  ApiResult<std::string> create(const std::string& name, Time deadline) override;
  ApiResult<std::vector<SideResource>> list(Time deadline) override;
  ApiResult<void> remove(const std::string& id, Time deadline) override;

 private:
  Api& api_;
};

class Firewalls final : public SideResourceKind {
 public:
  // `tag`: of the droplets behind the one to make.
  explicit Firewalls(Api& api, std::string tag = {}) : api_(api), tag_(std::move(tag)) {}

  std::string_view kind() const override { return "firewall"; }
  ApiResult<std::string> create(const std::string& name, Time deadline) override;
  ApiResult<std::vector<SideResource>> list(Time deadline) override;
  ApiResult<void> remove(const std::string& id, Time deadline) override;

 private:
  Api& api_;
  const std::string tag_;
};

}  // namespace skyward::provider::digital_ocean

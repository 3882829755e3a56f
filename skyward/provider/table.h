#pragma once

// The clouds that this build knows: one row each.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/provider.h"
#include "skyward/provider/sweep.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

// One thing that was looked into when a provider is checked.
struct Finding {
  std::string what{};  // "credentials", "ec2:RunInstances"
  bool good = false;
  std::string detail{};  // never a secret
  std::string hint{};
};
// A setting, and where its value comes from: "$AWS_REGION", "/srv/skyward.toml:3", "default".
struct SettingOrigin {
  std::string name{};
  std::string value{};
  std::string origin{};
  bool trusted = true;  // false: pools refuse it (refuse_untrusted() in settings.h)
};

// Whether pools can be opened there with what is set up on this computer. Fails when it cannot even
// be looked into.
using Diagnose = Status (*)(const World& world, const SettingOrigin& region,
                            const std::function<void(const Finding&)>& tell, Time deadline);

struct TableRow {
  std::string_view name;  // as in ProviderSpec::name
  Result<std::unique_ptr<Provider>> (*make)(const ProviderSpec&);
  Sweep sweep = nullptr;        // null: nothing can be left behind
  Diagnose diagnose = nullptr;  // null: there is nothing to set up
  // What the cloud's own tools are set to on this computer.
  std::vector<SettingOrigin> (*settings)(const World&) = nullptr;
  bool played = false;  // it lives in the program that opens its pools, and nowhere else
};

const std::vector<TableRow>& provider_table();
// Null when there is none of that name.
const TableRow* find_row(std::string_view name);

}  // namespace skyward::provider

#pragma once

// The clouds that this build supports: one row each.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/provider.h"
#include "skyward/provider/renting/rented_cloud.h"
#include "skyward/provider/secrets.h"
#include "skyward/provider/sweep.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

// One result of checking a provider's setup.
struct Finding {
  std::string what{};  // "credentials", "ec2:RunInstances"
  bool good = false;
  std::string detail{};  // never a secret
  std::string hint{};
  ErrorKind kind = ErrorKind::denied;  // why it is not good, or could not be checked
};
// A setting, and where its value comes from: "$AWS_REGION", "/srv/skyward.toml:3", "default".
struct SettingOrigin {
  std::string name{};
  std::string value{};
  std::string origin{};
  bool trusted = true;  // false: pools refuse it (refuse_untrusted() in settings.h)
};

// Checks whether this computer is set up to open pools there. Fails if it cannot be checked.
using Diagnose = Status (*)(const World& world, const SettingOrigin& region,
                            const std::function<void(const Finding&)>& tell, Time deadline);

struct TableRow {
  std::string_view name;  // as in ProviderSpec::name
  // Null where there is a `cloud`.
  Result<std::unique_ptr<Provider>> (*make)(const ProviderSpec&, World) = nullptr;
  Sweep sweep = nullptr;        // null: nothing can be left behind
  Diagnose diagnose = nullptr;  // null: there is nothing to set up
  // Whether this computer has credentials for it, valid or not. Null like `sweep`.
  Status (*credentials)(const World&, Time deadline) = nullptr;
  // What the cloud's own variables and files may hold.
  std::span<const SecretSheet> (*secrets)() = nullptr;
  // The settings of the cloud's own tools on this computer.
  std::vector<SettingOrigin> (*settings)(const World&) = nullptr;
  // The cloud without a pool, for the process that outlives one (renting/reaping.h). Null where no
  // pool needs a reaper (`RentedCloud::needs_reaper()`).
  Result<std::unique_ptr<RentedCloud>> (*cloud)(const ProviderSpec&, World) = nullptr;
  bool simulated = false;  // a simulation inside the program that opens its pools
  // False: no cloud bills its machines, and pools count them as free. A price of 0 in the ledger is
  // then known.
  bool has_prices = true;
};

const std::vector<TableRow>& provider_table();
// Null when there is none of that name.
const TableRow* find_row(std::string_view name);

// make_provider() in another world than this process's: a test's.
Result<std::unique_ptr<Provider>> make_provider(const ProviderSpec& spec, World world);

}  // namespace skyward::provider

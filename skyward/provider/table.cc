#include "skyward/provider/table.h"

#include <fmt/format.h>

#include <utility>

#include "skyward/base/nearest.h"
#include "skyward/io/machine.h"
#include "skyward/provider/aws/aws.h"
#include "skyward/provider/aws/diagnose.h"
#include "skyward/provider/aws/sweep.h"
#include "skyward/provider/command/command.h"
#include "skyward/provider/container/container.h"
#include "skyward/provider/container/diagnose.h"
#include "skyward/provider/container/sweep.h"
#include "skyward/provider/digital_ocean/diagnose.h"
#include "skyward/provider/digital_ocean/digital_ocean.h"
#include "skyward/provider/digital_ocean/droplet_account.h"
#include "skyward/provider/fake/fake.h"
#include "skyward/provider/kubernetes/diagnose.h"
#include "skyward/provider/kubernetes/kubernetes.h"
#include "skyward/provider/kubernetes/sweep.h"
#include "skyward/provider/local/local.h"
#include "skyward/provider/renting/renting.h"
#include "skyward/provider/runpod/diagnose.h"
#include "skyward/provider/runpod/runpod.h"
#include "skyward/provider/runpod/runpod_account.h"
#include "skyward/provider/settings.h"
#include "skyward/provider/slurm/diagnose.h"
#include "skyward/provider/slurm/slurm.h"
#include "skyward/provider/slurm/sweep.h"
#include "skyward/provider/ssh/ssh.h"
#include "skyward/provider/vast/diagnose.h"
#include "skyward/provider/vast/vast.h"
#include "skyward/provider/vast/vast_account.h"
#include "skyward/provider/verda/diagnose.h"
#include "skyward/provider/verda/verda.h"
#include "skyward/provider/verda/verda_account.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::provider {

namespace {

// Of providers that look around for themselves.
template <Result<std::unique_ptr<Provider>> (*make)(const ProviderSpec&)>
Result<std::unique_ptr<Provider>> make_here(const ProviderSpec& spec, World) {
  return make(spec);
}

// Of clouds with a NamedAccount.
using FindAccess = Result<RestAccess> (*)(const World&, const ProviderSpec&);

template <FindAccess find, const auto& provider>
Status is_found(const World& world, Time) {
  const auto access = find(world, with_readable_settings(world, provider));
  if (!access) return fail(access);
  return {};
}

template <typename Account, FindAccess find, const auto& provider>
Status sweep_found(const World& world, const SweepOptions& options,
                   const std::function<void(const Swept&)>& tell, Time deadline) {
  auto access = find(world, with_readable_settings(world, provider));
  if (!access) return fail(access);
  Account account(world, *std::move(access));
  return sweep_named(world, account, options, tell, deadline);
}

}  // namespace

const std::vector<TableRow>& provider_table() {
  static const auto& table = *new const std::vector<TableRow>{
      {.name = "local", .make = make_here<make_local>, .has_prices = false},
      {.name = "ssh", .make = make_here<make_ssh>, .has_prices = false},
      {.name = "command", .make = make_here<make_command>, .has_prices = false},
      {.name = "fake", .make = make_here<fake::make_fake>, .simulated = true},
      {.name = "aws",
       .make = make_aws,
       .sweep = aws::sweep,
       .diagnose = aws::diagnose,
       .credentials = aws::has_credentials,
       .settings = aws::settings_here},
      {.name = "container",
       .make = make_container,
       .sweep = container::sweep,
       .diagnose = container::diagnose,
       .credentials = container::has_credentials,
       .has_prices = false},
      {.name = "digital_ocean",
       .sweep = sweep_found<digital_ocean::DropletAccount, digital_ocean::find_access,
                            digital_ocean::kProvider>,
       .diagnose = digital_ocean::diagnose,
       .credentials = is_found<digital_ocean::find_access, digital_ocean::kProvider>,
       .secrets = digital_ocean::secrets,
       .settings = digital_ocean::settings_here,
       .cloud = make_digital_ocean_cloud},
      {.name = "kubernetes",
       .make = make_kubernetes,
       .sweep = kubernetes::sweep,
       .diagnose = kubernetes::diagnose,
       .credentials = kubernetes::has_credentials,
       .has_prices = false},
      {.name = "runpod",
       .sweep = sweep_found<runpod::RunPodAccount, runpod::find_access, runpod::kProvider>,
       .diagnose = runpod::diagnose,
       .credentials = is_found<runpod::find_access, runpod::kProvider>,
       .secrets = runpod::secrets,
       .cloud = make_runpod_cloud},
      {.name = "slurm",
       .make = make_slurm,
       .sweep = slurm::sweep,
       .diagnose = slurm::diagnose,
       .credentials = slurm::has_credentials,
       .has_prices = false},
      {.name = "vastai",
       .sweep = sweep_found<vast::VastAccount, vast::find_access, vast::kProvider>,
       .diagnose = vast::diagnose,
       .credentials = is_found<vast::find_access, vast::kProvider>,
       .secrets = vast::secrets,
       .cloud = make_vast_cloud},
      {.name = "verda",
       .sweep = sweep_found<verda::VerdaAccount, verda::find_access, verda::kProvider>,
       .diagnose = verda::diagnose,
       .credentials = is_found<verda::find_access, verda::kProvider>,
       .secrets = verda::secrets,
       .cloud = make_verda_cloud},
  };
  return table;
}

const TableRow* find_row(std::string_view name) {
  for (const TableRow& row : provider_table()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

Time Provider::billing_time() const { return io::time_with_sleep(); }

Result<std::unique_ptr<Provider>> make_provider(const ProviderSpec& spec) {
  return make_provider(spec, world_of_this_process());
}

Result<std::unique_ptr<Provider>> make_provider(const ProviderSpec& spec, World world) {
  std::string known;
  std::vector<std::string_view> names;
  for (const ProviderSheet& sheet : provider_sheets()) names.push_back(sheet.name);
  for (const TableRow& row : provider_table()) {
    if (row.name == spec.name) {
      if (row.cloud == nullptr) return row.make(spec, std::move(world));
      auto cloud = row.cloud(spec, world);
      if (!cloud) return fail(cloud);
      return make_renting(std::move(world), *std::move(cloud));
    }
    if (row.simulated) continue;
    names.push_back(row.name);
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", row.name);
  }
  return fail(ErrorKind::invalid, fmt::format("there is no provider named \"{}\"", spec.name),
              did_you_mean(spec.name, names) + "this build of skyward knows " + known);
}

}  // namespace skyward::provider

#include "skyward/cli/clouds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "skyward/cli/pool_names.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::cli {

namespace {

using provider::LedgerPool;
using provider::TableRow;

Result<CloudsHere> cloud_named(const std::string& name) {
  const TableRow* row = provider::find_row(name);
  if (row != nullptr && row->sweep != nullptr) return CloudsHere{.rows = {row}, .in_use = true};
  const auto made = provider::make_provider({.name = name, .settings = {}});
  if (row == nullptr && !made) return fail(made);
  const char* why = row != nullptr && row->simulated
                        ? "exists only inside the program that tests with it"
                        : "uses machines you already have";
  return fail(ErrorKind::invalid, fmt::format("nothing is rented from \"{}\": it {}", name, why),
              "'skyward providers list' shows the providers");
}

}  // namespace

bool takes_region(std::string_view provider) {
  const ProviderSheet* sheet = find_provider_sheet(provider);
  return sheet != nullptr && find_setting(*sheet, "region") != nullptr;
}

Result<CloudsHere> clouds_here(const provider::World& world, const std::string& named,
                               Time deadline) {
  if (!named.empty()) return cloud_named(named);
  const std::vector<LedgerPool> pools = pools_if_readable(world);
  CloudsHere out;
  for (const TableRow& row : provider::provider_table()) {
    if (row.sweep == nullptr) continue;
    const Status found = row.credentials(world, deadline);
    const auto is_there = [&](const LedgerPool& pool) { return pool.provider == row.name; };
    const bool is_open = std::ranges::any_of(
        pools, [&](const LedgerPool& pool) { return is_there(pool) && !pool.closed_s; });
    if (found || is_open) {
      out.rows.push_back(&row);
      const bool proves_nothing = row.name == "container" && !std::ranges::any_of(pools, is_there);
      out.in_use = out.in_use || !proves_nothing;
      continue;
    }
    if (found.error().kind == ErrorKind::unsupported) continue;  // it is not for this computer
    out.without.push_back(find_provider_sheet(row.name)->title);
  }
  if (out.rows.empty()) return std::unexpected(no_credentials(out));
  return out;
}

Error no_credentials(const CloudsHere& clouds) {
  return {ErrorKind::denied,
          fmt::format("this computer has no credentials for {}", fmt::join(clouds.without, ", ")),
          "'skyward providers check aws' says where Skyward looked for them; or name the provider "
          "that you mean"};
}

std::string note_of(const CloudsHere& clouds, std::string_view consequence) {
  if (clouds.without.empty()) return {};
  return fmt::format("no credentials for {}: {}\n", fmt::join(clouds.without, ", "), consequence);
}

}  // namespace skyward::cli

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "skyward/cli/commands.h"
#include "skyward/io/event_loop.h"
#include "skyward/provider/open_pools.h"
#include "skyward/provider/table.h"

namespace skyward::cli {

namespace {

using provider::SweepAction;
using provider::Swept;

std::string text_of(const Swept& swept) {
  const provider::Thing& thing = swept.thing;
  std::string out = fmt::format("{} {} {}", to_string(swept.action), thing.kind, thing.id);
  if (!thing.pool.empty() && thing.pool != thing.id) out += " of pool " + thing.pool;
  if (!thing.region.empty() && thing.region != thing.id) out += " in " + thing.region;
  return out + ": " + swept.why;
}

nlohmann::ordered_json to_json(const Swept& swept) {
  const provider::Thing& thing = swept.thing;
  return {{"action", to_string(swept.action)},
          {"kind", thing.kind},
          {"id", thing.id},
          {"pool", thing.pool},
          {"region", thing.region},
          {"owner", thing.owner},
          {"expires", thing.expires_s},
          {"why", swept.why}};
}

// Where it is not told, Skyward's own settings say where to begin.
Result<std::string> home_region(const provider::World& world, const GcOptions& options) {
  if (!options.regions.empty()) return std::string();
  const auto region = region_of(world, options.provider, "");
  if (!region) return fail(region);
  return region->value;
}

// A ledger that cannot be read knows nobody; the sweep says so.
bool is_known(const provider::World& world, const std::string& id) {
  const auto ledger = provider::read_ledger(world);
  if (!ledger) return false;
  const auto pools = (*ledger)->pools(false);
  return pools && std::ranges::find(*pools, id, &provider::LedgerPool::id) != pools->end();
}

}  // namespace

int collect_garbage(const Streams& streams, const GcOptions& options) {
  const provider::TableRow* row = provider::find_row(options.provider);
  if (row == nullptr || row->sweep == nullptr) {
    const auto made = provider::make_provider({.name = options.provider});
    if (row == nullptr && !made) return complain(streams, made.error());
    return complain(streams, {ErrorKind::invalid,
                              fmt::format("pools of \"{}\" leave nothing behind that could be "
                                          "removed from here",
                                          options.provider),
                              "'skyward providers list' shows the providers"});
  }
  const provider::World world = provider::world_of_this_process();
  provider::SweepOptions sweep{.dry_run = options.dry_run, .regions = options.regions};
  if (!options.pool.empty()) sweep.pool = options.pool;
  const auto region = home_region(world, options);
  if (!region) return complain(streams, region.error());
  sweep.home_region = *region;
  std::map<SweepAction, int> counts;
  const auto tell = [&](const Swept& swept) {
    ++counts[swept.action];
    streams.out << (streams.json ? to_json(swept).dump() : text_of(swept)) << std::endl;
  };
  const Status status = row->sweep(world, sweep, tell, io::EventLoop::now() + options.timeout);
  if (status && counts.empty() && !options.pool.empty() && !is_known(world, options.pool)) {
    return complain(streams, {ErrorKind::invalid,
                              fmt::format("there is no pool \"{}\": this computer has not opened "
                                          "it, and nothing there bears its mark",
                                          options.pool),
                              "'skyward pool list --all' shows the ones there are"});
  }
  streams.err << fmt::format("{} {}, {} kept, {} failed{}\n",
                             counts[SweepAction::removed] + counts[SweepAction::would_remove],
                             options.dry_run ? "would be removed" : "removed",
                             counts[SweepAction::kept], counts[SweepAction::failed],
                             counts[SweepAction::skipped] == 0
                                 ? std::string()
                                 : fmt::format(", {} not looked at", counts[SweepAction::skipped]));
  if (!status) return complain(streams, status.error());
  // Somebody who names a pool wants it gone.
  const bool refused = !options.pool.empty() && !options.dry_run &&
                       counts[SweepAction::kept] + counts[SweepAction::skipped] > 0;
  return counts[SweepAction::failed] > 0 || refused ? 1 : 0;
}

}  // namespace skyward::cli

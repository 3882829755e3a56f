#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "skyward/cli/clouds.h"
#include "skyward/cli/commands.h"
#include "skyward/cli/pool_names.h"
#include "skyward/cli/print_json.h"
#include "skyward/display/display_text.h"
#include "skyward/io/own_process.h"
#include "skyward/provider/open_pools.h"
#include "skyward/provider/table.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::cli {

namespace {

using provider::LedgerPool;
using provider::SweepAction;
using provider::Swept;

// What sweeps have come to.
struct Tally {
  std::map<SweepAction, int> actions{};
  int unfinished = 0;
  int off = 0;  // providers that could not be searched, and need not be
  int overdue = 0;

  int of(SweepAction action) const {
    const auto found = actions.find(action);
    return found == actions.end() ? 0 : found->second;
  }
};

std::string text_of(const Swept& swept) {
  const provider::Resource& resource = swept.resource;
  std::string out = fmt::format("{} {} {}", to_string(swept.action), resource.kind, resource.id);
  if (!resource.pool.empty() && resource.pool != resource.id) out += " of pool " + resource.pool;
  if (!resource.region.empty() && resource.region != resource.id) out += " in " + resource.region;
  return out + ": " + swept.why;
}

nlohmann::ordered_json to_json(const Swept& swept) {
  const provider::Resource& resource = swept.resource;
  return {{"action", to_string(swept.action)},
          {"kind", text_or_null(resource.kind)},
          {"id", text_or_null(resource.id)},
          {"pool", text_or_null(resource.pool)},
          {"region", text_or_null(resource.region)},
          {"owner", text_or_null(resource.owner)},
          {"expires", time_or_null(resource.expires_s)},
          {"why", text_or_null(swept.why)}};
}

// Where it is not told, Skyward's own settings say where to begin. Broken ones must not keep
// machines alive.
std::string home_region(const Streams& streams, const provider::World& world,
                        const provider::TableRow& row, const GcOptions& options) {
  if (!options.regions.empty()) return "";
  const auto region = region_of(world, std::string(row.name), "");
  if (region) return region->value;
  streams.err << fmt::format("skyward: warning: {}; continuing without it\n",
                             printable_text(region.error().message));
  return "";
}

void tell(const Streams& streams, const Swept& swept, Tally& tally) {
  ++tally.actions[swept.action];
  tally.overdue += swept.overdue;
  const bool kept = swept.action == SweepAction::kept && !may_stay(swept.resource.kind);
  tally.unfinished +=
      kept || swept.action == SweepAction::skipped || swept.action == SweepAction::failed;
  if (streams.json) {
    print_json(streams, to_json(swept));
  } else {
    streams.out << printable_line(text_of(swept)) << '\n';
  }
  streams.out.flush();  // each as soon as it is known
}

// What may be left of pools that a program with another version opened; gives how many there are.
// The machines of those whose time is over have terminated themselves, as far as they can.
int tell_unknown(const Streams& streams, const provider::World& world, Tally& tally) {
  int told = 0;
  for (const LedgerPool& pool : pools_if_readable(world)) {
    if (pool.closed_s || provider::find_row(pool.provider) != nullptr) continue;
    const bool is_over = provider::latest_end_s(pool, {}, world.wall_s()) < world.wall_s();
    if (is_over || provider::is_open_here(world, pool.id)) continue;
    ++told;
    tell(streams,
         {.resource = {.kind = "pool", .id = pool.id, .region = pool.region, .pool = pool.id},
          .action = SweepAction::skipped,
          .why = fmt::format("this version of Skyward does not know the provider {}; run 'skyward "
                             "gc' from the environment that opened the pool",
                             pool.provider)},
         tally);
  }
  return told;
}

// Tells what is found; counts it.
Status sweep(const Streams& streams, const provider::TableRow& row, const GcOptions& options,
             Tally& tally) {
  const provider::World world = provider::world_of_this_process();
  provider::SweepOptions wanted{.dry_run = options.dry_run,
                                .regions = options.regions,
                                .is_named = !options.provider.empty()};
  if (!options.pool.empty()) wanted.pool = options.pool;
  wanted.home_region = home_region(streams, world, row, options);
  const auto found = [&](const Swept& swept) {
    tally.off += swept.action == SweepAction::skipped && swept.resource.kind == "provider";
    tell(streams, swept, tally);
  };
  return row.sweep(world, wanted, found, options.deadline);
}

void tell_counts(const Streams& streams, const Tally& tally, bool dry_run) {
  streams.err << fmt::format("{} {}, {} kept, {} failed{}\n",
                             tally.of(SweepAction::removed) + tally.of(SweepAction::would_remove),
                             dry_run ? "would be removed" : "removed", tally.of(SweepAction::kept),
                             tally.of(SweepAction::failed),
                             tally.of(SweepAction::skipped) == 0
                                 ? std::string()
                                 : fmt::format(", {} not checked", tally.of(SweepAction::skipped)));
}

// After everything else; the worst exit code counts.
int complain_of_all(const Streams& streams, const std::vector<Error>& errors) {
  const provider::World world = provider::world_of_this_process();
  int worst = 0;
  for (const Error& error : errors) {
    const bool of_the_ledger = provider::is_of_ledger(world, error);
    worst = std::max(worst,
                     of_the_ledger ? complain_of_ledger(streams, error) : complain(streams, error));
  }
  return worst;
}

// The deadline of the next cloud, where so many are still to be asked: one that does not answer
// leaves time for the others, and one that has much to remove gets more than an equal part.
Time deadline_of_next(Time deadline, std::size_t clouds) {
  const Time now = provider::world_of_this_process().now();
  return clouds <= 1 ? deadline : now + std::max(deadline - now, Duration{}) / 2;
}

// Asks one cloud after the other. A cloud that fails keeps none from being swept.
std::vector<Error> sweep_all(const Streams& streams, const CloudsHere& clouds,
                             const GcOptions& options, Tally& tally) {
  std::vector<Error> errors;
  std::size_t left = clouds.rows.size();
  for (const provider::TableRow* row : clouds.rows) {
    GcOptions there = options;
    there.deadline = deadline_of_next(options.deadline, left--);
    const Status status = sweep(streams, *row, there, tally);
    if (!status) errors.push_back(status.error());
  }
  // After a failure only what was done: no "0 removed" beside an error.
  if (!errors.empty() && !tally.actions.empty()) tell_counts(streams, tally, options.dry_run);
  return errors;
}

// The cloud that the id of a pool names ("verda-1a2b3c4d"); else `otherwise`.
std::string cloud_of_id(std::string_view pool, const std::string& otherwise) {
  const std::string name(pool.substr(0, pool.rfind('-')));
  return pool.contains('-') && provider::find_row(name) != nullptr ? name : otherwise;
}

bool is_cloud(std::string_view pool) {
  const provider::TableRow* row = provider::find_row(cloud_in_name(pool));
  return row != nullptr && row->sweep != nullptr;
}

Error not_all_removed(const Tally& tally) {
  return {ErrorKind::unsupported,
          fmt::format("not everything was removed: {} failed, {} kept, {} not checked",
                      tally.of(SweepAction::failed), tally.of(SweepAction::kept),
                      tally.of(SweepAction::skipped)),
          "the lines on standard output say why"};
}

// Where the user names regions, clouds without any are not asked. Fails if none is left.
Status keep_those_with_regions(CloudsHere& clouds, const GcOptions& options) {
  if (options.regions.empty()) return {};
  const std::string first = provider_label(std::string(clouds.rows.front()->name));
  std::erase_if(clouds.rows,
                [](const provider::TableRow* row) { return !takes_region(row->name); });
  if (!clouds.rows.empty()) return {};
  return fail(ErrorKind::invalid,
              fmt::format("--region does not apply to {}: nothing was searched", first),
              "leave --region out");
}

// One that the ledger has. It is looked for where it is.
std::vector<Error> delete_known(const Streams& streams, const GcOptions& options,
                                const LedgerPool& pool) {
  const provider::World world = provider::world_of_this_process();
  if (!options.regions.empty() &&
      std::ranges::find(options.regions, pool.region) == options.regions.end()) {
    return {{ErrorKind::invalid,
             fmt::format("the pool {} is in {}: nothing of it was removed", pool.id, pool.region),
             "leave --region out"}};
  }
  if (const auto in_use = why_in_use(world, pool); in_use && !options.dry_run) return {*in_use};
  const auto clouds = clouds_here(world, pool.provider, options.deadline);
  if (!clouds) return {clouds.error()};
  GcOptions there = options;
  there.provider = pool.provider;
  there.regions.clear();
  there.pool = pool.id;
  Tally tally;
  std::vector<Error> errors = sweep_all(streams, *clouds, there, tally);
  if (!errors.empty()) return errors;
  const auto ledger = provider::read_ledger(world);
  if (!ledger) return {ledger.error()};
  auto open = (*ledger)->entries(pool.id, true);
  if (!open) return {open.error()};
  std::erase_if(*open, [](const provider::LedgerEntry& entry) { return may_stay(entry.kind); });
  if (!tally.actions.empty()) tell_counts(streams, tally, options.dry_run);
  if (options.dry_run) return {};
  if (open->empty() && tally.unfinished == 0) {
    if (tally.of(SweepAction::kept) == 0) {
      streams.err << fmt::format("nothing is left of the pool {}\n", pool.id);
    }
    return {};
  }
  for (const provider::LedgerEntry& entry : *open) {
    streams.err << fmt::format(
        "the ledger still lists {} {}: the cloud has not confirmed that it is gone\n", entry.kind,
        entry.id.empty() ? "whose request got no answer" : entry.id);
  }
  if (open->empty()) return {not_all_removed(tally)};
  const std::string hint =
      tally.of(SweepAction::skipped) == 0
          ? "run it again in two minutes"
          : fmt::format(
                "the lines on standard output say why; if its machines no longer exist, "
                "'skyward pool forget {}' takes it off the ledger",
                pool.id);
  return {{ErrorKind::unsupported,
           fmt::format("not everything of the pool {} is known to be gone", pool.id), hint}};
}

// A pool that neither the ledger nor the clouds that were searched know.
Error found_nowhere(const std::string& pool, const CloudsHere& searched) {
  Error error{
      ErrorKind::invalid,
      fmt::format("there is no pool \"{}\": this computer has not opened it, and nothing at "
                  "the provider carries its tag",
                  pool),
      "'skyward pool list --all' lists all pools"};
  if (searched.without.empty()) return error;
  error.message = fmt::format(
      "the pool \"{}\" was not found: this computer has not opened it, and nothing carries its tag "
      "at the providers that were searched; not at {}, for which this computer has no credentials",
      pool, fmt::join(searched.without, ", "));
  if (!searched.in_use) error.kind = ErrorKind::denied;
  error.hint = "run it with the credentials of the cloud where the pool is";
  return error;
}

int tell_of_own(const Streams& streams, const std::string& pool) {
  const std::string why =
      "nothing was launched for it: its nodes run on your own machines and end with its program";
  if (streams.json) {
    print_json(streams, to_json({.resource = {.kind = "pool", .id = pool, .pool = pool},
                                 .action = SweepAction::kept,
                                 .why = why}));
  } else {
    streams.err << fmt::format("the pool {}: {}\n", printable_line(pool), printable_line(why));
  }
  return 0;
}

}  // namespace

int collect_garbage(const Streams& streams, const GcOptions& options) {
  io::ignore_write_signals();  // a reader that leaves must not keep machines alive
  // The names of regions say which cloud is meant; most are Amazon's.
  const std::string named =
      options.provider.empty() && !options.regions.empty() ? "aws" : options.provider;
  const provider::World world = provider::world_of_this_process();
  Tally tally;
  const int unknown = named.empty() ? tell_unknown(streams, world, tally) : 0;
  auto clouds = clouds_here(world, named, options.deadline);
  if (!clouds) return complain(streams, clouds.error());
  if (const Status fits = keep_those_with_regions(*clouds, options); !fits) {
    return complain(streams, fits.error());
  }
  streams.err << note_of(*clouds, "not searched");
  if (!options.dry_run) provider::remove_unused_directories(world);
  const std::vector<Error> errors = sweep_all(streams, *clouds, options, tally);
  if (!errors.empty()) return complain_of_all(streams, errors);
  if (tally.off == std::ssize(clouds->rows)) {
    return complain(streams, {ErrorKind::unavailable, "nothing was searched: no provider answered",
                              "'skyward providers list' shows which have credentials"});
  }
  tell_counts(streams, tally, options.dry_run);
  if (tally.of(SweepAction::failed) + tally.overdue + unknown > 0) {
    return complain(streams, not_all_removed(tally));
  }
  // Somebody who schedules this must hear that the variables with the credentials are missing.
  if (!clouds->in_use && tally.actions.empty()) return complain(streams, no_credentials(*clouds));
  return 0;
}

int delete_pool(const Streams& streams, const GcOptions& options) {
  io::ignore_write_signals();
  const provider::World world = provider::world_of_this_process();
  // Of a ledger that cannot be read, the sweep tells.
  const std::vector<LedgerPool> pools = pools_if_readable(world);
  const std::vector<LedgerPool> named = pools_named(pools, options.pool);
  std::vector<Error> errors;
  for (const LedgerPool& pool : named) {
    std::ranges::move(delete_known(streams, options, pool), std::back_inserter(errors));
  }
  if (!named.empty()) return complain_of_all(streams, errors);
  const std::string record = record_named(records(world), pools, options.pool);
  const std::string where = cloud_of_id(options.pool, options.provider);
  CloudsHere recorded;
  if (!record.empty()) {  // it is not in the ledger
    const std::optional<int> opener = opener_of_record(world, record);
    if (opener && !options.dry_run) return complain(streams, still_open(options.pool, *opener));
    const RecordedClouds told = clouds_of_record(world, record);
    if (told.is_all && told.rows.empty() && !is_cloud(options.pool)) {
      return tell_of_own(streams, options.pool);
    }
    recorded.rows = told.rows;
    std::erase_if(recorded.rows, [&](const provider::TableRow* row) {
      return !where.empty() && row->name != where;
    });
  }
  // Of another computer, or of a ledger that is lost: by its marks.
  const bool was_here = !recorded.rows.empty();
  auto clouds = was_here ? recorded : clouds_here(world, where, options.deadline);
  if (!clouds) return complain(streams, clouds.error());
  if (const Status fits = keep_those_with_regions(*clouds, options); !fits) {
    return complain(streams, fits.error());
  }
  const std::string digits = record.empty() ? options.pool : job_of_record(record);
  Tally tally;
  std::size_t left = clouds->rows.size();
  for (const provider::TableRow* row : clouds->rows) {
    GcOptions marked = options;
    marked.deadline = deadline_of_next(options.deadline, left--);
    if (was_here || !where.empty()) marked.provider = std::string(row->name);
    if (was_here || cloud_in_name(options.pool).empty()) {
      marked.pool = fmt::format("{}-{}", row->name, digits);
    }
    const CloudsHere one{.rows = {row}};
    std::ranges::move(sweep_all(streams, one, marked, tally), std::back_inserter(errors));
  }
  if (!errors.empty()) return complain_of_all(streams, errors);
  if (tally.actions.empty() && was_here) {
    (void)complain(
        streams,
        {ErrorKind::lost,
         fmt::format("nothing carries the tag {} at {}, and the ledger does not list this pool",
                     digits, provider_label(std::string(clouds->rows.front()->name))),
         fmt::format("if the pool moved to another region, its tag there is different: 'skyward gc "
                     "--dry-run --provider {}' lists what is there",
                     clouds->rows.front()->name)});
    return 1;
  }
  if (tally.actions.empty()) return complain(streams, found_nowhere(options.pool, *clouds));
  tell_counts(streams, tally, options.dry_run);
  // Somebody who names a pool wants it gone.
  if (tally.unfinished == 0 || options.dry_run) return 0;
  return complain(streams, not_all_removed(tally));
}

}  // namespace skyward::cli

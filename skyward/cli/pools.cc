#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>

#include "skyward/base/utc.h"
#include "skyward/cli/commands.h"
#include "skyward/cli/pool_names.h"
#include "skyward/cli/print_json.h"
#include "skyward/display/display_text.h"
#include "skyward/io/file.h"
#include "skyward/io/private_directory.h"
#include "skyward/provider/open_pools.h"
#include "skyward/provider/renting/reaping.h"
#include "skyward/provider/table.h"
#include "skyward/spec/cost.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::cli {

namespace {

using nlohmann::ordered_json;
using provider::LedgerEntry;
using provider::LedgerPool;

std::string state_of(const provider::World& world, const LedgerPool& pool,
                     const std::vector<LedgerEntry>& entries) {
  if (pool.closed_s) return "closed";
  const bool is_locked = provider::is_open_here(world, pool.id);
  const bool is_over = provider::latest_end_s(pool, {}, world.wall_s()) < world.wall_s();
  if ((is_locked || !is_over) && !host_elsewhere(world, pool).empty()) return "elsewhere";
  if (is_locked) return "open";
  const auto stays = [](const LedgerEntry& entry) { return entry.gone_s || may_stay(entry.kind); };
  return !entries.empty() && std::ranges::all_of(entries, stays) ? "ended" : "left behind";
}

// A pool in a list; of one that has log files only, less is known.
struct PoolRow {
  std::string pool{};      // its name at the cloud, or its id
  std::string job{};       // its id, where it is known
  std::string provider{};  // empty: not known
  std::optional<LedgerPool> at_cloud{};
  std::string state{};
  int machines = 0;
  std::int64_t opened_s = 0;
  std::string record{};   // the path of its directory
  std::string trouble{};  // why what ends its machines gave up
};

ordered_json to_json(const PoolRow& row) {
  return {{"pool", row.pool},
          {"job", text_or_null(row.job)},
          {"provider", text_or_null(row.provider)},
          {"region", row.at_cloud ? text_or_null(row.at_cloud->region) : ordered_json()},
          {"state", row.state},
          {"machines", row.at_cloud ? ordered_json(row.machines) : ordered_json()},
          {"opened", time_or_null(row.opened_s)},
          {"record", text_or_null(row.record)},
          {"trouble", text_or_null(row.trouble)}};
}

// "20240131-235900-1a2b3c4d": when it was opened, and the id of its job.
PoolRow row_of(const provider::World& world, const std::string& record) {
  const auto part = [&](std::size_t begin, std::size_t count) {
    return record.substr(begin, count);
  };
  const auto opened_s = parse_moment(fmt::format("{}-{}-{}T{}:{}:{}Z", part(0, 4), part(4, 2),
                                                 part(6, 2), part(9, 2), part(11, 2), part(13, 2)));
  return {.pool = job_of_record(record),
          .job = job_of_record(record),
          .provider = provider_of_record(world, record),
          .state = opener_of_record(world, record) ? "open" : "recorded",
          .opened_s = opened_s.value_or(0),
          .record = path_of_record(world, record)};
}

int machines_of(const std::vector<LedgerEntry>& entries) {
  int count = 0;
  for (const LedgerEntry& entry : entries) {
    if (entry.kind == "instance" && !entry.gone_s) count += entry.count;
  }
  return count;
}

int not_found(const Streams& streams, const std::string& id) {
  return complain(streams, {ErrorKind::invalid, fmt::format("there is no pool \"{}\" here", id),
                            "'skyward pool list --all' lists all pools"});
}

std::string moment_text(std::int64_t time_s) { return time_s == 0 ? "-" : utc_moment(time_s); }

// Of a machine; empty: not known, or it is no machine. Zero: it is free.
std::optional<MicroDollars> price_of(const LedgerPool& pool, const LedgerEntry& entry) {
  if (entry.kind != "instance") return std::nullopt;
  if (entry.hourly_micro_dollars > 0) return entry.hourly_micro_dollars;
  if (entry.hourly_micro_dollars == provider::kTakenBackFree) return 0;
  const provider::TableRow* row = provider::find_row(pool.provider);
  return row != nullptr && !row->has_prices ? std::optional<MicroDollars>(0) : std::nullopt;
}

// What one pool has cost.
struct CostSoFar {
  CostNow now{};
  int machines = 0;
  bool at_most = false;  // nobody saw how long some machine stood
};

CostSoFar cost_of(const LedgerPool& pool, const std::vector<LedgerEntry>& entries, bool at_work,
                  std::int64_t now_s) {
  CostSoFar out;
  const auto number = [&](const char* setting) {
    const std::string text = pool.setting(setting);
    int value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  };
  BillingRules rules{.least = number(provider::kLeastChargeSetting)};
  if (!pool.setting(provider::kMinimumSetting).empty()) {
    rules.minimum = std::chrono::seconds(number(provider::kMinimumSetting));
  }
  rules.set_increment(number(provider::kBillingSetting));
  CostBook book(rules);
  bool answered = true;
  const auto at = [](std::int64_t time_s) { return Time(std::chrono::seconds(time_s)); };
  for (const LedgerEntry& entry : entries) {
    if (entry.kind != "instance") continue;
    if (!entry.id.empty()) ++out.machines;
    const auto hourly = price_of(pool, entry);
    if (hourly == 0) continue;
    if (entry.id.empty()) {
      answered = answered && entry.gone_s.has_value();
      continue;
    }
    std::optional<MachinePrice> price;
    if (hourly) price = MachinePrice{.hourly = *hourly, .spot = entry.spot};
    book.on_launched(entry.id, 0, at(entry.asked_s), price);
    if (entry.gone_s) {
      book.on_gone(entry.id, at(*entry.gone_s));
      out.at_most = out.at_most || entry.gone_late;
    } else if (!at_work) {
      const std::int64_t end_s = provider::latest_end_s(pool, entry, now_s);
      if (end_s < now_s) book.on_gone(entry.id, at(end_s));
      out.at_most = true;
    }
  }
  out.now = book.now(at(now_s));
  out.now.complete = out.now.complete && answered;
  return out;
}

// Both bounds at once are none.
std::string_view bound_of(const CostSoFar& cost) {
  if (!cost.now.complete) return cost.at_most ? "about " : "at least ";
  return cost.at_most ? "at most " : "";
}

constexpr MicroDollars kShownUnit = 100;  // the last digit of money_text()

std::string shown_text(MicroDollars units) { return money_text(to_dollars(units * kShownUnit)); }

}  // namespace

int list_pools(const Streams& streams, bool all) {
  const provider::World world = provider::world_of_this_process();
  auto ledger = provider::read_ledger(world);
  if (!ledger) return complain_of_ledger(streams, ledger.error());
  const auto pools = (*ledger)->pools(!all);
  if (!pools) return complain_of_ledger(streams, pools.error());
  const std::vector<std::string> logs = records(world);
  std::vector<PoolRow> found;
  for (const LedgerPool& pool : *pools) {
    const auto entries = (*ledger)->entries(pool.id, false);
    if (!entries) return complain_of_ledger(streams, entries.error());
    found.push_back({.pool = pool.id,
                     .job = job_of(pool),
                     .provider = pool.provider,
                     .at_cloud = pool,
                     .state = state_of(world, pool, *entries),
                     .machines = machines_of(*entries),
                     .opened_s = pool.opened_s,
                     .record = path_of_record(world, record_named(logs, {pool}, pool.id)),
                     .trouble = provider::why_reaper_gave_up(world, pool.id)});
  }
  for (const std::string& record : logs) {
    const std::string path = path_of_record(world, record);
    if (std::ranges::find(found, path, &PoolRow::record) != found.end()) continue;
    PoolRow row = row_of(world, record);
    if (all || row.state == "open") found.push_back(std::move(row));
  }
  if (streams.json) {
    for (const PoolRow& row : found) print_json(streams, to_json(row));
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const PoolRow& row : found) {
    const bool there = row.at_cloud.has_value();
    // The digits are others where it has sought machines in several regions.
    const bool plain = row.job.empty() || row.pool.ends_with(row.job);
    rows.push_back({plain ? row.pool : fmt::format("{} ({})", row.pool, row.job),
                    row.provider.empty() ? "-" : row.provider, there ? row.at_cloud->region : "-",
                    row.state, there ? std::to_string(row.machines) : "-",
                    moment_text(row.opened_s)});
  }
  print_table(streams.out, {"POOL", "PROVIDER", "REGION", "STATE", "MACHINES", "OPENED"}, rows);
  if (rows.empty()) streams.err << "no pool of this computer is open\n";
  for (const PoolRow& row : found) {
    if (row.trouble.empty()) continue;
    streams.err << fmt::format(
        "{}: its reaper could not terminate its machines and gave up: {}\n"
        "hint: run 'skyward gc'; until then its machines cost money\n",
        row.pool, row.trouble);
  }
  return 0;
}

namespace {

// What was launched for a pool.
void show_launched(const Streams& streams, const provider::World& world, const LedgerPool& pool,
                   const std::vector<LedgerEntry>& entries, const std::string& record) {
  const std::string state = state_of(world, pool, entries);
  const std::string trouble = provider::why_reaper_gave_up(world, pool.id);
  if (streams.json) {
    ordered_json things = ordered_json::array();
    for (const LedgerEntry& entry : entries) {
      const auto hourly = price_of(pool, entry);
      things.push_back({{"kind", entry.kind},
                        {"id", text_or_null(entry.id)},
                        {"key", entry.key},
                        {"count", entry.count},
                        {"spot", entry.spot},
                        {"instance_type", text_or_null(entry.instance_type)},
                        {"hourly_dollars", hourly ? ordered_json(to_dollars(*hourly)) : nullptr},
                        {"asked", time_or_null(entry.asked_s)},
                        {"gone", entry.gone_s ? ordered_json(*entry.gone_s) : ordered_json()}});
    }
    print_json(streams, ordered_json{{"pool", pool.id},
                                     {"provider", pool.provider},
                                     {"region", text_or_null(pool.region)},
                                     {"state", state},
                                     {"settings", pool.settings},
                                     {"opened", time_or_null(pool.opened_s)},
                                     {"record", text_or_null(record)},
                                     {"trouble", text_or_null(trouble)},
                                     {"things", things}});
    return;
  }
  streams.out << fmt::format(
      "pool      {}\nprovider  {}\nregion    {}\nstate     {}\nopened    {}\n", pool.id,
      pool.provider, pool.region, state, moment_text(pool.opened_s));
  const std::string host = host_elsewhere(world, pool);
  if (!host.empty()) streams.out << fmt::format("computer  {}\n", printable_line(host));
  if (!record.empty()) streams.out << fmt::format("logs      {}\n", record);
  if (!trouble.empty()) streams.out << fmt::format("trouble   {}\n", printable_line(trouble));
  std::vector<std::vector<std::string>> rows;
  for (const LedgerEntry& entry : entries) {
    const auto hourly = price_of(pool, entry);
    rows.push_back({entry.kind, entry.id.empty() ? "(not answered)" : entry.id,
                    entry.instance_type.empty() ? "-" : entry.instance_type,
                    entry.kind != "instance" ? "-"
                    : entry.spot             ? "spot"
                                             : "on demand",
                    hourly ? money_text(to_dollars(*hourly)) : "-", moment_text(entry.asked_s),
                    moment_text(entry.gone_s.value_or(0))});
  }
  print_table(streams.out, {"KIND", "ID", "TYPE", "MARKET", "AN HOUR", "ASKED", "GONE"}, rows);
}

// A pool that has nothing at a cloud: a local one, or one of machines that were there already.
int show_record(const Streams& streams, const provider::World& world, const std::string& record) {
  const PoolRow row = row_of(world, record);
  if (streams.json) {
    print_json(streams, to_json(row));
  } else {
    streams.out << fmt::format(
        "pool      {}\nprovider  {}\nstate     {}\nopened    {}\nlogs      {}\n", row.pool,
        row.provider.empty() ? "-" : row.provider, row.state, moment_text(row.opened_s),
        row.record);
  }
  return 0;
}

}  // namespace

int show_pool(const Streams& streams, const std::string& name) {
  const provider::World world = provider::world_of_this_process();
  auto ledger = provider::read_ledger(world);
  if (!ledger) return complain_of_ledger(streams, ledger.error());
  const auto pools = (*ledger)->pools(false);
  if (!pools) return complain_of_ledger(streams, pools.error());
  const std::string record = record_named(records(world), *pools, name);
  const std::vector<LedgerPool> named = pools_named(*pools, name);
  if (named.empty() && record.empty()) return not_found(streams, name);
  if (named.empty()) return show_record(streams, world, record);
  for (const LedgerPool& pool : named) {
    const auto entries = (*ledger)->entries(pool.id, false);
    if (!entries) return complain_of_ledger(streams, entries.error());
    show_launched(streams, world, pool, *entries, path_of_record(world, record));
  }
  return 0;
}

namespace {

// One object for each line.
void print_lines(const Streams& streams, const std::string& file, std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const ordered_json line = {{"file", file}, {"line", text.substr(0, end)}};
    print_json(streams, line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

int show_logs(const Streams& streams, const std::string& id, std::optional<int> node) {
  const provider::World world = provider::world_of_this_process();
  // Without the ledger, digits are compared.
  const std::vector<LedgerPool> pools = pools_if_readable(world);
  const std::string record = record_named(records(world), pools, id);
  if (record.empty() && pools_named(pools, id).empty()) return not_found(streams, id);
  if (record.empty()) {
    return complain(
        streams, {ErrorKind::invalid, fmt::format("the log files of the pool {} are gone", id),
                  "Skyward keeps those of the newest hundred local pools and hundred others, up to "
                  "5 GB; 'skyward pool get' lists what was launched for it"});
  }
  const std::string directory = path_of_record(world, record);
  const std::string file = node ? fmt::format("node-{}.log", *node) : "pool.log";
  bool any = false;
  for (const std::string& part : {file + ".1", file}) {
    const auto text = io::read_file(directory + "/" + part);
    if (!text) continue;
    any = true;
    if (streams.json) {
      print_lines(streams, part, *text);
    } else {
      streams.out << printable_text(*text);
    }
  }
  if (any) return 0;
  return complain(
      streams, {ErrorKind::invalid, fmt::format("{} has no {}", directory, file),
                "leave --node out, or give the rank of a node whose tasks printed something; what "
                "a command of 'skyward run' prints is not kept"});
}

int show_cost(const Streams& streams, const std::string& id) {
  const provider::World world = provider::world_of_this_process();
  auto ledger = provider::read_ledger(world);
  if (!ledger) return complain_of_ledger(streams, ledger.error());
  const auto pools = (*ledger)->pools(false);
  if (!pools) return complain_of_ledger(streams, pools.error());
  const std::vector<LedgerPool> wanted = id.empty() ? *pools : pools_named(*pools, id);
  if (!id.empty() && wanted.empty()) {
    if (record_named(records(world), *pools, id).empty()) return not_found(streams, id);
    streams.err << fmt::format("nothing was launched for the pool {}\n", id);
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  std::vector<MicroDollars> amounts;
  CostSoFar all;
  for (const LedgerPool& pool : wanted) {
    const auto entries = (*ledger)->entries(pool.id, false);
    if (!entries) return complain_of_ledger(streams, entries.error());
    const bool at_work = provider::is_open_here(world, pool.id);
    const CostSoFar cost = cost_of(pool, *entries, at_work, world.wall_s());
    all.now.complete = all.now.complete && cost.now.complete;
    all.at_most = all.at_most || cost.at_most;
    if (streams.json) {
      print_json(streams, ordered_json{{"pool", pool.id},
                                       {"provider", pool.provider},
                                       {"region", text_or_null(pool.region)},
                                       {"machines", cost.machines},
                                       {"dollars", to_dollars(cost.now.total)},
                                       {"hourly_dollars", to_dollars(cost.now.hourly)},
                                       {"complete", cost.now.complete},
                                       {"at_most", cost.at_most}});
    }
    rows.push_back({pool.id, pool.region, std::to_string(cost.machines),
                    std::string(bound_of(cost)), money_text(to_dollars(cost.now.hourly))});
    amounts.push_back(cost.now.total);
  }
  if (streams.json) return 0;
  amounts = round_parts(amounts, kShownUnit);
  MicroDollars sum = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i][3] += shown_text(amounts[i]);
    sum += amounts[i];
  }
  print_table(streams.out, {"POOL", "REGION", "MACHINES", "COST", "AN HOUR NOW"}, rows);
  streams.err << fmt::format("{}{} for machines (disks and traffic not included)\n", bound_of(all),
                             shown_text(sum));
  if (all.at_most) {
    streams.err << "at most: counts a killed program's machines until they terminate themselves; "
                   "'skyward gc' asks the cloud for the exact time\n";
  }
  return 0;
}

namespace {

// What the ledger lists of a pool, and may still exist.
void tell_forgotten(const Streams& streams, const LedgerPool& pool, const LedgerEntry& entry) {
  const auto hourly = price_of(pool, entry);
  if (streams.json) {
    print_json(streams, ordered_json{{"pool", pool.id},
                                     {"provider", pool.provider},
                                     {"region", text_or_null(pool.region)},
                                     {"kind", entry.kind},
                                     {"id", text_or_null(entry.id)},
                                     {"hourly_dollars",
                                      hourly ? ordered_json(to_dollars(*hourly)) : nullptr}});
    return;
  }
  const std::string what = entry.id.empty() ? "whose request got no answer" : entry.id;
  const std::string where = pool.region.empty() ? "" : " in " + pool.region;
  const std::string price =
      hourly && *hourly > 0 ? fmt::format(" and cost {} an hour", money_text(to_dollars(*hourly)))
                            : "";
  streams.out << printable_line(fmt::format("{} {} of pool {}{} may still exist{}", entry.kind,
                                            what, pool.id, where, price))
              << '\n';
}

Status forget(const provider::World& world, provider::Ledger& ledger, const LedgerPool& pool,
              const std::vector<LedgerEntry>& entries) {
  for (const LedgerEntry& entry : entries) {
    const Status marked = ledger.gone_by(pool.id, entry.id.empty() ? entry.key : entry.id,
                                         provider::latest_end_s(pool, entry, world.wall_s()));
    if (!marked) return marked;
  }
  if (Status closed = ledger.close_pool(pool.id, world.wall_s()); !closed) return closed;
  provider::remove_pool_directory(world, pool.id);
  return {};
}

}  // namespace

int forget_pool(const Streams& streams, const std::string& name, bool agreed) {
  const provider::World world = provider::world_of_this_process();
  auto ledger = provider::open_ledger(world);
  if (!ledger) return complain_of_ledger(streams, ledger.error());
  const auto pools = (*ledger)->pools(false);
  if (!pools) return complain_of_ledger(streams, pools.error());
  std::vector<LedgerPool> named = pools_named(*pools, name);
  if (named.empty()) return not_found(streams, name);
  std::erase_if(named, [](const LedgerPool& pool) { return pool.closed_s.has_value(); });
  if (named.empty()) {
    streams.err << fmt::format("nothing is left of the pool {}\n", printable_line(name));
    return 0;
  }
  for (const LedgerPool& pool : named) {
    if (const auto in_use = why_in_use(world, pool)) return complain(streams, *in_use);
  }
  for (const LedgerPool& pool : named) {
    const auto entries = (*ledger)->entries(pool.id, true);
    if (!entries) return complain_of_ledger(streams, entries.error());
    for (const LedgerEntry& entry : *entries) tell_forgotten(streams, pool, entry);
    if (!agreed) continue;
    const Status forgotten = forget(world, **ledger, pool, *entries);
    if (!forgotten) return complain_of_ledger(streams, forgotten.error());
    streams.err << fmt::format(
        "forgot the pool {}: Skyward no longer looks for anything of it. Machines that still exist "
        "cost money until you terminate them at {}\n",
        pool.id, provider_label(pool.provider));
  }
  if (agreed) return 0;
  return complain(
      streams,
      {ErrorKind::unsupported,
       "nothing was changed: Skyward would no longer look for any of it, and machines that still "
       "exist would cost money until you terminate them yourself",
       fmt::format("look for them at {}; then run 'skyward pool forget {} --yes'",
                   provider_label(named.front().provider), name)});
}

}  // namespace skyward::cli

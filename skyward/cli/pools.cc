#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <ostream>

#include "skyward/cli/commands.h"
#include "skyward/io/file.h"
#include "skyward/io/private_directory.h"
#include "skyward/provider/open_pools.h"
#include "skyward/spec/cost.h"

namespace skyward::cli {

namespace {

using nlohmann::ordered_json;
using provider::LedgerEntry;
using provider::LedgerPool;

std::string moment(std::int64_t time_s) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     std::chrono::sys_seconds(std::chrono::seconds(time_s)));
}

std::string state_of(const provider::World& world, const LedgerPool& pool) {
  if (pool.closed_s) return "closed";
  return provider::is_open_here(world, pool.id) ? "open" : "left behind";
}

// The names of the directories that hold the pools' log files, newest first.
std::vector<std::string> records(const provider::World& world) {
  std::vector<std::string> names;
  for (std::string& name : io::list_directory(provider::state_directory(world))) {
    const bool is_pool = name.size() == 24 && name[8] == '-' && name[15] == '-' &&
                         name.find_first_not_of("0123456789abcdef-") == std::string::npos;
    if (is_pool) names.push_back(std::move(name));
  }
  std::ranges::reverse(names);
  return names;
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
                            "'skyward pool list --all' shows the ones there are"});
}

}  // namespace

int list_pools(const Streams& streams, bool all) {
  const provider::World world = provider::world_of_this_process();
  std::vector<std::vector<std::string>> rows;
  auto ledger = provider::open_ledger(world);
  if (!ledger) return complain(streams, ledger.error());
  const auto pools = (*ledger)->pools(!all);
  if (!pools) return complain(streams, pools.error());
  for (const LedgerPool& pool : *pools) {
    const auto entries = (*ledger)->entries(pool.id, true);
    if (!entries) return complain(streams, entries.error());
    const std::string state = state_of(world, pool);
    if (streams.json) {
      streams.out << ordered_json{{"pool", pool.id},
                                  {"provider", pool.provider},
                                  {"region", pool.region},
                                  {"state", state},
                                  {"machines", machines_of(*entries)},
                                  {"opened", pool.opened_s}}
                         .dump()
                  << '\n';
    }
    rows.push_back({pool.id, pool.provider, pool.region, state,
                    std::to_string(machines_of(*entries)), moment(pool.opened_s)});
  }
  if (all) {
    for (const std::string& name : records(world)) {
      if (streams.json) {
        streams.out << ordered_json{{"record", name}, {"job", name.substr(16)}}.dump() << '\n';
      }
      rows.push_back({name.substr(16), "-", "-", "recorded", "-",
                      fmt::format("{}-{}-{}T{}:{}:{}Z", name.substr(0, 4), name.substr(4, 2),
                                  name.substr(6, 2), name.substr(9, 2), name.substr(11, 2),
                                  name.substr(13, 2))});
    }
  }
  if (streams.json) return 0;
  print_table(streams.out, {"POOL", "PROVIDER", "REGION", "STATE", "MACHINES", "OPENED"}, rows);
  if (rows.empty()) streams.err << "no pool of this computer is open at a cloud\n";
  return 0;
}

int show_pool(const Streams& streams, const std::string& id) {
  const provider::World world = provider::world_of_this_process();
  auto ledger = provider::open_ledger(world);
  if (!ledger) return complain(streams, ledger.error());
  const auto pools = (*ledger)->pools(false);
  if (!pools) return complain(streams, pools.error());
  const auto pool = std::ranges::find(*pools, id, &LedgerPool::id);
  if (pool == pools->end()) return not_found(streams, id);
  const auto entries = (*ledger)->entries(id, false);
  if (!entries) return complain(streams, entries.error());
  if (streams.json) {
    ordered_json things = ordered_json::array();
    for (const LedgerEntry& entry : *entries) {
      things.push_back({{"kind", entry.kind},
                        {"id", entry.id},
                        {"key", entry.key},
                        {"count", entry.count},
                        {"spot", entry.spot},
                        {"instance_type", entry.instance_type},
                        {"hourly_dollars", to_dollars(entry.hourly_micro_dollars)},
                        {"asked", entry.asked_s},
                        {"gone", entry.gone_s ? ordered_json(*entry.gone_s) : ordered_json()}});
    }
    streams.out << ordered_json{{"pool", pool->id},
                                {"provider", pool->provider},
                                {"region", pool->region},
                                {"state", state_of(world, *pool)},
                                {"settings", pool->settings},
                                {"opened", pool->opened_s},
                                {"things", things}}
                       .dump()
                << '\n';
    return 0;
  }
  streams.out << fmt::format(
      "pool      {}\nprovider  {}\nregion    {}\nstate     {}\nopened    {}\n", pool->id,
      pool->provider, pool->region, state_of(world, *pool), moment(pool->opened_s));
  std::vector<std::vector<std::string>> rows;
  for (const LedgerEntry& entry : *entries) {
    rows.push_back({entry.kind, entry.id.empty() ? "(not answered)" : entry.id,
                    entry.instance_type.empty() ? "-" : entry.instance_type,
                    entry.kind != "instance" ? "-"
                    : entry.spot             ? "spot"
                                             : "on demand",
                    moment(entry.asked_s), entry.gone_s ? moment(*entry.gone_s) : "-"});
  }
  print_table(streams.out, {"KIND", "ID", "TYPE", "MARKET", "ASKED", "GONE"}, rows);
  return 0;
}

int show_logs(const Streams& streams, const std::string& id, std::optional<int> node) {
  const provider::World world = provider::world_of_this_process();
  const std::vector<std::string> names = records(world);
  const auto found = std::ranges::find_if(
      names, [&](const std::string& name) { return name == id || name.ends_with("-" + id); });
  if (found == names.end()) return not_found(streams, id);
  const std::string directory = provider::state_directory(world) + "/" + *found;
  const std::string file = node ? fmt::format("node-{}.log", *node) : "pool.log";
  bool any = false;
  for (const std::string& part : {file + ".1", file}) {
    const auto text = io::read_file(directory + "/" + part);
    if (!text) continue;
    any = true;
    streams.out << *text;
  }
  if (any) return 0;
  return complain(streams, {ErrorKind::invalid, fmt::format("{} has no {}", directory, file),
                            "leave --node out, or give the rank of a node that printed something"});
}

int show_cost(const Streams& streams, const std::string& id) {
  const provider::World world = provider::world_of_this_process();
  auto ledger = provider::open_ledger(world);
  if (!ledger) return complain(streams, ledger.error());
  const auto pools = (*ledger)->pools(false);
  if (!pools) return complain(streams, pools.error());
  std::vector<std::vector<std::string>> rows;
  MicroDollars all = 0;
  for (const LedgerPool& pool : *pools) {
    if (!id.empty() && pool.id != id) continue;
    const auto entries = (*ledger)->entries(pool.id, false);
    if (!entries) return complain(streams, entries.error());
    CostBook book;
    int machines = 0;
    const auto at = [](std::int64_t time_s) { return Time(std::chrono::seconds(time_s)); };
    for (const LedgerEntry& entry : *entries) {
      if (entry.kind != "instance" || entry.id.empty()) continue;
      ++machines;
      std::optional<MachinePrice> price;
      if (entry.hourly_micro_dollars > 0) {
        price = MachinePrice{.hourly = entry.hourly_micro_dollars, .spot = entry.spot};
      }
      book.on_launched(entry.id, 0, at(entry.asked_s), price);
      if (entry.gone_s) book.on_gone(entry.id, at(*entry.gone_s));
    }
    const CostNow now = book.now(at(world.wall_s()));
    all += now.total;
    if (streams.json) {
      streams.out << ordered_json{{"pool", pool.id},
                                  {"provider", pool.provider},
                                  {"region", pool.region},
                                  {"machines", machines},
                                  {"dollars", to_dollars(now.total)},
                                  {"hourly_dollars", to_dollars(now.hourly)},
                                  {"complete", now.complete}}
                         .dump()
                  << '\n';
    }
    rows.push_back(
        {pool.id, pool.region, std::to_string(machines),
         fmt::format("{}${:.4f}", now.complete ? "" : "at least ", to_dollars(now.total)),
         fmt::format("${:.4f}", to_dollars(now.hourly))});
  }
  if (!id.empty() && rows.empty()) return not_found(streams, id);
  if (streams.json) return 0;
  print_table(streams.out, {"POOL", "REGION", "MACHINES", "COST", "AN HOUR NOW"}, rows);
  streams.err << fmt::format(
      "${:.4f} for machines, from the request to the moment at which they "
      "were seen to be gone; disks and traffic are not in it\n",
      to_dollars(all));
  return 0;
}

}  // namespace skyward::cli

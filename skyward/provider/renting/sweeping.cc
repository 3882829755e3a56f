#include "skyward/provider/renting/sweeping.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>

#include "skyward/provider/marks.h"
#include "skyward/provider/open_pools.h"
#include "skyward/provider/renting/reaping.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::provider {

namespace {

using namespace std::chrono_literals;

// Listings lag behind what was done: each region is looked at twice.
constexpr int kPasses = 2;
constexpr Duration kBetweenPasses = 3s;

class Sweeping {
 public:
  Sweeping(const World& world, LeakSource& source, const SweepOptions& options,
           const std::function<void(const Swept&)>& tell, Time deadline)
      : world_(world), source_(source), options_(options), tell_(tell), deadline_(deadline) {}

  Status run();

 private:
  Status open_ledger();
  Status check_clock() const;
  void tell_skipped(const LedgerPool& pool);
  void tell_unseen(const LedgerPool& pool);
  std::vector<std::string> known_regions() const;
  Status sweep_regions(const std::vector<std::string>& regions);
  Status sweep_region(const std::string& region);
  Result<std::vector<Resource>> find(const std::string& region);
  void drop_other_regions(std::vector<Resource>& listed) const;
  Status add_unmarked(const std::string& region, std::vector<Resource>& listed);
  Verdict verdict(const Resource& resource) const;
  void tell(const Resource& resource, SweepAction action, std::string why, bool overdue = false);
  Status remove(const Cluster& cluster, const std::vector<Resource>& resources);
  Status settle_ledger(const LedgerPool& pool, const std::vector<Resource>& listed);
  bool is_left_behind(const LedgerPool& pool, const std::string& place) const;
  bool is_asked_for(const std::string& region) const;
  bool must_look_in(const std::string& region) const;
  bool is_of_this_account(const LedgerPool& pool) const;
  bool has_these_credentials(const LedgerPool& pool) const;

  const World& world_;
  LeakSource& source_;
  const SweepOptions& options_;
  const std::function<void(const Swept&)>& tell_;
  const Time deadline_;
  std::unique_ptr<Ledger> ledger_;  // a blank one if it cannot be written
  bool can_write_ = false;
  std::map<std::string, LedgerPool> pools_;  // of the ledger, in the account
  std::set<std::string> looked_;             // regions
  std::set<std::string> seen_pools_;         // with anything at the cloud
  std::optional<Error> denied_;              // of a region that need not be looked in
  bool elsewhere_ = false;                   // the pool that was asked for: in another account
  SweepAccount account_;
  std::set<std::pair<std::string, std::string>> told_;  // id, action
  // Machines that the cloud reports as ended, and when, if it says so.
  std::map<std::string, std::optional<std::int64_t>> ended_;
};

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

// By the ledger, and in this place.
bool Sweeping::is_left_behind(const LedgerPool& pool, const std::string& place) const {
  const bool is_there = source_.place_of(pool.region) == place && is_asked_for(pool.region);
  if (pool.closed_s || !is_there || is_open_here(world_, pool.id)) return false;
  const bool over = latest_end_s(pool, {}, world_.wall_s()) < world_.wall_s();
  return opened_here(pool, world_) || over || options_.pool == pool.id;
}

// Where only the credentials tell accounts apart, they may have been replaced: a pool that the user
// names is looked for all the same.
bool Sweeping::is_of_this_account(const LedgerPool& pool) const {
  const bool named = account_.by_credentials && options_.pool == pool.id;
  return named || has_these_credentials(pool);
}

bool Sweeping::has_these_credentials(const LedgerPool& pool) const {
  return pool.setting("account") == account_.account;
}

bool Sweeping::is_asked_for(const std::string& region) const {
  return options_.regions.empty() || contains(options_.regions, region);
}

bool Sweeping::must_look_in(const std::string& region) const {
  return !options_.regions.empty() || contains(known_regions(), region);
}

Verdict Sweeping::verdict(const Resource& resource) const {
  const auto pool = pools_.find(resource.pool);
  const bool here = pool != pools_.end() && opened_here(pool->second, world_);
  const PoolFacts facts{.opened_here = here,
                        .at_work = is_open_here(world_, resource.pool),
                        .ends_itself = source_.machines_end_themselves(),
                        .by_credentials = account_.by_credentials,
                        .rented = provider_rents(source_.name()),
                        .is_clock_unknown = account_.is_clock_unknown};
  const std::string& owner = account_.lists_own ? resource.owner : account_.owner;
  return judge(resource, facts, owner, options_.pool == resource.pool, world_.wall_s());
}

void Sweeping::tell(const Resource& resource, SweepAction action, std::string why, bool overdue) {
  if (told_.emplace(resource.id, to_string(action)).second)
    tell_({resource, action, std::move(why), overdue});
}

Result<std::vector<Resource>> Sweeping::find(const std::string& region) {
  auto listing = source_.list(region, options_.pool, deadline_);
  if (!listing) return fail(listing);
  for (const auto& [id, ended_s] : listing->ended) ended_[id] = ended_s;
  for (const Resource& one : listing->resources) seen_pools_.insert(one.pool);
  drop_other_regions(listing->resources);
  return std::move(listing->resources);
}

// One listing may show the whole account. What has no region itself (a key, a volume) is in that of
// its pool, which has only one.
void Sweeping::drop_other_regions(std::vector<Resource>& listed) const {
  std::map<std::string, std::string> regions;  // by pool
  for (const auto& [id, pool] : pools_) regions[id] = pool.region;
  for (const Resource& one : listed) {
    if (!one.region.empty()) regions[one.pool] = one.region;
  }
  std::erase_if(listed, [&](const Resource& one) {
    return !is_asked_for(one.region.empty() ? regions[one.pool] : one.region);
  });
}

// Somebody may have taken the marks off a machine: those in the ledger are asked for by their ids,
// too. Those that exist are reported as if listed; the end of the others is noted.
Status Sweeping::add_unmarked(const std::string& region, std::vector<Resource>& listed) {
  for (const auto& [id, pool] : pools_) {
    if (!is_left_behind(pool, region)) continue;
    const auto entries = ledger_->entries(id, true);
    if (!entries) return fail(entries);
    std::vector<std::string> unseen;
    for (const LedgerEntry& entry : *entries) {
      const bool seen = ended_.contains(entry.id) ||
                        std::ranges::find(listed, entry.id, &Resource::id) != listed.end();
      if (entry.kind == "instance" && !entry.id.empty() && !seen) unseen.push_back(entry.id);
    }
    if (unseen.empty()) continue;
    const auto found =
        source_.machine_api({.id = id, .region = region})->look_up(unseen, deadline_);
    if (!found) return fail(found);
    for (const MachineStatus& one : *found) {
      if (one.stage == Stage::terminated) {
        ended_[one.instance.id] = one.ended_s;
      } else {
        listed.push_back({.kind = "instance",
                          .id = one.instance.id,
                          .region = region,
                          .pool = id,
                          .owner = pool.setting("owner"),
                          .type = one.instance.instance_type,
                          .stopped = one.stage == Stage::stopped});
      }
    }
  }
  return {};
}

// The things of one pool: machines, then what they use.
Status Sweeping::remove(const Cluster& cluster, const std::vector<Resource>& resources) {
  const auto of_kind = [&](std::string_view kind) {
    std::vector<std::string> ids;
    for (const Resource& resource : resources) {
      if (resource.kind == kind) ids.push_back(resource.id);
    }
    return ids;
  };
  Status first;
  const auto note = [&](const Resource& resource, const Status& status) {
    tell(resource, status ? SweepAction::removed : SweepAction::failed,
         status ? verdict(resource).why : status.error().message);
    if (!status && first) first = status;
  };
  PoolBook book(world_, *ledger_, cluster.id);
  const std::unique_ptr<MachineApi> api = source_.machine_api(cluster);
  PoolMachines machines(book, *api);
  const std::vector<std::string> ids = of_kind("instance");
  if (!ids.empty()) machines.enter_unanswered(deadline_);
  const Status ended = machines.terminate(ids, deadline_);
  if (!ended) first = ended;
  bool any_left = false;  // of what clear() removes
  for (const Resource& resource : resources) {
    if (resource.kind == "instance") {
      note(resource, ended);
    } else if (source_.is_loose(resource)) {
      note(resource, source_.remove(resource, deadline_));
    } else {
      any_left = true;
    }
  }
  if (!any_left) return first;
  const auto kept = source_.clear(cluster, book, deadline_);
  for (const Resource& resource : resources) {
    if (resource.kind == "instance" || source_.is_loose(resource)) continue;
    if (!kept) {
      note(resource, fail(kept));
    } else if (contains(*kept, resource.id)) {
      tell(resource, SweepAction::kept,
           "its machine is still shutting down; run gc again in a few minutes");
    } else {
      note(resource, {});
    }
  }
  return first;
}

// What the ledger still has of a pool whose driver is gone, and the cloud has no more. A machine
// that the cloud does not list may merely be new: it is terminated, and is gone when it stays
// unknown. To other credentials than the pool's it may be unknown for ever: there, only its end
// counts.
Status Sweeping::settle_ledger(const LedgerPool& pool, const std::vector<Resource>& listed) {
  const auto entries = ledger_->entries(pool.id, true);
  if (!entries) return fail(entries);
  const Cluster cluster{.id = pool.id, .region = pool.region};
  const std::unique_ptr<MachineApi> api = source_.machine_api(cluster);
  std::vector<std::string> absent;
  for (const LedgerEntry& entry : *entries) {
    const bool there = std::ranges::find(listed, entry.id, &Resource::id) != listed.end();
    const bool machine = entry.kind == "instance" && !entry.id.empty();
    if (machine && !there && !ended_.contains(entry.id)) absent.push_back(entry.id);
  }
  const auto heard = api->terminate(absent, deadline_);
  if (!heard) return fail(heard);
  // Something of the pool was there: it is the same account.
  const bool is_known = has_these_credentials(pool) || seen_pools_.contains(pool.id);
  bool left = false;
  for (const LedgerEntry& entry : *entries) {
    if (entry.kind != "instance" || entry.id.empty()) continue;
    const auto ended = ended_.find(entry.id);
    const std::chrono::seconds age(world_.wall_s() - entry.asked_s);
    const bool over = contains(*heard, entry.id) ||
                      (is_known && contains(absent, entry.id) && age >= api->facts().known_after);
    if (ended == ended_.end() && !over) {
      left = true;
      continue;
    }
    const bool known = ended != ended_.end() && ended->second;
    const Status status =
        known ? ledger_->gone(pool.id, {entry.id}, std::max(*ended->second, entry.asked_s))
              : ledger_->gone_by(pool.id, entry.id, latest_end_s(pool, entry, world_.wall_s()));
    if (!status) return status;
  }
  if (left) {
    if (!is_known) tell_unseen(pool);
    return {};
  }
  PoolBook book(world_, *ledger_, pool.id);
  return clear_and_close(world_, source_, cluster, book, deadline_);
}

Status Sweeping::sweep_region(const std::string& region) {
  for (int pass = 0; pass < kPasses; ++pass) {
    auto listed = find(region);
    if (!listed && listed.error().kind == ErrorKind::denied && !must_look_in(region)) {
      if (!denied_) denied_ = listed.error();
      tell({.kind = "region", .id = region, .region = region}, SweepAction::skipped,
           "these credentials may not look there, and this computer has nothing there: " +
               listed.error().message);
      return {};
    }
    if (!listed) return fail(listed);
    looked_.insert(region);
    if (Status status = add_unmarked(region, *listed); !status) return status;
    std::map<std::string, std::vector<Resource>> condemned;
    for (const Resource& resource : *listed) {
      const Verdict judged = verdict(resource);
      if (!judged.remove) {
        tell(resource, SweepAction::kept, judged.why, judged.overdue);
      } else if (options_.dry_run) {
        tell(resource, SweepAction::would_remove, judged.why);
      } else {
        condemned[resource.pool].push_back(resource);
      }
    }
    if (options_.dry_run) return {};
    Status first;
    for (const auto& [pool, resources] : condemned) {
      const Status status = remove({.id = pool, .region = region}, resources);
      if (!status && first) first = status;
    }
    if (!first) return first;
    const bool last = pass + 1 == kPasses;
    bool any = !condemned.empty();
    for (const auto& [id, pool] : pools_) {
      if (!is_left_behind(pool, region)) continue;
      any = true;
      if (!last || !can_write_) continue;
      if (Status status = settle_ledger(pool, *listed); !status) return status;
    }
    if (!any) return {};
    if (!last) world_.pause(kBetweenPasses, {});
  }
  return {};
}

// Where the ledger has something: there alone is anything of a pool that it knows.
std::vector<std::string> Sweeping::known_regions() const {
  std::set<std::string> regions;
  for (const auto& [id, pool] : pools_) {
    if (!pool.closed_s || options_.pool == id) regions.insert(source_.place_of(pool.region));
  }
  return {regions.begin(), regions.end()};
}

Status Sweeping::sweep_regions(const std::vector<std::string>& regions) {
  Status first;
  for (const std::string& one : regions) {
    if (looked_.contains(one)) continue;
    const Status status = sweep_region(one);
    if (!status && first) first = status;
  }
  return first;
}

// What is open in the ledger and cannot be looked for now.
void Sweeping::tell_skipped(const LedgerPool& pool) {
  const Resource resource{.kind = "pool", .id = pool.id, .region = pool.region, .pool = pool.id};
  if (!is_of_this_account(pool)) {
    tell(resource, SweepAction::skipped,
         fmt::format("it is in the account {}, but these credentials are for {}; {}",
                     pool.setting("account"), account_.account, source_.way_to_account(pool)));
  } else if (!opened_here(pool, world_) && !is_left_behind(pool, source_.place_of(pool.region))) {
    tell(resource, SweepAction::skipped,
         fmt::format("it was opened on {} and may be in use there; 'skyward pool delete {}' "
                     "terminates its machines anyway",
                     pool.setting("host"), pool.id));
  }
}

// A pool that was asked for, with machines that these credentials do not show.
void Sweeping::tell_unseen(const LedgerPool& pool) {
  tell({.kind = "pool", .id = pool.id, .region = pool.region, .pool = pool.id},
       SweepAction::skipped,
       fmt::format("it was opened with other credentials, and these do not show all of its "
                   "machines: run this with those, or look at {}'s console",
                   source_.vendor()));
}

Status Sweeping::open_ledger() {
  auto ledger = provider::open_ledger(world_);
  Status writable;
  if (!ledger) {
    writable = fail(ledger);
    ledger = read_ledger(world_);  // works on a full disk
  }
  if (!ledger) return writable;
  const auto pools = (*ledger)->pools(false);
  if (!pools) return writable ? Status(fail(pools)) : writable;
  can_write_ = writable.has_value();
  if (can_write_) ledger_ = *std::move(ledger);
  for (const LedgerPool& pool : *pools) {
    if (pool.provider != source_.name() || (options_.pool && *options_.pool != pool.id)) continue;
    if (!pool.closed_s && is_asked_for(pool.region)) tell_skipped(pool);
    if (is_of_this_account(pool)) {
      pools_.emplace(pool.id, pool);
    } else {
      elsewhere_ = options_.pool.has_value();
    }
  }
  return writable;
}

// Whose time is over is judged by a clock: a wrong one would end machines at work elsewhere.
Status Sweeping::check_clock() const {
  const std::int64_t ahead_s = -account_.clock_ahead_s;
  if (options_.pool || ahead_s == 0) return {};
  return fail(
      ErrorKind::unsupported,
      fmt::format("the clock of this computer is {} min {} {}'s; nothing was removed",
                  std::abs(ahead_s) / 60, ahead_s > 0 ? "ahead of" : "behind", source_.vendor()),
      "set the clock; 'skyward pool delete ID' deletes one pool anyway");
}

Status Sweeping::run() {
  auto account = source_.sign_in(deadline_);
  if (!account) return fail(account);
  account_ = *std::move(account);
  if (Status same = check_clock(); !same) return same;
  // A computer that cannot even read its ledger is one that has never seen the pools.
  const Status known = open_ledger();
  if (!known) ledger_ = blank_ledger();
  std::vector<std::string> asked;
  for (const std::string& region : options_.regions) asked.push_back(source_.place_of(region));
  Status swept = sweep_regions(asked.empty() ? known_regions() : asked);
  const bool found = options_.pool && (elsewhere_ || !pools_.empty());
  if (options_.regions.empty() && !found) {
    const auto note = [&](const Status& status) {
      if (!status && swept) swept = status;
    };
    note(sweep_regions({account_.home_region}));
    const auto all = source_.regions(deadline_);
    note(all ? sweep_regions(*all) : fail(all));
  }
  if (!swept) return swept;
  if (looked_.empty() && denied_) return std::unexpected(*denied_);
  return known;
}

}  // namespace

Status sweep_account(const World& world, LeakSource& source, const SweepOptions& options,
                     const std::function<void(const Swept&)>& tell, Time deadline) {
  return Sweeping(world, source, options, tell, deadline).run();
}

}  // namespace skyward::provider

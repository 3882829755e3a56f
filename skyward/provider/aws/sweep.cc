#include "skyward/provider/aws/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>

#include "skyward/provider/aws/account.h"
#include "skyward/provider/aws/fleet.h"
#include "skyward/provider/aws/groups.h"
#include "skyward/provider/marks.h"
#include "skyward/provider/open_pools.h"

namespace skyward::provider::aws {

namespace {

using namespace std::chrono_literals;

// Listings lag behind what was done: each region is looked at twice.
constexpr int kPasses = 2;
constexpr Duration kBetweenPasses = 3s;

class Sweeping {
 public:
  Sweeping(const World& world, const SweepOptions& options,
           const std::function<void(const Swept&)>& tell, Time deadline)
      : world_(world), options_(options), tell_(tell), deadline_(deadline) {}

  Status run();

 private:
  Status open_ledger();
  Status check_clock() const;
  void tell_skipped(const LedgerPool& pool);
  std::vector<std::string> known_regions() const;
  Status sweep_regions(const std::vector<std::string>& regions);
  Status sweep_region(const std::string& region);
  Result<std::vector<Thing>> find(Client& client);
  Status add_unmarked(Client& client, std::vector<Thing>& listed);
  Verdict verdict(const Thing& thing) const;
  void tell(const Thing& thing, SweepAction action, std::string why);
  Status remove(Client& client, const std::string& pool, const std::vector<Thing>& things);
  Status strike_off(Client& client, const LedgerPool& pool, const std::vector<Thing>& listed);
  bool is_left_behind(const LedgerPool& pool, const std::string& region) const;
  bool must_look_in(const std::string& region) const;

  const World& world_;
  const SweepOptions& options_;
  const std::function<void(const Swept&)>& tell_;
  const Time deadline_;
  std::unique_ptr<Ledger> ledger_;
  std::map<std::string, LedgerPool> pools_;  // of the ledger, in the account
  std::set<std::string> looked_;             // regions
  std::optional<Error> denied_;              // of a region that need not be looked in
  bool elsewhere_ = false;                   // the pool that was asked for: in another account
  std::optional<Client> home_;
  CallerIdentity caller_;
  std::set<std::pair<std::string, std::string>> told_;  // id, action
  // Machines that Amazon reports as ended, and when, if it says so.
  std::map<std::string, std::optional<std::int64_t>> ended_;
};

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

// By the ledger, and in this region.
bool Sweeping::is_left_behind(const LedgerPool& pool, const std::string& region) const {
  if (pool.closed_s || pool.region != region || is_open_here(world_, pool.id)) return false;
  const bool over = latest_end_s(pool, {}, world_.wall_s()) < world_.wall_s();
  return opened_here(pool) || over || options_.pool == pool.id;
}

bool Sweeping::must_look_in(const std::string& region) const {
  return !options_.regions.empty() || contains(known_regions(), region);
}

Verdict Sweeping::verdict(const Thing& thing) const {
  const auto pool = pools_.find(thing.pool);
  const bool here = pool != pools_.end() && opened_here(pool->second);
  const PoolFacts facts{here, is_open_here(world_, thing.pool)};
  return judge(thing, facts, caller_.owner, options_.pool == thing.pool, world_.wall_s());
}

void Sweeping::tell(const Thing& thing, SweepAction action, std::string why) {
  if (told_.emplace(thing.id, to_string(action)).second) tell_({thing, action, std::move(why)});
}

Result<std::vector<Thing>> Sweeping::find(Client& client) {
  Ec2Api api(client);
  std::vector<Filter> filters = {{fmt::format("tag:{}", kManagedTag), {"true"}}};
  if (options_.pool) filters.push_back({fmt::format("tag:{}", kPoolTag), {*options_.pool}});
  std::vector<Thing> out;
  const auto add = [&](const char* kind, const std::string& id, const Tags& tags,
                       const std::string& type) {
    const auto mark = read_mark(tags);
    if (!mark) return;  // somebody else's, whatever it is called
    out.push_back({.kind = kind,
                   .id = id,
                   .region = client.region(),
                   .pool = mark->pool,
                   .owner = mark->owner,
                   .expires_s = mark->expires_s,
                   .type = type});
  };
  const auto failed = [&](const ApiError& error, const char* action) {
    return std::unexpected(to_error(error, fmt::format("EC2 {} in {}", action, client.region())));
  };
  const auto instances = api.describe_instances({}, filters, deadline_);
  if (!instances) return failed(instances.error(), "DescribeInstances");
  for (const Ec2Instance& one : *instances) {
    if (is_gone(one)) {
      ended_[one.id] = one.ended_s;
    } else {
      add("instance", one.id, one.tags, one.type);
    }
  }
  const auto volumes = api.describe_volumes(filters, deadline_);
  if (!volumes) return failed(volumes.error(), "DescribeVolumes");
  for (const EbsVolume& volume : *volumes) {
    // The ones in use go with their machines.
    if (volume.state == "available") add("volume", volume.id, volume.tags, "");
  }
  const auto groups = api.describe_security_groups(filters, deadline_);
  if (!groups) return failed(groups.error(), "DescribeSecurityGroups");
  for (const SecurityGroup& group : *groups) add("security_group", group.id, group.tags, "");
  return out;
}

// Somebody may have taken the marks off a machine: those in the ledger are asked for by their ids,
// too. What stands is told as if it were listed; what has ended is noted.
Status Sweeping::add_unmarked(Client& client, std::vector<Thing>& listed) {
  for (const auto& [id, pool] : pools_) {
    if (!is_left_behind(pool, client.region())) continue;
    const auto entries = ledger_->entries(id, true);
    if (!entries) return fail(entries);
    std::vector<std::string> unseen;
    for (const LedgerEntry& entry : *entries) {
      const bool seen = ended_.contains(entry.id) ||
                        std::ranges::find(listed, entry.id, &Thing::id) != listed.end();
      if (entry.kind == "instance" && !entry.id.empty() && !seen) unseen.push_back(entry.id);
    }
    const auto found = Fleet(client, id).describe(unseen, deadline_);
    if (!found) return fail(found);
    for (const Ec2Instance& one : *found) {
      if (is_gone(one)) {
        ended_[one.id] = one.ended_s;
      } else {
        listed.push_back({.kind = "instance",
                          .id = one.id,
                          .region = client.region(),
                          .pool = id,
                          .owner = pool.setting("owner"),
                          .type = one.type});
      }
    }
  }
  return {};
}

// The things of one pool: machines, then what they use.
Status Sweeping::remove(Client& client, const std::string& pool, const std::vector<Thing>& things) {
  const auto of_kind = [&](std::string_view kind) {
    std::vector<std::string> ids;
    for (const Thing& thing : things) {
      if (thing.kind == kind) ids.push_back(thing.id);
    }
    return ids;
  };
  const auto tell_all = [&](std::string_view kind, const Status& status) {
    for (const Thing& thing : things) {
      if (thing.kind != kind) continue;
      if (status) {
        tell(thing, SweepAction::removed, verdict(thing).why);
      } else {
        tell(thing, SweepAction::failed, status.error().message);
      }
    }
  };
  Status first;
  const auto note = [&](std::string_view kind, const Status& status) {
    tell_all(kind, status);
    if (!status && first) first = status;
  };
  PoolBook book(world_, *ledger_, pool);
  Fleet fleet(client, pool);
  note("instance", Stock(book, fleet).end(of_kind("instance"), deadline_));
  for (const std::string& id : of_kind("volume")) {
    const auto done = Ec2Api(client).delete_volume(id, deadline_);
    const bool gone = done || done.error().code == "InvalidVolume.NotFound";
    Status status;
    if (!gone) status = std::unexpected(to_error(done.error(), "EC2 DeleteVolume " + id));
    for (const Thing& thing : things) {
      if (thing.id != id) continue;
      tell(thing, gone ? SweepAction::removed : SweepAction::failed,
           gone ? verdict(thing).why : status.error().message);
    }
    if (!gone && first) first = status;
  }
  if (of_kind("security_group").empty()) return first;
  const auto kept = remove_groups(client, book, deadline_);
  if (!kept) {
    note("security_group", fail(kept));
    return first;
  }
  for (const Thing& thing : things) {
    if (thing.kind != "security_group") continue;
    const bool stays = contains(*kept, thing.id);
    tell(thing, stays ? SweepAction::kept : SweepAction::removed,
         stays ? "its machine is still shutting down; run gc again in a few minutes"
               : verdict(thing).why);
  }
  return first;
}

// What the ledger still has of a pool whose driver is gone, and Amazon has no more. A machine that
// is not known may be so only now: it is asked to end, and is gone when it stays unknown.
Status Sweeping::strike_off(Client& client, const LedgerPool& pool,
                            const std::vector<Thing>& listed) {
  const auto entries = ledger_->entries(pool.id, true);
  if (!entries) return fail(entries);
  Fleet fleet(client, pool.id);
  std::vector<std::string> absent;
  for (const LedgerEntry& entry : *entries) {
    const bool there = std::ranges::find(listed, entry.id, &Thing::id) != listed.end();
    const bool machine = entry.kind == "instance" && !entry.id.empty();
    if (machine && !there && !ended_.contains(entry.id)) absent.push_back(entry.id);
  }
  const auto heard = fleet.end(absent, deadline_);
  if (!heard) return fail(heard);
  bool left = false;
  for (const LedgerEntry& entry : *entries) {
    if (entry.kind != "instance" || entry.id.empty()) continue;
    const auto ended = ended_.find(entry.id);
    const std::chrono::seconds age(world_.wall_s() - entry.asked_s);
    const bool over = contains(*heard, entry.id) ||
                      (contains(absent, entry.id) && age >= fleet.facts().known_after);
    if (ended == ended_.end() && !over) {
      left = true;
      continue;
    }
    const bool known = ended != ended_.end() && ended->second;
    const Status status =
        known ? ledger_->gone(pool.id, entry.id, std::max(*ended->second, entry.asked_s))
              : ledger_->gone_by(pool.id, entry.id, latest_end_s(pool, entry, world_.wall_s()));
    if (!status) return status;
  }
  if (left) return {};
  PoolBook book(world_, *ledger_, pool.id);
  if (const auto kept = remove_groups(client, book, deadline_); !kept) return fail(kept);
  remove_pool_directory(world_, pool.id);
  return Stock(book, fleet).close_when_clear();
}

Status Sweeping::sweep_region(const std::string& region) {
  Client client = home_->in_region(region);
  for (int pass = 0; pass < kPasses; ++pass) {
    auto listed = find(client);
    if (!listed && listed.error().kind == ErrorKind::denied && !must_look_in(region)) {
      if (!denied_) denied_ = listed.error();
      tell({.kind = "region", .id = region, .region = region}, SweepAction::skipped,
           "these credentials may not look there, and this computer has nothing there: " +
               listed.error().message);
      return {};
    }
    if (!listed) return fail(listed);
    looked_.insert(region);
    if (Status status = add_unmarked(client, *listed); !status) return status;
    std::map<std::string, std::vector<Thing>> condemned;
    for (const Thing& thing : *listed) {
      const Verdict judged = verdict(thing);
      if (!judged.remove) {
        tell(thing, SweepAction::kept, judged.why);
      } else if (options_.dry_run) {
        tell(thing, SweepAction::would_remove, judged.why);
      } else {
        condemned[thing.pool].push_back(thing);
      }
    }
    if (options_.dry_run) return {};
    Status first;
    for (const auto& [pool, things] : condemned) {
      const Status status = remove(client, pool, things);
      if (!status && first) first = status;
    }
    if (!first) return first;
    const bool last = pass + 1 == kPasses;
    bool any = !condemned.empty();
    for (const auto& [id, pool] : pools_) {
      if (!is_left_behind(pool, region)) continue;
      any = true;
      if (!last) continue;
      if (Status status = strike_off(client, pool, *listed); !status) return status;
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
    if (!pool.closed_s || options_.pool == id) regions.insert(pool.region);
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
  const Thing thing{.kind = "pool", .id = pool.id, .region = pool.region, .pool = pool.id};
  const std::string account = pool.setting("account");
  if (account != caller_.account) {
    const std::string profile = pool.setting("profile");
    tell(thing, SweepAction::skipped,
         fmt::format(
             "it is in the account {}, and these credentials are of {}; {}skyward gc", account,
             caller_.account,
             profile.empty() ? "with the others, run " : "run AWS_PROFILE=" + profile + " "));
  } else if (!opened_here(pool) && !is_left_behind(pool, pool.region)) {
    tell(thing, SweepAction::skipped,
         fmt::format("it was opened on {} and may be in use there; 'skyward pool delete {}' "
                     "terminates its machines anyway",
                     pool.setting("host"), pool.id));
  }
}

Status Sweeping::open_ledger() {
  auto ledger = provider::open_ledger(world_);
  if (!ledger) return fail(ledger);
  const auto pools = (*ledger)->pools(false);
  if (!pools) return fail(pools);
  ledger_ = *std::move(ledger);
  for (const LedgerPool& pool : *pools) {
    if (pool.provider != "aws" || (options_.pool && *options_.pool != pool.id)) continue;
    const bool asked = options_.regions.empty() || contains(options_.regions, pool.region);
    if (!pool.closed_s && asked) tell_skipped(pool);
    if (pool.setting("account") == caller_.account) {
      pools_.emplace(pool.id, pool);
    } else {
      elsewhere_ = options_.pool.has_value();
    }
  }
  return {};
}

// Whose time is over is judged by a clock: a wrong one would end machines at work elsewhere.
Status Sweeping::check_clock() const {
  const std::int64_t ahead_s = -home_->clock_difference_s();
  if (options_.pool || std::abs(ahead_s) <= kSameClock_s) return {};
  return fail(ErrorKind::unsupported,
              fmt::format("the clock of this computer is {} min {} Amazon's; nothing was removed",
                          std::abs(ahead_s) / 60, ahead_s > 0 ? "ahead of" : "behind"),
              "set the clock; 'skyward pool delete ID' ends one pool all the same");
}

Status Sweeping::run() {
  auto configuration = load_configuration(world_, "");
  if (!configuration) return fail(configuration);
  std::string region = find_region(world_, *configuration, options_.home_region);
  if (!options_.regions.empty()) region = options_.regions.front();
  if (region.empty()) region = "us-east-1";
  home_.emplace(world_, *std::move(configuration), region);
  auto caller = find_caller(*home_, deadline_);
  if (!caller) return fail(caller);
  caller_ = *std::move(caller);
  if (Status same = check_clock(); !same) return same;
  // Without its ledger, a computer is one that has never seen the pools.
  const Status known = open_ledger();
  if (!known) ledger_ = blank_ledger();
  Status swept = sweep_regions(options_.regions.empty() ? known_regions() : options_.regions);
  const bool found = options_.pool && (elsewhere_ || !pools_.empty());
  if (options_.regions.empty() && !found) {
    const auto note = [&](const Status& status) {
      if (!status && swept) swept = status;
    };
    note(sweep_regions({region}));
    const auto all = Ec2Api(*home_).describe_regions(deadline_);
    if (all) {
      note(sweep_regions(*all));
    } else {
      note(std::unexpected(to_error(all.error(), "EC2 DescribeRegions")));
    }
  }
  if (!swept) return swept;
  if (looked_.empty() && denied_) return std::unexpected(*denied_);
  return known;
}

}  // namespace

Status sweep(const World& world, const SweepOptions& options,
             const std::function<void(const Swept&)>& tell, Time deadline) {
  return Sweeping(world, options, tell, deadline).run();
}

}  // namespace skyward::provider::aws

#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "skyward/base/text.h"
#include "skyward/provider/fake/fake.h"
#include "skyward/provider/fake/rental.h"
#include "skyward/provider/open_pools.h"

namespace skyward::provider::fake {

namespace {

using namespace std::chrono_literals;

// Listings lag: what is there now is looked for a second time.
constexpr int kPasses = 2;
constexpr Duration kBetweenPasses = 3s;

class Sweeping {
 public:
  Sweeping(const Renter& renter, const SweepOptions& options,
           const std::function<void(const Swept&)>& tell, Time deadline)
      : renter_(renter),
        options_(options),
        tell_(tell),
        client_(renter.cloud, renter.world),
        deadline_(deadline) {}

  Status run();

 private:
  Result<std::vector<Thing>> find();
  Verdict verdict(const Thing& thing) const;
  Status remove(const std::string& pool, const std::vector<Thing>& things);
  void tell(const Thing& thing, SweepAction action, std::string why);

  const Renter& renter_;
  const SweepOptions& options_;
  const std::function<void(const Swept&)>& tell_;
  Client client_;
  const Time deadline_;
  std::unique_ptr<Ledger> ledger_;
  std::map<std::string, LedgerPool> pools_;  // of this computer
  std::set<std::pair<std::string, SweepAction>> told_;
};

Thing to_thing(const std::string& kind, const std::string& id, const Tags& tags) {
  Thing thing{
      .kind = kind, .id = id, .pool = value_at(tags, kPoolTag), .owner = value_at(tags, kOwnerTag)};
  const std::string expires = value_at(tags, kExpiresTag);
  std::from_chars(expires.data(), expires.data() + expires.size(), thing.expires_s);
  return thing;
}

Result<std::vector<Thing>> Sweeping::find() {
  Tags wanted;
  if (options_.pool) wanted[kPoolTag] = *options_.pool;
  std::vector<Thing> out;
  const auto machines = client_.call(
      deadline_, [&](Cloud& cloud, Time now) { return cloud.list_machines(now, wanted); });
  if (!machines) return std::unexpected(to_error(machines.error(), "ListMachines"));
  for (const Machine& one : *machines) {
    if (one.state >= MachineState::ending) continue;
    out.push_back(to_thing("instance", one.id, one.tags));
    out.back().type = one.type;
  }
  const auto items = client_.call(
      deadline_, [&](Cloud& cloud, Time now) { return cloud.list_items(now, wanted); });
  if (!items) return std::unexpected(to_error(items.error(), "ListItems"));
  for (const Item& one : *items) out.push_back(to_thing(one.kind, one.id, one.tags));
  return out;
}

Verdict Sweeping::verdict(const Thing& thing) const {
  const bool opened_here = pools_.contains(thing.pool);
  const PoolFacts facts{opened_here, opened_here && is_open_here(renter_.world, thing.pool)};
  return judge(thing, facts, renter_.owner, options_.pool == thing.pool, renter_.world.wall_s());
}

void Sweeping::tell(const Thing& thing, SweepAction action, std::string why) {
  if (told_.emplace(thing.id, action).second) tell_({thing, action, std::move(why)});
}

// A pool whose driver is gone: its machines, then what they use.
Status Sweeping::remove(const std::string& pool, const std::vector<Thing>& things) {
  PoolBook book(renter_.world, *ledger_, pool);
  Rental rental(client_, pool);
  PoolMachines machines(book, rental);
  Status status = machines.terminate_all(deadline_);
  if (status) status = remove_items(client_, book, deadline_);
  for (const Thing& thing : things) {
    if (status) {
      tell(thing, SweepAction::removed, verdict(thing).why);
    } else {
      tell(thing, SweepAction::failed, status.error().message);
    }
  }
  if (!status) return status;
  remove_pool_directory(renter_.world, pool);
  return machines.close_when_clear();
}

Status Sweeping::run() {
  auto ledger = renter_.open_ledger();
  if (!ledger) return fail(ledger);
  ledger_ = *std::move(ledger);
  const auto pools = ledger_->pools(false);
  if (!pools) return fail(pools);
  for (const LedgerPool& pool : *pools) {
    if (!options_.pool || *options_.pool == pool.id) pools_.emplace(pool.id, pool);
  }
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto listed = find();
    if (!listed) return fail(listed);
    std::map<std::string, std::vector<Thing>> condemned;
    for (const auto& [id, pool] : pools_) {
      const bool left = !pool.closed_s && !is_open_here(renter_.world, id);
      if (left && !options_.dry_run) condemned[id];
    }
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
    Status first;
    for (const auto& [pool, things] : condemned) {
      const Status status = remove(pool, things);
      if (!status && first) first = status;
    }
    if (!first) return first;
    if (condemned.empty()) break;
    if (pass + 1 < kPasses) renter_.world.pause(kBetweenPasses, {});
  }
  return {};
}

}  // namespace

Status sweep(const Renter& renter, const SweepOptions& options,
             const std::function<void(const Swept&)>& tell, Time deadline) {
  return Sweeping(renter, options, tell, renter.cloud->there(deadline)).run();
}

}  // namespace skyward::provider::fake

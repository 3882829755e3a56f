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
  Sweeping(const ClientComputer& computer, const SweepOptions& options,
           const std::function<void(const Swept&)>& tell, Time deadline)
      : computer_(computer),
        options_(options),
        tell_(tell),
        client_(computer.cloud, computer.world),
        deadline_(deadline) {}

  Status run();

 private:
  Result<std::vector<Resource>> find();
  Verdict verdict(const Resource& resource) const;
  Status remove(const std::string& pool, const std::vector<Resource>& resources);
  void tell(const Resource& resource, SweepAction action, std::string why);

  const ClientComputer& computer_;
  const SweepOptions& options_;
  const std::function<void(const Swept&)>& tell_;
  Client client_;
  const Time deadline_;
  std::unique_ptr<Ledger> ledger_;
  std::map<std::string, LedgerPool> pools_;  // of this computer
  std::set<std::pair<std::string, SweepAction>> told_;
};

Resource to_resource(const std::string& kind, const std::string& id, const Tags& tags) {
  Resource resource{
      .kind = kind, .id = id, .pool = value_at(tags, kPoolTag), .owner = value_at(tags, kOwnerTag)};
  const std::string expires = value_at(tags, kExpiresTag);
  std::from_chars(expires.data(), expires.data() + expires.size(), resource.expires_s);
  return resource;
}

Result<std::vector<Resource>> Sweeping::find() {
  Tags wanted;
  if (options_.pool) wanted[kPoolTag] = *options_.pool;
  std::vector<Resource> out;
  const auto machines = client_.call(
      deadline_, [&](Cloud& cloud, Time now) { return cloud.list_machines(now, wanted); });
  if (!machines) return std::unexpected(to_error(machines.error(), "ListMachines"));
  for (const Machine& one : *machines) {
    if (one.state >= MachineState::ending) continue;
    out.push_back(to_resource("instance", one.id, one.tags));
    out.back().type = one.type;
  }
  const auto items = client_.call(
      deadline_, [&](Cloud& cloud, Time now) { return cloud.list_items(now, wanted); });
  if (!items) return std::unexpected(to_error(items.error(), "ListItems"));
  for (const Item& one : *items) out.push_back(to_resource(one.kind, one.id, one.tags));
  return out;
}

Verdict Sweeping::verdict(const Resource& resource) const {
  const bool opened_here = pools_.contains(resource.pool);
  const PoolFacts facts{opened_here, opened_here && is_open_here(computer_.world, resource.pool)};
  return judge(resource, facts, computer_.owner, options_.pool == resource.pool,
               computer_.world.wall_s());
}

void Sweeping::tell(const Resource& resource, SweepAction action, std::string why) {
  if (told_.emplace(resource.id, action).second) tell_({resource, action, std::move(why)});
}

// A pool whose driver is gone: its machines, then what they use.
Status Sweeping::remove(const std::string& pool, const std::vector<Resource>& resources) {
  PoolBook book(computer_.world, *ledger_, pool);
  Rental rental(client_, pool);
  PoolMachines machines(book, rental);
  Status status = machines.terminate_all(deadline_);
  if (status) status = remove_items(client_, book, deadline_);
  for (const Resource& resource : resources) {
    if (status) {
      tell(resource, SweepAction::removed, verdict(resource).why);
    } else {
      tell(resource, SweepAction::failed, status.error().message);
    }
  }
  if (!status) return status;
  remove_pool_directory(computer_.world, pool);
  return machines.close_when_clear();
}

Status Sweeping::run() {
  auto ledger = computer_.open_ledger();
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
    std::map<std::string, std::vector<Resource>> condemned;
    for (const auto& [id, pool] : pools_) {
      const bool left = !pool.closed_s && !is_open_here(computer_.world, id);
      if (left && !options_.dry_run) condemned[id];
    }
    for (const Resource& resource : *listed) {
      const Verdict judged = verdict(resource);
      if (!judged.remove) {
        tell(resource, SweepAction::kept, judged.why);
      } else if (options_.dry_run) {
        tell(resource, SweepAction::would_remove, judged.why);
      } else {
        condemned[resource.pool].push_back(resource);
      }
    }
    Status first;
    for (const auto& [pool, resources] : condemned) {
      const Status status = remove(pool, resources);
      if (!status && first) first = status;
    }
    if (!first) return first;
    if (condemned.empty()) break;
    if (pass + 1 < kPasses) computer_.world.pause(kBetweenPasses, {});
  }
  return {};
}

}  // namespace

Status sweep(const ClientComputer& computer, const SweepOptions& options,
             const std::function<void(const Swept&)>& tell, Time deadline) {
  return Sweeping(computer, options, tell, computer.cloud->there(deadline)).run();
}

}  // namespace skyward::provider::fake

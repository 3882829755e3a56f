#include "skyward/provider/keeping/ways.h"

#include <algorithm>
#include <set>
#include <utility>

#include "skyward/provider/open_pools.h"

namespace skyward::provider {

namespace {

// Where it cannot be told which account a way leads to, each of them may be it.
bool has_pool_in(const std::map<std::string, LedgerPool>& pools,
                 const Result<SweepAccount>& account) {
  return std::ranges::any_of(pools, [&](const auto& one) {
    return !account || one.second.setting("account") == account->account;
  });
}

}  // namespace

Result<std::map<std::string, LedgerPool>> open_pools_of(const World& world,
                                                        std::string_view provider) {
  std::map<std::string, LedgerPool> out;
  const auto ledger = read_ledger(world);
  if (!ledger) return fail(ledger);
  const auto pools = (*ledger)->pools(true);
  if (!pools) return fail(pools);
  for (const LedgerPool& pool : *pools) {
    if (pool.provider == provider) out.emplace(pool.id, pool);
  }
  return out;
}

Status sweep_ways(const World& world, const Result<std::map<std::string, LedgerPool>>& known,
                  const std::vector<SweepWay>& ways, const SweepOptions& options,
                  const std::function<void(const Swept&)>& tell, Time deadline) {
  const auto pools = known.value_or(std::map<std::string, LedgerPool>{});
  std::set<std::string> tried;  // paths: each pool in the ledger has one
  std::set<std::string> swept;  // accounts: several paths may lead to one
  std::vector<Swept> unsearched;
  bool is_any_searched = false;
  Status first;
  for (const SweepWay& way : ways) {
    if (!tried.insert(way.path).second) continue;
    const auto signed_in = way.account->sign_in(deadline);
    Status status = signed_in ? Status() : fail(signed_in);
    if (signed_in && swept.insert(signed_in->account).second) {
      const auto tell_ours = [&](const Swept& one) {
        const auto pool = pools.find(one.resource.id);
        const bool is_elsewhere =
            pool != pools.end() && pool->second.setting("account") != signed_in->account;
        if (one.action != SweepAction::skipped || !is_elsewhere) tell(one);
      };
      status = sweep_named(world, *way.account, options, tell_ours, deadline);
    }
    // Where the ledger cannot be read, the place was searched all the same.
    const bool is_searched = signed_in && (status || is_of_ledger(world, status.error()));
    const bool is_off =
        !signed_in || (!is_searched && status.error().kind == ErrorKind::unavailable);
    is_any_searched |= is_searched;
    if (is_off && way.is_set && !options.is_named && !has_pool_in(pools, signed_in)) {
      const std::string place =
          signed_in ? signed_in->home_region : std::string(way.account->provider());
      unsearched.push_back({.resource = {.kind = "region", .id = place, .region = place},
                            .action = SweepAction::skipped,
                            .why = "this computer has nothing there: " + status.error().message});
    } else if (!status && first) {
      first = status;
    }
  }
  for (Swept& one : unsearched) {
    if (!is_any_searched) {
      one.resource.kind = "provider";
      one.resource.id = ways.front().account->provider();
    }
    tell(one);
  }
  return first && !known ? fail(known) : first;
}

}  // namespace skyward::provider

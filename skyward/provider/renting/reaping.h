#pragma once

// What terminates the machines of a pool when its program is gone, at clouds where a machine cannot
// end its own cost: the reaper, a process of its own that is started before anything is requested.
// It waits until the program has exited without closing the pool, or until the pool's time is over,
// and then works until nothing of the pool is left.
//
// It runs on the computer of the program, and can do nothing while that is off.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/renting/rented_cloud.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider {

struct ReaperOrder {
  ProviderSpec provider{};  // with its secrets: it travels through a pipe, and never lies in a file
  std::string pool{};
  std::string region{};
  std::int64_t expires_s = 0;  // seconds since 1970: when the pool's time is over

  bool operator==(const ReaperOrder&) const = default;
};
std::string to_text(const ReaperOrder& order);
// Fails with `invalid` when it is no order.
Result<ReaperOrder> read_reaper_order(std::string_view text);

// What the reaper sees of the pool.
struct ReaperView {
  bool driver_runs = false;  // somebody holds the pool's lock
  bool is_closed = false;    // in the ledger: nothing of it is left
  // The ledger does not know the pool, and never will say that it is closed. But what was left has
  // been removed, and whatever was requested has had time to appear.
  bool is_lost_and_clear = false;
  // By the clock of the order. If that is set while the reaper runs, it goes on here as before.
  std::int64_t now_s = 0;
};
enum class ReaperStep : std::uint8_t { wait, terminate, finish };
// Pure.
ReaperStep next_step(const ReaperOrder& order, const ReaperView& view);

// When a reaper gives up: a day after the end of the pool's time.
Time reaper_deadline(const World& world, const ReaperOrder& order);

// Returns when nothing of the pool is left. Gives up at the deadline, with what stood in the way,
// which why_reaper_gave_up() tells from then on.
Status reap(const World& world, PoolResources& resources, const ReaperOrder& order, Time deadline);

// Empty: it has not given up.
std::string why_reaper_gave_up(const World& world, const std::string& pool);

// Starts a reaper as a process of its own: the program `skyward` beside the agent. Returns when it
// has read the order and could lock the pool's file, or when another one holds that lock.
Status start_reaper(const World& world, const std::string& agent_path, const ReaperOrder& order);

// Starts reapers again for the pools that programs of this computer left in an account, and whose
// own reapers are gone: with a reboot, or because they gave up. Returns the pools. `account`: as
// their setting in the ledger has it.
std::vector<std::string> resume_reapers(const World& world, Ledger& ledger,
                                        const std::string& agent_path, const ProviderSpec& provider,
                                        const std::string& account);

// The account's pools that another computer opened, and that no program or reaper here holds. The
// other computer may be this one before its container was replaced.
std::vector<LedgerPool> unattended_elsewhere(const World& world, Ledger& ledger,
                                             const ProviderSpec& provider,
                                             const std::string& account);

// Removes what the pool has beside machines, which are gone, and closes it in the ledger unless
// a request may still take effect.
Status clear_and_close(const World& world, PoolResources& resources, const Cluster& cluster,
                       PoolBook& book, Time deadline);

}  // namespace skyward::provider

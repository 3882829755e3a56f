#pragma once

// Finding and removing what pools have left behind in one account, at whatever cloud: sweep.h for
// rented machines.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/renting/rented_cloud.h"
#include "skyward/provider/sweep.h"

namespace skyward::provider {

// The account to sweep.
struct SweepAccount {
  std::string owner{};    // the mark on what they make
  std::string account{};  // as a pool's setting "account" has it in the ledger
  // Owner and account come from the credentials alone: others may be of the same account.
  bool by_credentials = false;
  // It lists its own machines alone, so the owner in their marks does not matter.
  bool lists_own = false;
  std::string home_region{};       // the first to look in
  std::int64_t clock_ahead_s = 0;  // how far the cloud's clock is ahead; 0: about the same
  bool is_clock_unknown = false;   // nothing tells its time
};

// Everything with our marks in one region.
struct Listing {
  std::vector<Resource> resources{};
  // Machines that have ended, and when in seconds since 1970, where the cloud says so.
  std::map<std::string, std::optional<std::int64_t>> ended{};
};

class LeakSource : public PoolResources {
 public:
  virtual std::string_view name() const = 0;    // of the provider: "aws"
  virtual std::string_view vendor() const = 0;  // as people call it: "Amazon"
  // When their pool's time is over, and nobody is there to do it.
  virtual bool machines_end_themselves() const = 0;

  virtual Result<SweepAccount> sign_in(Time deadline) = 0;
  virtual Result<std::vector<std::string>> regions(Time deadline) = 0;
  // What has to be listed to see what stands in a region: the region, or "" where one listing shows
  // the whole account.
  virtual std::string place_of(const std::string& region) const { return region; }
  // Of this pool alone, where one is given.
  virtual Result<Listing> list(const std::string& region, const std::optional<std::string>& pool,
                               Time deadline) = 0;
  // Resources that remove() removes one by one. Machines are never among them; clear() removes all
  // others with their pool.
  virtual bool is_loose(const Resource&) const { return false; }
  virtual Status remove(const Resource&, Time) { return {}; }
  // What a user does to sweep a pool of another account.
  virtual std::string way_to_account(const LedgerPool& pool) const = 0;
};

Status sweep_account(const World& world, LeakSource& source, const SweepOptions& options,
                     const std::function<void(const Swept&)>& tell, Time deadline);

}  // namespace skyward::provider

#pragma once

// Finds and removes leaks: what pools have left behind at a cloud. It uses the ledger and the marks
// on the resources themselves, so that a computer that has never seen a pool can clean up after it.
//
// A machine in use is never touched. That is known for certain only for pools that this computer
// opened: their drivers hold a lock. Any other pool's resources are kept until the pool has
// expired.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

// A resource at a cloud with our mark; or what was not searched: "provider" means nowhere.
struct Resource {
  std::string kind{};  // "instance", "security_group", "volume"; "pool", "region", "provider"
  std::string id{};
  std::string region{};
  std::string pool{};
  std::string owner{};
  std::int64_t expires_s = 0;  // seconds since 1970
  std::string type{};          // of an instance
  bool stopped = false;        // an instance that is switched off for certain

  bool operator==(const Resource&) const = default;
};

// What this computer knows about a resource's pool.
struct PoolFacts {
  bool opened_here = false;     // on this computer, by its ledger
  bool at_work = false;         // its driver runs: it holds the lock
  bool ends_itself = true;      // its machines do so when its time is over
  bool by_credentials = false;  // other credentials of the same account are another owner
  bool rented = false;          // its machines cost money
  // Nobody knows whether this computer's clock and that of the pool's agree. Where machines end
  // themselves, it need not be known.
  bool is_clock_unknown = false;
};

struct Verdict {
  bool remove = false;
  std::string why{};  // in words
  // It is kept, but only since other credentials have to remove it: it costs money for nothing.
  bool overdue = false;
};

// `owner`: of the credentials that sweep. `asked_for`: the user named this pool. Pure.
Verdict judge(const Resource& resource, const PoolFacts& facts, const std::string& owner,
              bool asked_for, std::int64_t now_s);

struct SweepOptions {
  bool dry_run = false;
  std::vector<std::string> regions{};  // empty: all that the account has
  std::string home_region{};           // searched first; empty: from the cloud's own settings
  bool is_named = false;               // the user named the provider: it must answer
  std::optional<std::string> pool{};   // only this pool, expired or not
};

enum class SweepAction : std::uint8_t { removed, would_remove, kept, failed, skipped };
std::string_view to_string(SweepAction action);

struct Swept {
  Resource resource{};
  SweepAction action = SweepAction::kept;
  std::string why{};
  bool overdue = false;  // as the verdict has it
};

// Reports each resource as soon as it is handled. Fails if it could not search everywhere, after it
// has reported what it found.
using Sweep = Status (*)(const World& world, const SweepOptions& options,
                         const std::function<void(const Swept&)>& tell, Time deadline);

}  // namespace skyward::provider

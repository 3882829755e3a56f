#pragma once

// Finding what pools have left behind at a cloud, and removing it: from the ledger, and by the
// marks on the things themselves, so that a computer that has never seen a pool can clean up after
// it.
//
// A machine at work is never touched. Whether one is at work is known for certain only of the pools
// that this computer opened: their drivers hold a lock. Of any other pool nothing is removed before
// the time that it gave itself is over.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

// A thing at a cloud that bears our mark; or a place that was not looked at.
struct Resource {
  std::string kind{};  // "instance", "security_group", "volume"; "pool", "region"
  std::string id{};
  std::string region{};
  std::string pool{};
  std::string owner{};
  std::int64_t expires_s = 0;  // seconds since 1970
  std::string type{};          // of an instance

  bool operator==(const Resource&) const = default;
};

// What is known here of a thing's pool.
struct PoolFacts {
  bool opened_here = false;  // on this computer, by its ledger
  bool at_work = false;      // its driver lives: it holds its lock
};

struct Verdict {
  bool remove = false;
  std::string why{};  // in words
};

// `owner`: whoever sweeps. `asked_for`: the user named this very pool. Pure.
Verdict judge(const Resource& resource, const PoolFacts& facts, const std::string& owner,
              bool asked_for, std::int64_t now_s);

struct SweepOptions {
  bool dry_run = false;
  std::vector<std::string> regions{};  // empty: all that the account has
  std::string home_region{};           // asked first; empty: the cloud's own settings say it
  std::optional<std::string> pool{};   // this one only, whether or not its time is over
};

enum class SweepAction : std::uint8_t { removed, would_remove, kept, failed, skipped };
std::string_view to_string(SweepAction action);

struct Swept {
  Resource resource{};
  SweepAction action = SweepAction::kept;
  std::string why{};
};

// Tells each thing as soon as it is dealt with. Fails when it could not look everywhere; what was
// found until then is told.
using Sweep = Status (*)(const World& world, const SweepOptions& options,
                         const std::function<void(const Swept&)>& tell, Time deadline);

}  // namespace skyward::provider

#pragma once

// The marks on everything that Skyward creates at a cloud. With them, a computer that has never
// seen a pool finds its resources. The request that creates a resource sets them, never a later
// one. Depending on the cloud, they are tags, labels or part of a name.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/provider/ledger.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

inline constexpr const char* kManagedTag = "skyward:managed";  // "true"
inline constexpr const char* kPoolTag = "skyward:pool";        // "aws-1a2b3c4d"
inline constexpr const char* kOwnerTag = "skyward:owner";      // whose credentials made it
inline constexpr const char* kExpiresTag = "skyward:expires";  // seconds since 1970
inline constexpr const char* kNodesTag = "skyward:nodes";      // "0-3", "2"
inline constexpr const char* kLaunchTag = "skyward:launch";  // the key of the launch in the ledger

using Tags = std::vector<std::pair<std::string, std::string>>;

struct Mark {
  std::string pool{};
  std::string owner{};
  std::int64_t expires_s = 0;

  bool operator==(const Mark&) const = default;
};

Tags to_tags(const Mark& mark);
// Empty if they are not our marks.
std::optional<Mark> read_mark(const Tags& tags);
// The value of kNodesTag for `count` nodes from `first_node` on.
std::string nodes_text(int first_node, int count);

// At a cloud without tags, or where they appear late, the name of a thing carries the marks:
// "skyward-1a2b3c4d-3f2a1b7c-6744abcd-" and `rest`, which tells the pool's things apart. Lower-case
// letters, digits and '-', at most 63 in all: what a host may be called. Names do not say which
// provider they belong to, since each cloud has its own.
struct MarkedName {
  Mark mark{};
  std::string rest{};

  bool operator==(const MarkedName&) const = default;
};
std::string to_name(const MarkedName& name);
// Empty when it is none of ours. `provider`: what the ids of its pools begin with.
std::optional<MarkedName> read_name(std::string_view name, std::string_view provider);
// The owner as names have it: eight hex digits that stand for an account's or a user's id.
std::string owner_digits(std::string_view id);

// Checks a pool's id before it becomes part of a path: others may write tags and names.
bool is_pool_id(std::string_view id);

// The settings of a pool in the ledger that tell which computer opened it, and in which boot: its
// name, a hash of its id (empty: it has none), and the boot's id; and the number of its ledger's
// file.
std::map<std::string, std::string> this_computer(const World& world);
inline constexpr const char* kLedgerSetting = "ledger";  // the one with that number
// Whether this computer, `here`, opened the pool: computers may share a ledger, but not each
// other's locks. After a reboot, both its name and its id must be the same, where they are known:
// copies of a virtual machine may have one id, and containers one name. What was opened in another
// boot after this one began, at `booted_s`, was opened elsewhere. Older pools of computers with one
// id and one name cannot be told apart. A pool in a copy of its ledger was opened elsewhere, too:
// the copy has other locks.
bool opened_here(const LedgerPool& pool, std::int64_t booted_s,
                 const std::map<std::string, std::string>& here);
bool opened_here(const LedgerPool& pool, const World& world);

}  // namespace skyward::provider

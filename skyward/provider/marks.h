#pragma once

// The marks on everything that Skyward makes at a cloud: by them it is found from a computer that
// has never seen the pool. The request that makes a thing sets them, never a later one. A cloud has
// them as tags, as labels or as part of a name.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/provider/ledger.h"

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
// Empty when they are not our marks.
std::optional<Mark> read_mark(const Tags& tags);
// The value of kNodesTag for `count` nodes from `first_node` on.
std::string nodes_text(int first_node, int count);

// Others may write tags and names, and a pool's id becomes part of paths.
bool is_pool_id(std::string_view id);

// Among the settings of a pool in the ledger: which computer opened it, and its boot.
std::map<std::string, std::string> this_computer();
// Several computers may share a ledger, and not each other's locks. After a change of its name, a
// computer is the same until it boots.
bool opened_here(const LedgerPool& pool);

}  // namespace skyward::provider

#pragma once

// What ends a node that nobody uses, where a shell keeps it: in a Slurm job, in a pod. The agent
// claims the node by a file that it touches; the shell ends when that has not happened for long.
// Pure text.

#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/time.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider {

// A keeper ends when the file `claimed` has not been touched for `limit`, or there is one `over`,
// both in its directory.
struct KeeperTerms {
  Duration limit{};  // whole minutes
  Duration look_every = std::chrono::seconds(5);
};

// A keeper that no agent claims, or whose agent is gone, ends its node so soon.
inline constexpr Duration kUnclaimedKeeper = std::chrono::minutes(15);

// Of a pool's nodes.
KeeperTerms keeper_terms(const PoolSpec& spec);

// Sets $d, the keeper's directory, and what kKeepWhileClaimed reads. `directory`: for a shell on
// the node.
std::string keeper_settings(std::string_view directory, const KeeperTerms& terms);
// Waits until the keeper has to end. A trap runs at once. After a suspend, the first look may come
// before the agent touches its file. A redirection makes that file, since `touch` dates a new one
// when others can already see it.
inline constexpr const char* kKeepWhileClaimed = R"sh(
stale=0
while [ ! -e "$d/over" ]; do
  [ "$(find "$d/claimed" -mmin -$limit)" ] && stale=0 || stale=$((stale + 1))
  [ $stale -lt 2 ] || break
  sleep $look 3<&- &
  wait $!
done
)sh";

// For bash on the node, as the first step of a bootstrap: the agent claims the node from then on.
std::string claim_script(std::string_view directory);
// Ends the node's keeper.
std::vector<std::string> end_keeper_words(std::string_view directory);

}  // namespace skyward::provider

#include "skyward/provider/aws/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <ranges>

#include "skyward/provider/marks.h"
#include "skyward/provider/open_pools.h"
#include "skyward/provider/sweep.h"

namespace skyward::provider::aws {

namespace {

using namespace std::chrono_literals;

constexpr Duration kLookEvery = 2s;
// Machines that are shutting down keep their group for minutes: so long is worth waiting for it.
constexpr Duration kPatience = 5s;
// Until every request knows of a group that was made.
constexpr Duration kGroupKnown = 30s;
// Groups of earlier pools that are asked for at most.
constexpr std::ptrdiff_t kMostLeftGroups = 10;

std::string name_of(const std::string& pool) { return "skyward-" + pool; }

Error explained(const Client& client, const ApiError& error, std::string_view action) {
  return to_error(error, fmt::format("EC2 {} in {}", action, client.region()));
}

}  // namespace

Result<std::string> make_group(Client& client, PoolBook& book, const std::string& vpc,
                               const Tags& tags, Time deadline) {
  const std::string name = name_of(book.pool());
  const Status asked = book.ask({.key = name, .kind = "security_group"});
  if (!asked) return fail(asked);
  Ec2Api api(client);
  const auto made = api.create_security_group(name, vpc, name, tags, deadline);
  std::string id = made.value_or("");
  if (!made) {
    // An earlier try of this very request may have been heard.
    const ApiError& error = made.error();
    const bool duplicate = error.code == "InvalidGroup.Duplicate";
    if (is_certain(error) && !duplicate) {
      book.gone({name});
    } else {
      const auto found = api.describe_security_groups(
          {{"group-name", {name}}, {fmt::format("tag:{}", kPoolTag), {book.pool()}}}, deadline);
      if (found && !found->empty()) id = found->front().id;
    }
  }
  if (id.empty()) {
    return std::unexpected(
        made ? Error{ErrorKind::unavailable, "EC2 CreateSecurityGroup returned no id", "try again"}
             : explained(client, made.error(), "CreateSecurityGroup"));
  }
  if (Status status = book.made(name, {id}); !status) return fail(status);
  return id;
}

Time group_known_by(const World& world, Time deadline) {
  return std::min(deadline, world.now() + kGroupKnown);
}

bool await_group(const World& world, const ApiError& error, Time until) {
  return error.code == "InvalidGroup.NotFound" && wait_to_launch_again(world, kLookEvery, until);
}

namespace {

enum class Removed : std::uint8_t { gone, in_use, not_known };

// Asks once. A group that was made a moment ago is not gone for being unknown.
ApiResult<Removed> remove_group(Client& client, const std::string& id, Time made, Time deadline) {
  const auto done = Ec2Api(client).delete_security_group(id, deadline);
  if (done) return Removed::gone;
  const std::string& code = done.error().code;
  if (code == "DependencyViolation" || code == "InvalidGroup.InUse") return Removed::in_use;
  if (code != "InvalidGroup.NotFound") return std::unexpected(done.error());
  return client.world().now() < made + kGroupKnown ? Removed::not_known : Removed::gone;
}

}  // namespace

Result<std::vector<std::string>> remove_groups(Client& client, PoolBook& book, Time deadline) {
  const World& world = client.world();
  const auto found = Ec2Api(client).describe_security_groups(
      {{fmt::format("tag:{}", kPoolTag), {book.pool()}}}, deadline);
  if (!found) return std::unexpected(explained(client, found.error(), "DescribeSecurityGroups"));
  std::map<std::string, Time> groups;  // when they were made; long ago, if nobody knows
  for (const SecurityGroup& group : *found) groups[group.id] = world.now() - kGroupKnown;
  for (const LedgerEntry& entry : book.open_entries()) {
    if (entry.kind == "security_group" && !entry.id.empty()) {
      groups[entry.id] = world.now() - book.age_of(entry);
    }
  }
  std::vector<std::string> kept;
  for (const auto& [id, made] : groups) {
    const Time begin = world.now();
    while (true) {
      const auto removed = remove_group(client, id, made, deadline);
      if (!removed) {
        return std::unexpected(explained(client, removed.error(), "DeleteSecurityGroup " + id));
      }
      if (*removed == Removed::gone) {
        // Under its id, or under its name when the reply that told it was lost.
        book.gone({id, name_of(book.pool())});
        break;
      }
      const Time until = begin + (*removed == Removed::in_use ? kPatience : kGroupKnown);
      if (std::min(deadline, until) - world.now() <= kLookEvery) {
        kept.push_back(id);
        break;
      }
      world.pause(kLookEvery, {});
    }
  }
  return kept;
}

namespace {

struct LeftGroup {
  std::string id{};
  std::string pool{};
  Time made{};  // long ago, if nobody knows
};

// Of pools that this computer opened and that have nothing else left.
std::vector<LeftGroup> left_here(const Client& client, Ledger& ledger, const std::string& account) {
  const World& world = client.world();
  std::vector<LeftGroup> out;
  const auto pools = ledger.pools(true);
  if (!pools) return out;
  for (const LedgerPool& pool : *pools) {
    if (pool.provider != "aws" || pool.region != client.region() || !opened_here(world, pool) ||
        pool.setting("account") != account || is_open_here(world, pool.id)) {
      continue;
    }
    PoolBook book(world, ledger, pool.id);
    const std::vector<LedgerEntry> entries = book.open_entries();
    const bool groups_alone = std::ranges::all_of(entries, [](const LedgerEntry& entry) {
      return entry.kind == "security_group" && !entry.id.empty();
    });
    if (!groups_alone) continue;
    for (const LedgerEntry& entry : entries) {
      out.push_back({entry.id, pool.id, world.now() - book.age_of(entry)});
    }
  }
  return out;
}

// By their marks, whichever computer opened their pools: many keep no ledger, such as containers
// and the machines of CI.
void add_expired(Client& client, const std::string& owner, std::vector<LeftGroup>& out,
                 Time deadline) {
  const World& world = client.world();
  const auto listed = Ec2Api(client).describe_security_groups(
      {{fmt::format("tag:{}", kManagedTag), {"true"}}, {fmt::format("tag:{}", kOwnerTag), {owner}}},
      deadline);
  if (!listed) return;
  for (const SecurityGroup& group : *listed) {
    const auto mark = read_mark(group.tags);
    if (!mark || std::ranges::find(out, group.id, &LeftGroup::id) != out.end()) continue;
    const Resource resource{.kind = "security_group",
                            .id = group.id,
                            .region = client.region(),
                            .pool = mark->pool,
                            .owner = mark->owner,
                            .expires_s = mark->expires_s};
    const PoolFacts facts{.at_work = is_open_here(world, mark->pool)};
    if (!judge(resource, facts, owner, false, client.wall_s()).remove) continue;
    out.push_back({group.id, mark->pool, world.now() - kGroupKnown});
  }
}

}  // namespace

void remove_left_groups(Client& client, Ledger& ledger, const CallerIdentity& caller,
                        Time deadline) {
  const World& world = client.world();
  std::vector<LeftGroup> left = left_here(client, ledger, caller.account);
  add_expired(client, caller.owner, left, deadline);
  if (left.empty()) return;
  // Each time, another one is the first: some may never go, and must not keep the others.
  const auto first = world.wall_s() % static_cast<std::int64_t>(left.size());
  std::ranges::rotate(left, left.begin() + first);
  for (const LeftGroup& group : left | std::views::take(kMostLeftGroups)) {
    const auto removed = remove_group(client, group.id, group.made, deadline);
    if (!removed && removed.error().heard != Heard::answered) return;
    if (!removed || *removed != Removed::gone) continue;
    PoolBook book(world, ledger, group.pool);  // without effect if the ledger lacks the pool
    book.gone({group.id});
    (void)book.close_when_clear(0);
  }
}

}  // namespace skyward::provider::aws

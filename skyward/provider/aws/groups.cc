#include "skyward/provider/aws/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "skyward/provider/aws/tags.h"

namespace skyward::provider::aws {

namespace {

using namespace std::chrono_literals;

constexpr Duration kLookEvery = 3s;
// For the interfaces of machines that are shutting down.
constexpr Duration kPatience = 60s;

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
    if (is_refusal(error) && !duplicate) {
      book.gone({name});
    } else {
      const auto found = api.describe_security_groups(
          {{"group-name", {name}}, {fmt::format("tag:{}", kPoolTag), {book.pool()}}}, deadline);
      if (found && !found->empty()) id = found->front().id;
    }
  }
  if (id.empty()) {
    return std::unexpected(
        made ? Error{ErrorKind::unavailable, "EC2 CreateSecurityGroup told no id", "try again"}
             : explained(client, made.error(), "CreateSecurityGroup"));
  }
  if (Status status = book.made(name, {id}); !status) return fail(status);
  return id;
}

Status remove_groups(Client& client, PoolBook& book, Time deadline) {
  const World& world = client.world();
  Ec2Api api(client);
  const auto found =
      api.describe_security_groups({{fmt::format("tag:{}", kPoolTag), {book.pool()}}}, deadline);
  if (!found) return std::unexpected(explained(client, found.error(), "DescribeSecurityGroups"));
  std::vector<std::string> ids;
  for (const SecurityGroup& group : *found) ids.push_back(group.id);
  for (const LedgerEntry& entry : book.open_entries()) {
    const bool known = std::ranges::find(ids, entry.id) != ids.end();
    if (entry.kind == "security_group" && !entry.id.empty() && !known) ids.push_back(entry.id);
  }
  const Time until = std::min(deadline, world.now() + kPatience);
  for (const std::string& id : ids) {
    while (true) {
      const auto done = api.delete_security_group(id, deadline);
      if (done || done.error().code == "InvalidGroup.NotFound") break;
      const bool used =
          done.error().code == "DependencyViolation" || done.error().code == "InvalidGroup.InUse";
      if (!used || until - world.now() <= kLookEvery) {
        Error error = explained(client, done.error(), "DeleteSecurityGroup " + id);
        if (used)
          error.hint = "it costs nothing; 'skyward gc' removes it when its machines are gone";
        return std::unexpected(std::move(error));
      }
      world.pause(kLookEvery, {});
    }
    // Under its id, or under its name when the reply that told it was lost.
    book.gone({id, name_of(book.pool())});
  }
  return {};
}

}  // namespace skyward::provider::aws

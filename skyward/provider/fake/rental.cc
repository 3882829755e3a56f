#include "skyward/provider/fake/rental.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <utility>

namespace skyward::provider::fake {

namespace {

using namespace std::chrono_literals;

// Listings of the worst of these clouds lag by a minute; nobody tells a client by how much.
constexpr Duration kListingLag = 90s;

Stage stage_of(MachineState state) {
  switch (state) {
    case MachineState::pending:
      return Stage::pending;
    case MachineState::running:
      return Stage::running;
    case MachineState::ending:
      return Stage::terminating;
    case MachineState::ended:
      break;
  }
  return Stage::terminated;
}

MachineStatus to_status(const Machine& told) {
  MachineStatus out{.instance = {.id = told.id, .spot = told.spot, .private_ip = told.private_ip},
                    .zone = told.zone,
                    .stage = stage_of(told.state),
                    .reason = told.reason,
                    .capacity = true};
  out.instance.instance_type = told.type;
  (told.spot ? out.instance.price_spot : out.instance.price_on_demand) = to_dollars(told.hourly);
  return out;
}

}  // namespace

bool Client::is_passing(const Refusal& refusal) {
  return refusal.code == "Throttled" || refusal.code == "InternalError" ||
         refusal.code == "NoReply" || refusal.code == "InUse";
}

bool Client::may_be_done(const Refusal& refusal) {
  return refusal.code == "InternalError" || refusal.code == "NoReply";
}

Error to_error(const Refusal& refusal, std::string_view action) {
  const std::string text =
      fmt::format("fake cloud, {}: {}: {}", action, refusal.code, refusal.message);
  if (refusal.code == "NoCapacity" || refusal.code == "PriceTooLow") {
    return {ErrorKind::exhausted, text, {}};
  }
  if (refusal.code == "QuotaExceeded") {
    return {ErrorKind::exhausted, text, "ask for fewer machines, or raise the account's quota"};
  }
  if (refusal.code == "Violation") return {ErrorKind::invalid, text, {}};
  return {ErrorKind::unavailable, text, "try again"};
}

// ---- Machines

const MachineApiFacts& Rental::facts() const {
  static const MachineApiFacts& kFacts = *new const MachineApiFacts{.cloud = "fake cloud",
                                                                    .region = kRegion,
                                                                    .listing_lag = kListingLag,
                                                                    .known_after = 300s,
                                                                    .release_time = 600s,
                                                                    .unanswered_limit_s = 600,
                                                                    .ends_itself = true};
  return kFacts;
}

std::expected<std::vector<std::string>, LaunchRefusal> Rental::launch(const LaunchBatch& batch,
                                                                      Time deadline) {
  LaunchRequest request = common_;
  request.token = batch.token;
  request.count = batch.count;
  request.type = batch.place.type;
  request.zone = batch.place.zone;
  request.spot = batch.spot;
  request.tags[kLaunchTag] = batch.token;
  const auto made = client_.call(
      deadline, [&](Cloud& cloud, Time now) { return cloud.run_machines(now, request); });
  if (!made) {
    const Refusal& refusal = made.error();
    Error error = to_error(refusal, "RunMachines");
    const bool capacity = error.kind == ErrorKind::exhausted;
    return std::unexpected(LaunchRefusal{.why = {.error = std::move(error),
                                                 .capacity = capacity,
                                                 .quota = refusal.code == "QuotaExceeded"},
                                         .code = refusal.code,
                                         .certain = !refusal.maybe_done});
  }
  std::vector<std::string> ids;
  for (const Machine& one : *made) ids.push_back(one.id);
  return ids;
}

Result<std::vector<MachineStatus>> Rental::find(std::string_view token, Time deadline) {
  const Tags tags = {{kPoolTag, pool_}};
  const Tags mark = token.empty() ? tags : Tags{{kLaunchTag, std::string(token)}};
  const auto found = client_.call(
      deadline, [&](Cloud& cloud, Time now) { return cloud.list_machines(now, mark); });
  if (!found) return std::unexpected(to_error(found.error(), "ListMachines"));
  std::vector<MachineStatus> out;
  std::ranges::transform(*found, std::back_inserter(out), to_status);
  return out;
}

Result<std::vector<MachineStatus>> Rental::look_up(const std::vector<std::string>& ids,
                                                   Time deadline) {
  auto found = find("", deadline);
  if (found) {
    std::erase_if(*found, [&](const MachineStatus& one) {
      return std::ranges::find(ids, one.instance.id) == ids.end();
    });
  }
  return found;
}

Result<std::vector<std::string>> Rental::terminate(const std::vector<std::string>& ids,
                                                   Time deadline) {
  if (ids.empty()) return ids;
  const auto done =
      client_.call(deadline, [&](Cloud& cloud, Time now) { return cloud.end_machines(now, ids); });
  if (!done) return std::unexpected(to_error(done.error(), "EndMachines"));
  return ids;
}

// ---- Other things

Result<std::string> make_item(Client& client, PoolBook& book, const std::string& kind,
                              const Tags& tags, Time deadline) {
  const std::string name = fmt::format("{}-{}", book.pool(), kind);
  if (Status status = book.ask({.key = name, .kind = kind}); !status) return fail(status);
  const auto made = client.call(
      deadline, [&](Cloud& cloud, Time now) { return cloud.make_item(now, kind, name, tags); });
  if (!made) return std::unexpected(to_error(made.error(), "MakeItem"));
  if (Status status = book.made(name, {*made}); !status) return fail(status);
  return *made;
}

// What is listed, and what is too young to be; the latter by our own name where no other was ever
// told.
Status remove_items(Client& client, PoolBook& book, Time deadline) {
  const auto listed = client.call(deadline, [&](Cloud& cloud, Time now) {
    return cloud.list_items(now, {{kPoolTag, book.pool()}});
  });
  if (!listed) return std::unexpected(to_error(listed.error(), "ListItems"));
  std::set<std::pair<std::string, std::string>> there;  // kind, id or name
  for (const Item& item : *listed) there.emplace(item.kind, item.id);
  std::vector<std::string> removed;
  for (const LedgerEntry& entry : book.open_entries()) {
    if (entry.kind == "instance") continue;
    removed.push_back(entry.id.empty() ? entry.key : entry.id);
    if (client.world().wall_s() - entry.asked_s > kListingLag / 1s) continue;
    there.emplace(entry.kind, removed.back());
  }
  for (const auto& [kind, id_or_name] : there) {
    const auto done = client.call(
        deadline, [&](Cloud& cloud, Time now) { return cloud.delete_item(now, kind, id_or_name); });
    if (!done && done.error().code != "NotFound") {
      return std::unexpected(to_error(done.error(), "DeleteItem"));
    }
  }
  book.gone(removed);
  return {};
}

}  // namespace skyward::provider::fake

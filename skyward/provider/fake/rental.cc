#include "skyward/provider/fake/rental.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>
#include <variant>

namespace skyward::provider::fake {

namespace {

using namespace std::chrono_literals;

constexpr Duration kFirstLook = 1s;
constexpr Duration kLongestLook = 5s;
// Listings of the worst of these clouds lag by a minute; nobody tells a client by how much.
constexpr Duration kListingLag = 90s;
constexpr Duration kGiveBackTime = 600s;

bool has_ended(const Machine& machine) {
  return machine.state == MachineState::ending || machine.state == MachineState::ended;
}

std::vector<std::string> ids_of(const std::vector<Machine>& machines) {
  std::vector<std::string> ids;
  for (const Machine& machine : machines) ids.push_back(machine.id);
  return ids;
}

}  // namespace

bool Client::is_passing(const Refusal& refusal) {
  return refusal.code == "Throttled" || refusal.code == "InternalError" ||
         refusal.code == "NoReply" || refusal.code == "InUse";
}

Error to_error(const Refusal& refusal, std::string_view action) {
  const std::string text =
      fmt::format("fake cloud, {}: {}: {}", action, refusal.code, refusal.message);
  if (refusal.code == "NoCapacity" || refusal.code == "PriceTooLow") {
    return {ErrorKind::exhausted, text, "try later, or allow other types or on-demand machines"};
  }
  if (refusal.code == "QuotaExceeded") {
    return {ErrorKind::exhausted, text, "ask for fewer machines, or raise the account's quota"};
  }
  if (refusal.code == "Violation") return {ErrorKind::invalid, text, {}};
  return {ErrorKind::unavailable, text, "try again"};
}

Result<std::vector<Machine>> Rental::list(const Tags& tags, Time deadline) {
  auto found = client_.call(deadline,
                            [&](Cloud& cloud, Time now) { return cloud.list_machines(now, tags); });
  if (!found) return std::unexpected(to_error(found.error(), "ListMachines"));
  return *std::move(found);
}

// ---- Buying

Result<std::string> Rental::make_item(const std::string& kind, const Tags& tags, Time deadline) {
  const std::string name = fmt::format("{}-{}", book_.pool(), kind);
  if (Status status = book_.ask({.key = name, .kind = kind}); !status) return fail(status);
  const auto made = client_.call(
      deadline, [&](Cloud& cloud, Time now) { return cloud.make_item(now, kind, name, tags); });
  if (!made) return std::unexpected(to_error(made.error(), "MakeItem"));
  if (Status status = book_.made(name, {*made}); !status) return fail(status);
  return *made;
}

std::expected<std::vector<Machine>, LaunchFailure> Rental::await_running(
    const std::vector<std::string>& ids, const std::string& token, Time deadline) {
  const World& world = client_.world();
  for (Duration pause = kFirstLook;; pause = std::min(pause * 2, kLongestLook)) {
    const auto found = list({{kLaunchTag, token}}, deadline);
    if (!found) return std::unexpected(LaunchFailure{found.error()});
    std::vector<Machine> running;
    for (const Machine& one : *found) {
      if (one.state == MachineState::running) running.push_back(one);
      if (!has_ended(one)) continue;
      return std::unexpected(LaunchFailure{
          {ErrorKind::exhausted,
           fmt::format("{} in {} ended before it ran: {}", one.type, one.zone, one.reason),
           "try again, or choose another type"},
          true});
    }
    if (running.size() == ids.size()) return running;
    if (deadline - world.now() <= pause) {
      return std::unexpected(LaunchFailure{{ErrorKind::timeout,
                                            fmt::format("{} of {} machines did not start in time",
                                                        ids.size() - running.size(), ids.size()),
                                            "try again, or choose another type"}});
    }
    if (world.buying.stop_requested()) return std::unexpected(LaunchFailure{no_longer_wanted()});
    world.pause(pause, world.buying.get_token());
  }
}

std::expected<std::vector<Machine>, LaunchFailure> Rental::attempt(const LaunchOrder& order,
                                                                   const Attempt& wanted,
                                                                   LaunchRecord& record,
                                                                   Time deadline) {
  const World& world = client_.world();
  const Placement& place = order.wish.places[wanted.placement];
  LaunchRequest request = order.request;
  request.token = fmt::format("{}-{}", book_.pool(), world.random_hex(16));
  request.count = wanted.count;
  request.type = place.type;
  request.zone = place.zone;
  request.spot = wanted.spot;
  request.tags[kLaunchTag] = request.token;
  const auto price = wanted.spot ? place.spot_price : place.on_demand_price;
  const LedgerEntry entry{.key = request.token,
                          .kind = "instance",
                          .count = wanted.count,
                          .spot = wanted.spot,
                          .instance_type = place.type,
                          .hourly_micro_dollars = to_micro_dollars(price.value_or(0))};
  if (Status status = book_.ask(entry); !status) {
    return std::unexpected(LaunchFailure{status.error()});
  }
  const auto made = client_.call(
      deadline, [&](Cloud& cloud, Time now) { return cloud.run_machines(now, request); });
  if (!made) {
    const Error error = to_error(made.error(), "RunMachines");
    if (error.kind == ErrorKind::unavailable)
      return std::unexpected(withdraw(request, {}, record, {error}));
    book_.gone({request.token});
    const std::string& code = made.error().code;
    return std::unexpected(
        record.refused(place, wanted.spot, code,
                       {error, error.kind == ErrorKind::exhausted, code == "QuotaExceeded"}));
  }
  const std::vector<std::string> ids = ids_of(*made);
  if (Status status = book_.made(request.token, ids); !status) {
    return std::unexpected(withdraw(request, ids, record, {status.error()}));
  }
  auto running = await_running(ids, request.token, deadline);
  if (!running) return std::unexpected(withdraw(request, ids, record, running.error()));
  return running;
}

// Nobody knows what was made, or it is of no use: all that bears this launch's mark goes.
LaunchFailure Rental::withdraw(const LaunchRequest& request, std::vector<std::string> ids,
                               LaunchRecord& record, LaunchFailure why) {
  const World& world = client_.world();
  const Time until = world.now() + kGiveBackTime;
  const Time look_until = world.now() + kListingLag;
  while (ids.empty()) {
    if (const auto found = list({{kLaunchTag, request.token}}, until)) ids = ids_of(*found);
    if (!ids.empty()) (void)book_.made(request.token, ids);
    if (world.now() >= look_until) break;
    if (ids.empty()) world.pause(kLongestLook, {});
  }
  if (Status ended = end(ids, until); !ended) {
    why.error.message += "; " + ended.error().message;
  }
  record.withdrawn(why.error.message);
  return why;
}

Result<std::vector<Machine>> Rental::launch(const LaunchOrder& order, std::string_view region,
                                            Time deadline) {
  const World& world = client_.world();
  LaunchRecord record("fake cloud", region);
  const LaunchHands<Machine> hands{
      .attempt = [&](const Attempt& wanted) { return attempt(order, wanted, record, deadline); },
      .give_back =
          [&](const std::vector<Machine>& machines) {
            return end(ids_of(machines), world.now() + kGiveBackTime);
          }};
  return launch_all(world, order.wish, record, hands, deadline);
}

// ---- Giving back

// A listing lags, and forgets in time: what is not in it is believed to be gone when it was in it
// before, or has had the time to come. Adds to `gone` whatever is.
Status Rental::see_off(const std::vector<std::string>& ids, std::vector<std::string>& gone,
                       Time deadline) {
  const World& world = client_.world();
  const Time listed_by = std::min(deadline, world.now() + kListingLag);
  std::set<std::string> left(ids.begin(), ids.end());
  std::set<std::string> seen;
  std::set<std::string> asked;
  for (Duration pause = kFirstLook; !left.empty(); pause = std::min(pause * 2, kLongestLook)) {
    const auto end_them = [&](const std::vector<std::string>& those) {
      return client_.call(deadline,
                          [&](Cloud& cloud, Time now) { return cloud.end_machines(now, those); });
    };
    const auto found = list({{kPoolTag, book_.pool()}}, deadline);
    if (!found) {
      // Unseen is not gone: they are asked to end all the same.
      (void)end_them({left.begin(), left.end()});
      return fail(found);
    }
    std::vector<std::string> standing;
    std::set<std::string> listed;
    for (const Machine& one : *found) {
      if (!left.contains(one.id)) continue;
      listed.insert(one.id);
      seen.insert(one.id);
      if (!has_ended(one) && !asked.contains(one.id)) standing.push_back(one.id);
      if (one.state != MachineState::ended) continue;
      left.erase(one.id);
      gone.push_back(one.id);
    }
    for (auto id = left.begin(); id != left.end();) {
      const bool absent = !listed.contains(*id);
      if (absent && (seen.contains(*id) || world.now() >= listed_by)) {
        gone.push_back(*id);
        id = left.erase(id);
      } else {
        ++id;
      }
    }
    if (!standing.empty()) {
      const auto done = end_them(standing);
      if (!done) return std::unexpected(to_error(done.error(), "EndMachines"));
      asked.insert(standing.begin(), standing.end());
    }
    if (left.empty()) break;
    if (deadline - world.now() <= pause) {
      return fail(ErrorKind::timeout,
                  fmt::format("the fake cloud has not yet ended {}", fmt::join(left, ", ")),
                  "they end themselves when their time is over");
    }
    world.pause(pause, {});
  }
  return {};
}

Status Rental::end(const std::vector<std::string>& ids, Time deadline) {
  std::vector<std::string> gone;
  Status status = see_off(ids, gone, deadline);
  book_.gone(gone);
  return status;
}

Status Rental::end_all(Time deadline) {
  std::set<std::string> ids;
  for (const LedgerEntry& entry : book_.open_entries()) {
    if (entry.kind == "instance" && !entry.id.empty()) ids.insert(entry.id);
  }
  const auto found = list({{kPoolTag, book_.pool()}}, deadline);
  for (const Machine& one : found.value_or(std::vector<Machine>())) {
    if (one.state != MachineState::ended) ids.insert(one.id);
  }
  const Status ended = end({ids.begin(), ids.end()}, deadline);
  return ended && !found ? Status(fail(found)) : ended;
}

// What is listed, and what is too young to be; the latter by our own name where no other was ever
// told.
Status Rental::remove_items(Time deadline) {
  const World& world = client_.world();
  const auto listed = client_.call(deadline, [&](Cloud& cloud, Time now) {
    return cloud.list_items(now, {{kPoolTag, book_.pool()}});
  });
  if (!listed) return std::unexpected(to_error(listed.error(), "ListItems"));
  std::set<std::pair<std::string, std::string>> there;  // kind, id or name
  for (const Item& item : *listed) there.emplace(item.kind, item.id);
  std::vector<std::string> removed;
  for (const LedgerEntry& entry : book_.open_entries()) {
    if (entry.kind == "instance") continue;
    removed.push_back(entry.id.empty() ? entry.key : entry.id);
    if (world.wall_s() - entry.asked_s > kListingLag / 1s) continue;
    there.emplace(entry.kind, removed.back());
  }
  for (const auto& [kind, id_or_name] : there) {
    const auto done = client_.call(
        deadline, [&](Cloud& cloud, Time now) { return cloud.delete_item(now, kind, id_or_name); });
    if (!done && done.error().code != "NotFound") {
      return std::unexpected(to_error(done.error(), "DeleteItem"));
    }
  }
  book_.gone(removed);
  return {};
}

}  // namespace skyward::provider::fake

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
// A request that was not answered by then has brought nothing.
constexpr std::int64_t kNothingComesOfIt_s = 600;

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
  const World& world = client_.world();
  const std::string name = fmt::format("{}-{}", pool_, kind);
  const LedgerEntry entry{.key = name, .pool = pool_, .kind = kind, .asked_s = world.wall_s()};
  if (Status status = ledger_.ask(entry); !status) return fail(status);
  const auto made = client_.call(
      deadline, [&](Cloud& cloud, Time now) { return cloud.make_item(now, kind, name, tags); });
  if (!made) return std::unexpected(to_error(made.error(), "MakeItem"));
  if (Status status = ledger_.made(pool_, name, {*made}); !status) return fail(status);
  return *made;
}

std::expected<std::vector<Machine>, Rental::Failed> Rental::await_running(
    const std::vector<std::string>& ids, const std::string& token, Time deadline) {
  const World& world = client_.world();
  for (Duration pause = kFirstLook;; pause = std::min(pause * 2, kLongestLook)) {
    const auto found = list({{kLaunchTag, token}}, deadline);
    if (!found) return std::unexpected(Failed{found.error()});
    std::vector<Machine> running;
    for (const Machine& one : *found) {
      if (one.state == MachineState::running) running.push_back(one);
      if (!has_ended(one)) continue;
      return std::unexpected(
          Failed{{ErrorKind::exhausted,
                  fmt::format("{} in {} ended before it ran: {}", one.type, one.zone, one.reason),
                  "try again, or choose another type"},
                 true});
    }
    if (running.size() == ids.size()) return running;
    if (deadline - world.now() <= pause) {
      return std::unexpected(Failed{{ErrorKind::timeout,
                                     fmt::format("{} of {} machines did not start in time",
                                                 ids.size() - running.size(), ids.size()),
                                     "try again, or choose another type"}});
    }
    world.pause(pause);
  }
}

std::expected<std::vector<Machine>, Rental::Failed> Rental::attempt(const LaunchOrder& order,
                                                                    const Attempt& wanted,
                                                                    Time deadline) {
  const World& world = client_.world();
  const Placement& place = order.places[wanted.placement];
  LaunchRequest request = order.request;
  request.token = fmt::format("{}-{}", pool_, world.random_hex(16));
  request.count = wanted.count;
  request.type = place.type;
  request.zone = place.zone;
  request.spot = wanted.spot;
  request.tags[kLaunchTag] = request.token;
  const auto price = wanted.spot ? place.spot_price : place.on_demand_price;
  const LedgerEntry entry{.key = request.token,
                          .pool = pool_,
                          .kind = "instance",
                          .count = wanted.count,
                          .spot = wanted.spot,
                          .instance_type = place.type,
                          .hourly_micro_dollars = to_micro_dollars(price.value_or(0)),
                          .asked_s = world.wall_s()};
  if (Status status = ledger_.ask(entry); !status) return std::unexpected(Failed{status.error()});
  const auto made = client_.call(
      deadline, [&](Cloud& cloud, Time now) { return cloud.run_machines(now, request); });
  if (!made) {
    const Error error = to_error(made.error(), "RunMachines");
    if (error.kind == ErrorKind::unavailable)
      return std::unexpected(withdraw(request, {}, {error}));
    if (Status status = ledger_.gone(pool_, request.token, world.wall_s()); !status) {
      return std::unexpected(Failed{status.error()});
    }
    refusals_.push_back(fmt::format("{} in {}{}: {}", place.type, place.zone,
                                    wanted.spot ? " as spot" : "", made.error().code));
    return std::unexpected(
        Failed{error, error.kind == ErrorKind::exhausted, made.error().code == "QuotaExceeded"});
  }
  const std::vector<std::string> ids = ids_of(*made);
  if (Status status = ledger_.made(pool_, request.token, ids); !status) {
    return std::unexpected(withdraw(request, ids, {status.error()}));
  }
  auto running = await_running(ids, request.token, deadline);
  if (!running) return std::unexpected(withdraw(request, ids, running.error()));
  return running;
}

// Nobody knows what was made, or it is of no use: all that bears this launch's mark goes.
Rental::Failed Rental::withdraw(const LaunchRequest& request, std::vector<std::string> ids,
                                Failed why) {
  const World& world = client_.world();
  const Time until = world.now() + kGiveBackTime;
  const Time look_until = world.now() + kListingLag;
  while (ids.empty()) {
    if (const auto found = list({{kLaunchTag, request.token}}, until)) ids = ids_of(*found);
    if (!ids.empty()) (void)ledger_.made(pool_, request.token, ids);
    if (world.now() >= look_until) break;
    if (ids.empty()) world.pause(kLongestLook);
  }
  if (Status ended = end(std::move(ids), until); !ended) {
    why.error.message += "; " + ended.error().message;
  }
  refusals_.push_back(why.error.message);
  return why;
}

Error Rental::no_machines(Outcome outcome, const LaunchOrder& order) const {
  const std::set<std::string> shown(refusals_.begin(), refusals_.end());
  const std::string what =
      outcome == Outcome::spot_minimum_not_met
          ? fmt::format("fewer than {} of {} machines are to be had as spot machines",
                        least_spot_count(order.spot, order.count), order.count)
          : fmt::format("{} {}machine{} cannot be had", order.count,
                        order.spot.kind == SpotKind::always ? "spot " : "",
                        order.count == 1 ? "" : "s");
  return {.kind = ErrorKind::exhausted,
          .message = fmt::format("fake cloud: {}: {}", what,
                                 shown.empty() ? "none of the types is sold so"
                                               : fmt::format("{}", fmt::join(shown, "; "))),
          .hint = "allow on-demand machines (spot=\"if-available\"), or choose another type"};
}

Result<std::vector<Machine>> Rental::launch(const LaunchOrder& order, Time deadline) {
  const World& world = client_.world();
  refusals_.clear();
  LaunchPlan plan(order.spot, order.count, order.places);
  std::vector<Machine> machines;
  const auto give_back = [&](Error why) -> Result<std::vector<Machine>> {
    if (Status ended = end(ids_of(machines), world.now() + kGiveBackTime); !ended) {
      why.message += "; " + ended.error().message;
    }
    return std::unexpected(std::move(why));
  };
  while (true) {
    const Step step = plan.next();
    if (const auto* outcome = std::get_if<Outcome>(&step)) {
      if (*outcome != Outcome::complete) return give_back(no_machines(*outcome, order));
      return machines;
    }
    if (const auto* wait = std::get_if<Wait>(&step)) {
      if (deadline - world.now() <= wait->duration) {
        return give_back(no_machines(Outcome::no_capacity, order));
      }
      world.pause(wait->duration);
    } else if (std::holds_alternative<GiveBack>(step)) {
      if (Status ended = end(ids_of(machines), world.now() + kGiveBackTime); !ended) {
        return std::unexpected(ended.error());
      }
      machines.clear();
    } else {
      auto made = attempt(order, std::get<Attempt>(step), deadline);
      if (made) {
        std::ranges::move(*made, std::back_inserter(machines));
        plan.on_launched();
      } else if (made.error().capacity) {
        plan.on_refused(made.error().quota);
      } else if (made.error().error.kind == ErrorKind::timeout && refusals_.size() > 1) {
        return give_back(no_machines(Outcome::no_capacity, order));
      } else {
        return give_back(made.error().error);
      }
    }
  }
}

// ---- Giving back

// A listing lags, and forgets in time: what is not in it is believed to be gone when it was in it
// before, or has had the time to come.
Status Rental::end(std::vector<std::string> ids, Time deadline) {
  const World& world = client_.world();
  const Time listed_by = std::min(deadline, world.now() + kListingLag);
  std::set<std::string> left(ids.begin(), ids.end());
  std::set<std::string> seen;
  std::set<std::string> asked;
  for (Duration pause = kFirstLook; !left.empty(); pause = std::min(pause * 2, kLongestLook)) {
    const auto found = list({{kPoolTag, pool_}}, deadline);
    if (!found) return fail(found);
    std::vector<std::string> standing;
    std::set<std::string> listed;
    for (const Machine& one : *found) {
      if (!left.contains(one.id)) continue;
      listed.insert(one.id);
      seen.insert(one.id);
      if (!has_ended(one) && !asked.contains(one.id)) standing.push_back(one.id);
      if (one.state != MachineState::ended) continue;
      left.erase(one.id);
      if (Status status = ledger_.gone(pool_, one.id, world.wall_s()); !status) return status;
    }
    for (auto id = left.begin(); id != left.end();) {
      const bool absent = !listed.contains(*id);
      if (absent && (seen.contains(*id) || world.now() >= listed_by)) {
        if (Status status = ledger_.gone(pool_, *id, world.wall_s()); !status) return status;
        id = left.erase(id);
      } else {
        ++id;
      }
    }
    if (!standing.empty()) {
      const auto done = client_.call(
          deadline, [&](Cloud& cloud, Time now) { return cloud.end_machines(now, standing); });
      if (!done) return std::unexpected(to_error(done.error(), "EndMachines"));
      asked.insert(standing.begin(), standing.end());
    }
    if (left.empty()) break;
    if (deadline - world.now() <= pause) {
      return fail(ErrorKind::timeout,
                  fmt::format("the fake cloud has not yet ended {}", fmt::join(left, ", ")),
                  "they end themselves when their time is over");
    }
    world.pause(pause);
  }
  return {};
}

Status Rental::end_all(Time deadline) {
  const auto entries = ledger_.entries(pool_, true);
  if (!entries) return fail(entries);
  const auto found = list({{kPoolTag, pool_}}, deadline);
  if (!found) return fail(found);
  std::set<std::string> ids;
  for (const LedgerEntry& entry : *entries) {
    if (entry.kind == "instance" && !entry.id.empty()) ids.insert(entry.id);
  }
  for (const Machine& one : *found) {
    if (one.state != MachineState::ended) ids.insert(one.id);
  }
  return end({ids.begin(), ids.end()}, deadline);
}

// What is listed, and what is too young to be; the latter by our own name where no other was ever
// told.
Status Rental::remove_items(Time deadline) {
  const World& world = client_.world();
  const auto listed = client_.call(
      deadline, [&](Cloud& cloud, Time now) { return cloud.list_items(now, {{kPoolTag, pool_}}); });
  if (!listed) return std::unexpected(to_error(listed.error(), "ListItems"));
  std::set<std::pair<std::string, std::string>> there;  // kind, id or name
  for (const Item& item : *listed) there.emplace(item.kind, item.id);
  const auto entries = ledger_.entries(pool_, true);
  if (!entries) return fail(entries);
  for (const LedgerEntry& entry : *entries) {
    if (entry.kind == "instance") continue;
    if (world.wall_s() - entry.asked_s > kListingLag / 1s) continue;
    there.emplace(entry.kind, entry.id.empty() ? entry.key : entry.id);
  }
  for (const auto& [kind, id_or_name] : there) {
    const auto done = client_.call(
        deadline, [&](Cloud& cloud, Time now) { return cloud.delete_item(now, kind, id_or_name); });
    if (!done && done.error().code != "NotFound") {
      return std::unexpected(to_error(done.error(), "DeleteItem"));
    }
  }
  for (const LedgerEntry& entry : *entries) {
    if (entry.kind == "instance") continue;
    const std::string& known_as = entry.id.empty() ? entry.key : entry.id;
    if (Status status = ledger_.gone(pool_, known_as, world.wall_s()); !status) return status;
  }
  return {};
}

Status Rental::close_when_clear() {
  const World& world = client_.world();
  const auto entries = ledger_.entries(pool_, true);
  if (!entries) return fail(entries);
  bool clear = true;
  for (const LedgerEntry& entry : *entries) {
    if (entry.id.empty() && world.wall_s() - entry.asked_s >= kNothingComesOfIt_s) {
      if (Status status = ledger_.gone(pool_, entry.key, world.wall_s()); !status) return status;
    } else {
      clear = false;
    }
  }
  return clear ? ledger_.close_pool(pool_, world.wall_s()) : Status();
}

}  // namespace skyward::provider::fake

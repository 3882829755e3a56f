#include "skyward/provider/aws/fleet.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "skyward/provider/aws/tags.h"
#include "skyward/spec/cost.h"

namespace skyward::provider::aws {

namespace {

using namespace std::chrono_literals;

constexpr Duration kFirstLook = 1s;
constexpr Duration kLongestLook = 5s;
// What was made a moment ago may not be listed yet.
constexpr Duration kListingLag = 45s;
// For giving back what a failed launch has made, whatever is left of its own time.
constexpr Duration kGiveBackTime = 90s;
constexpr std::size_t kMostFilterValues = 200;
constexpr std::size_t kRefusalsShown = 4;

std::string_view hint_for(const Spot& spot) {
  switch (spot.kind) {
    case SpotKind::always:
      return "try later, allow on-demand machines (spot=\"if-available\"), or choose another type "
             "or region";
    case SpotKind::percent:
      return "try later, ask for a smaller share of spot machines, or choose another type or "
             "region";
    case SpotKind::if_available:
    case SpotKind::never:
    case SpotKind::cheapest:
      break;
  }
  return "try later, ask for fewer machines, or choose another type or region";
}

std::vector<std::string> ids_of(const std::vector<Launched>& machines) {
  std::vector<std::string> ids;
  for (const Launched& machine : machines) ids.push_back(machine.instance.id);
  return ids;
}

}  // namespace

bool is_gone(const Ec2Instance& instance) {
  return instance.state == "shutting-down" || instance.state == "terminated";
}

Error Fleet::explained(const ApiError& error, std::string_view action) const {
  return to_error(error, fmt::format("EC2 {} in {}", action, client_.region()));
}

Result<std::vector<Ec2Instance>> Fleet::find(const std::vector<Filter>& filters, Time deadline) {
  auto found = Ec2Api(client_).describe_instances({}, filters, deadline);
  if (!found) return std::unexpected(explained(found.error(), "DescribeInstances"));
  return *std::move(found);
}

Result<std::vector<Ec2Instance>> Fleet::look_up(const std::vector<std::string>& ids,
                                                Time deadline) {
  std::vector<Ec2Instance> out;
  for (std::size_t begin = 0; begin < ids.size(); begin += kMostFilterValues) {
    const auto first = ids.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last =
        first + static_cast<std::ptrdiff_t>(std::min(kMostFilterValues, ids.size() - begin));
    auto found = find({{"instance-id", {first, last}}}, deadline);
    if (!found) return found;
    std::ranges::move(*found, std::back_inserter(out));
  }
  return out;
}

// ---- Launching

std::expected<std::vector<Ec2Instance>, Fleet::Refusal> Fleet::await_running(
    const std::vector<std::string>& ids, Time deadline) {
  const World& world = client_.world();
  for (Duration pause = kFirstLook;; pause = std::min(pause * 2, kLongestLook)) {
    auto found = look_up(ids, deadline);
    if (!found) return std::unexpected(Refusal{found.error()});
    std::size_t running = 0;
    for (const Ec2Instance& one : *found) {
      if (one.state == "running" && !one.private_ip.empty()) ++running;
      if (!is_gone(one)) continue;
      return std::unexpected(Refusal{
          {ErrorKind::exhausted,
           fmt::format("{} in {} ended before it ran ({})", one.type, one.zone, one.state_reason),
           "try again, or choose another type or region"},
          one.state_reason.empty() || one.state_reason.starts_with("Server.")});
    }
    if (running == ids.size()) return *std::move(found);
    if (deadline - world.now() <= pause) {
      return std::unexpected(
          Refusal{{ErrorKind::timeout,
                   fmt::format("{} of {} machines did not start in time in {}",
                               ids.size() - running, ids.size(), client_.region()),
                   "try again, or choose another type or region"}});
    }
    world.pause(pause);
  }
}

std::expected<std::vector<Launched>, Fleet::Refusal> Fleet::attempt(const LaunchOrder& order,
                                                                    const Attempt& wanted,
                                                                    Time deadline) {
  const World& world = client_.world();
  const Placement& place = order.places[wanted.placement];
  const auto price = wanted.spot ? place.spot_price : place.on_demand_price;
  LaunchRequest request = order.request;
  request.client_token = pool_ + "-" + world.random_hex(16);
  request.count = wanted.count;
  request.type = place.type;
  request.subnet = place.subnet;
  request.spot = wanted.spot;
  request.max_spot_price = order.most_dollars;
  request.tags.emplace_back(kLaunchTag, request.client_token);
  const LedgerEntry entry{.key = request.client_token,
                          .pool = pool_,
                          .kind = "instance",
                          .id = "",
                          .count = wanted.count,
                          .spot = wanted.spot,
                          .instance_type = place.type,
                          .hourly_micro_dollars = to_micro_dollars(price.value_or(0)),
                          .asked_s = world.wall_s()};
  if (Status status = ledger_.ask(entry); !status) return std::unexpected(Refusal{status.error()});

  const auto made = Ec2Api(client_).run_instances(request, deadline);
  std::vector<std::string> ids;
  if (made) {
    for (const Ec2Instance& one : *made) ids.push_back(one.id);
  } else if (is_refusal(made.error())) {
    if (Status status = ledger_.gone(pool_, request.client_token, world.wall_s()); !status) {
      return std::unexpected(Refusal{status.error()});
    }
    const ApiError& error = made.error();
    const bool capacity = error.kind == ErrorKind::exhausted;
    refusals_.push_back(fmt::format("{} in {}{}: {}", place.type, place.zone,
                                    wanted.spot ? " as spot" : "", error.code));
    const bool quota = capacity && !is_capacity(error.code);
    if (quota) quota_hint_ = error.hint;
    only_quotas_ = only_quotas_ && quota;
    return std::unexpected(Refusal{explained(error, "RunInstances"), capacity, quota});
  }
  auto running = settle(request, made, ids, deadline);
  if (!running) return std::unexpected(withdraw(request, std::move(ids), running.error()));
  std::vector<Launched> out;
  for (Ec2Instance& one : *running) out.push_back({std::move(one), place});
  return out;
}

// From Amazon's answer to machines that run.
std::expected<std::vector<Ec2Instance>, Fleet::Refusal> Fleet::settle(
    const LaunchRequest& request, const ApiResult<std::vector<Ec2Instance>>& made,
    const std::vector<std::string>& ids, Time deadline) {
  if (!made) return std::unexpected(Refusal{explained(made.error(), "RunInstances")});
  if (ids.size() != static_cast<std::size_t>(request.count)) {
    return std::unexpected(
        Refusal{{ErrorKind::unavailable,
                 fmt::format("EC2 RunInstances in {} told of {} machines where {} were asked for",
                             client_.region(), ids.size(), request.count),
                 "try again"}});
  }
  if (Status status = ledger_.made(pool_, request.client_token, ids); !status) {
    return std::unexpected(Refusal{status.error()});
  }
  return await_running(ids, deadline);
}

// Nobody knows what was made, or it is of no use: all that bears this launch's mark goes.
Fleet::Refusal Fleet::withdraw(const LaunchRequest& request, std::vector<std::string> ids,
                               Refusal why) {
  const World& world = client_.world();
  const Time until = world.now() + kGiveBackTime;
  const Time look_until = world.now() + kListingLag;
  std::set<std::string> known(ids.begin(), ids.end());
  while (known.size() < static_cast<std::size_t>(request.count)) {
    const auto found = find({{fmt::format("tag:{}", kLaunchTag), {request.client_token}}}, until);
    if (found) {
      for (const Ec2Instance& one : *found) known.insert(one.id);
    }
    if (known.size() >= static_cast<std::size_t>(request.count)) break;
    if (world.now() >= look_until) break;
    world.pause(kLongestLook);
  }
  ids.assign(known.begin(), known.end());
  if (!ids.empty()) (void)ledger_.made(pool_, request.client_token, ids);
  if (Status ended = end(ids, until); !ended) why.error.message += "; " + ended.error().message;
  refusals_.push_back(why.error.message);
  only_quotas_ = false;
  return why;
}

Error Fleet::no_machines(Outcome outcome, const LaunchOrder& order) const {
  std::vector<std::string> shown;
  for (const std::string& text : refusals_) {
    if (std::ranges::find(shown, text) == shown.end()) shown.push_back(text);
  }
  const std::size_t all = shown.size();
  shown.resize(std::min(all, kRefusalsShown));
  const std::string why =
      all == 0 ? "none of the types is sold so"
               : fmt::format("{}{}", fmt::join(shown, "; "), all > shown.size() ? "; …" : "");
  const std::string what =
      outcome == Outcome::spot_minimum_not_met
          ? fmt::format("fewer than {} of {} machines are to be had as spot machines",
                        least_spot_count(order.spot, order.count), order.count)
          : fmt::format("{} {}machine{} cannot be had", order.count,
                        order.spot.kind == SpotKind::always ? "spot " : "",
                        order.count == 1 ? "" : "s");
  Error error{.kind = ErrorKind::exhausted,
              .message = fmt::format("AWS, {}: {}: {}", client_.region(), what, why),
              .hint = std::string(quota_hint_.empty() ? hint_for(order.spot) : quota_hint_)};
  return with_shortage(std::move(error), shortage(outcome, order));
}

Shortage Fleet::shortage(Outcome outcome, const LaunchOrder& order) const {
  Shortage out{.requested = order.count, .got = most_standing_, .region = client_.region()};
  out.regions = {out.region};
  if (!order.places.empty()) out.instance_type = order.places.front().type;
  if (only_quotas_ && !quota_hint_.empty()) {
    out.kind = ShortageKind::quota;
  } else if (outcome == Outcome::spot_minimum_not_met) {
    out.kind = ShortageKind::spot_minimum;
    out.requested = least_spot_count(order.spot, order.count);
  } else if (order.spot.kind == SpotKind::always) {
    out.kind = ShortageKind::spot_capacity;
  }
  for (const Placement& place : order.places) {
    const std::string price =
        place.on_demand_price ? fmt::format(", ${:.4f} on demand", *place.on_demand_price) : "";
    std::string offer = fmt::format("{} in {}{}", place.type, client_.region(), price);
    if (out.offers.size() < kRefusalsShown &&
        std::ranges::find(out.offers, offer) == out.offers.end()) {
      out.offers.push_back(std::move(offer));
    }
  }
  return out;
}

Result<std::vector<Launched>> Fleet::launch(const LaunchOrder& order, Time deadline) {
  const World& world = client_.world();
  refusals_.clear();
  quota_hint_.clear();
  only_quotas_ = true;
  most_standing_ = 0;
  LaunchPlan plan(order.spot, order.count, order.places);
  std::vector<Launched> machines;
  const auto give_back = [&](Error why) -> Result<std::vector<Launched>> {
    if (Status ended = end(ids_of(machines), world.now() + kGiveBackTime); !ended) {
      why.message += "; " + ended.error().message;
    }
    return std::unexpected(std::move(why));
  };
  while (true) {
    const Step step = plan.next();
    if (const auto* outcome = std::get_if<Outcome>(&step)) {
      if (*outcome != Outcome::complete) return give_back(no_machines(*outcome, order));
      break;
    }
    if (const auto* wait = std::get_if<Wait>(&step)) {
      if (deadline - world.now() <= wait->duration) {
        return give_back(no_machines(plan.shortfall(), order));
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
        most_standing_ = std::max(most_standing_, static_cast<int>(machines.size()));
        plan.on_launched();
      } else if (made.error().capacity) {
        plan.on_refused(made.error().quota);
      } else {
        return give_back(made.error().error);
      }
    }
  }
  std::ranges::sort(machines, {}, [](const Launched& one) { return one.instance.id; });
  return machines;
}

// ---- Ending

// Amazon forgets what has been gone for an hour, and lists what it made with a delay: what is not
// listed is believed to be gone when it stays so, and when it was listed before or has had the
// time.
Status Fleet::end(const std::vector<std::string>& ids, Time deadline) {
  const World& world = client_.world();
  const Time listed_by = std::min(deadline, world.now() + kListingLag);
  struct Sight {
    bool seen = false;
    int absent = 0;  // looks in a row
  };
  std::map<std::string, Sight> left;
  for (const std::string& id : ids) left[id];
  const auto strike_off = [&](const std::string& id) {
    left.erase(id);
    return ledger_.gone(pool_, id, world.wall_s());
  };
  for (Duration pause = kFirstLook; !left.empty(); pause = std::min(pause * 2, kLongestLook)) {
    std::vector<std::string> wanted;
    for (auto& [id, sight] : left) {
      wanted.push_back(id);
      ++sight.absent;
    }
    const auto found = look_up(wanted, deadline);
    if (!found) return fail(found);
    std::vector<std::string> standing;
    for (const Ec2Instance& one : *found) {
      const auto at = left.find(one.id);
      if (at == left.end()) continue;
      at->second = {.seen = true, .absent = 0};
      if (!is_gone(one)) {
        standing.push_back(one.id);
      } else if (Status status = strike_off(one.id); !status) {
        return status;
      }
    }
    for (const std::string& id : wanted) {
      const auto at = left.find(id);
      if (at == left.end() || at->second.absent < 2) continue;
      if (!at->second.seen && world.now() < listed_by) continue;
      if (Status status = strike_off(id); !status) return status;
    }
    if (!standing.empty()) {
      const auto done = Ec2Api(client_).terminate_instances(standing, deadline);
      if (!done && done.error().code != "InvalidInstanceID.NotFound") {
        return std::unexpected(explained(done.error(), "TerminateInstances"));
      }
    }
    if (left.empty()) break;
    if (deadline - world.now() <= pause) return still_there(wanted);
    if (standing.empty() || pause > kFirstLook) world.pause(pause);
  }
  return {};
}

Status Fleet::still_there(const std::vector<std::string>& ids) const {
  return fail(
      ErrorKind::timeout,
      fmt::format("Amazon has not yet ended {} in {}", fmt::join(ids, ", "), client_.region()),
      "'skyward gc' ends them; they end themselves when their time is over");
}

Status Fleet::end_all(Time deadline) {
  auto entries = ledger_.entries(pool_, true);
  if (!entries) return std::unexpected(entries.error());
  auto found = find({{fmt::format("tag:{}", kPoolTag), {pool_}}}, deadline);
  if (!found) return std::unexpected(found.error());
  std::set<std::string> ids;
  for (const LedgerEntry& entry : *entries) {
    if (entry.kind == "instance" && !entry.id.empty()) ids.insert(entry.id);
  }
  for (const Ec2Instance& one : *found) {
    if (!is_gone(one)) ids.insert(one.id);
  }
  return end({ids.begin(), ids.end()}, deadline);
}

}  // namespace skyward::provider::aws

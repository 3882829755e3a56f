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

std::expected<std::vector<Ec2Instance>, LaunchFailure> Fleet::await_running(
    const std::vector<std::string>& ids, Time deadline) {
  const World& world = client_.world();
  for (Duration pause = kFirstLook;; pause = std::min(pause * 2, kLongestLook)) {
    auto found = look_up(ids, deadline);
    if (!found) return std::unexpected(LaunchFailure{found.error()});
    std::size_t running = 0;
    for (const Ec2Instance& one : *found) {
      if (one.state == "running" && !one.private_ip.empty()) ++running;
      if (!is_gone(one)) continue;
      return std::unexpected(LaunchFailure{
          {ErrorKind::exhausted,
           fmt::format("{} in {} ended before it ran ({})", one.type, one.zone, one.state_reason),
           "try again, or choose another type or region"},
          one.state_reason.empty() || one.state_reason.starts_with("Server.")});
    }
    if (running == ids.size()) return *std::move(found);
    if (deadline - world.now() <= pause) {
      return std::unexpected(
          LaunchFailure{{ErrorKind::timeout,
                         fmt::format("{} of {} machines did not start in time in {}",
                                     ids.size() - running, ids.size(), client_.region()),
                         "try again, or choose another type or region"}});
    }
    if (world.buying.stop_requested()) return std::unexpected(LaunchFailure{no_longer_wanted()});
    world.pause(pause, world.buying.get_token());
  }
}

std::expected<std::vector<Launched>, LaunchFailure> Fleet::attempt(const LaunchOrder& order,
                                                                   const Attempt& wanted,
                                                                   LaunchRecord& record,
                                                                   Time deadline) {
  const World& world = client_.world();
  const Placement& place = order.wish.places[wanted.placement];
  const auto price = wanted.spot ? place.spot_price : place.on_demand_price;
  LaunchRequest request = order.request;
  request.client_token = book_.pool() + "-" + world.random_hex(16);
  request.count = wanted.count;
  request.type = place.type;
  request.subnet = place.subnet;
  request.spot = wanted.spot;
  request.max_spot_price = order.most_dollars;
  request.tags.emplace_back(kLaunchTag, request.client_token);
  const LedgerEntry entry{.key = request.client_token,
                          .kind = "instance",
                          .count = wanted.count,
                          .spot = wanted.spot,
                          .instance_type = place.type,
                          .hourly_micro_dollars = to_micro_dollars(price.value_or(0))};
  if (Status status = book_.ask(entry); !status) {
    return std::unexpected(LaunchFailure{status.error()});
  }

  const auto made = Ec2Api(client_).run_instances(request, deadline);
  if (!made) return std::unexpected(not_made(request, place, made.error(), record));
  std::vector<std::string> ids;
  for (const Ec2Instance& one : *made) ids.push_back(one.id);
  auto running = settle(request, ids, deadline);
  if (!running) {
    LaunchFailure why = withdraw(request, std::move(ids), running.error());
    record.withdrawn(why.error.message);
    return std::unexpected(std::move(why));
  }
  std::vector<Launched> out;
  for (Ec2Instance& one : *running) out.push_back({std::move(one), place});
  return out;
}

LaunchFailure Fleet::not_made(const LaunchRequest& request, const Placement& place,
                              const ApiError& error, LaunchRecord& record) {
  const bool capacity = error.kind == ErrorKind::exhausted;
  LaunchFailure why{explained(error, "RunInstances"), capacity,
                    capacity && !is_capacity(error.code)};
  if (is_refusal(error)) {
    book_.gone({request.client_token});
  } else {
    why = withdraw(request, {}, std::move(why));
  }
  if (!error.code.empty()) return record.refused(place, request.spot, error.code, std::move(why));
  record.withdrawn(why.error.message);
  return why;
}

// From Amazon's answer to machines that run.
std::expected<std::vector<Ec2Instance>, LaunchFailure> Fleet::settle(
    const LaunchRequest& request, const std::vector<std::string>& ids, Time deadline) {
  if (ids.size() != static_cast<std::size_t>(request.count)) {
    return std::unexpected(LaunchFailure{
        {ErrorKind::unavailable,
         fmt::format("EC2 RunInstances in {} told of {} machines where {} were asked for",
                     client_.region(), ids.size(), request.count),
         "try again"}});
  }
  if (Status status = book_.made(request.client_token, ids); !status) {
    return std::unexpected(LaunchFailure{status.error()});
  }
  return await_running(ids, deadline);
}

// Nobody knows what was made, or it is of no use: all that bears this launch's mark goes.
LaunchFailure Fleet::withdraw(const LaunchRequest& request, std::vector<std::string> ids,
                              LaunchFailure why) {
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
    world.pause(kLongestLook, {});
  }
  ids.assign(known.begin(), known.end());
  if (!ids.empty()) (void)book_.made(request.client_token, ids);
  if (Status ended = end(ids, until); !ended) why.error.message += "; " + ended.error().message;
  return why;
}

Result<std::vector<Launched>> Fleet::launch(const LaunchOrder& order, Time deadline) {
  const World& world = client_.world();
  LaunchRecord record("AWS", client_.region());
  const LaunchHands<Launched> hands{
      .attempt = [&](const Attempt& wanted) { return attempt(order, wanted, record, deadline); },
      .give_back =
          [&](const std::vector<Launched>& machines) {
            return end(ids_of(machines), world.now() + kGiveBackTime);
          }};
  auto machines = launch_all(world, order.wish, record, hands, deadline);
  if (machines) {
    std::ranges::sort(*machines, {}, [](const Launched& one) { return one.instance.id; });
  }
  return machines;
}

// ---- Ending

// Amazon forgets what has been gone for an hour, and lists what it made with a delay: what is not
// listed is believed to be gone when it stays so, and when it was listed before or has had the
// time. Adds to `gone` whatever is.
Status Fleet::see_off(const std::vector<std::string>& ids, std::vector<std::string>& gone,
                      Time deadline) {
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
    gone.push_back(id);
  };
  for (Duration pause = kFirstLook; !left.empty(); pause = std::min(pause * 2, kLongestLook)) {
    std::vector<std::string> wanted;
    for (auto& [id, sight] : left) {
      wanted.push_back(id);
      ++sight.absent;
    }
    const auto found = look_up(wanted, deadline);
    if (!found) {
      // Unseen is not gone: they are asked to end all the same.
      (void)Ec2Api(client_).terminate_instances(wanted, deadline);
      return fail(found);
    }
    std::vector<std::string> standing;
    for (const Ec2Instance& one : *found) {
      const auto at = left.find(one.id);
      if (at == left.end()) continue;
      at->second = {.seen = true, .absent = 0};
      if (!is_gone(one)) {
        standing.push_back(one.id);
      } else {
        strike_off(one.id);
      }
    }
    for (const std::string& id : wanted) {
      const auto at = left.find(id);
      if (at == left.end() || at->second.absent < 2) continue;
      if (!at->second.seen && world.now() < listed_by) continue;
      strike_off(id);
    }
    if (!standing.empty()) {
      const auto done = Ec2Api(client_).terminate_instances(standing, deadline);
      if (!done && done.error().code != "InvalidInstanceID.NotFound") {
        return std::unexpected(explained(done.error(), "TerminateInstances"));
      }
    }
    if (left.empty()) break;
    if (deadline - world.now() <= pause) return still_there(wanted);
    if (standing.empty() || pause > kFirstLook) world.pause(pause, {});
  }
  return {};
}

Status Fleet::end(const std::vector<std::string>& ids, Time deadline) {
  std::vector<std::string> gone;
  Status status = see_off(ids, gone, deadline);
  book_.gone(gone);
  return status;
}

Status Fleet::still_there(const std::vector<std::string>& ids) const {
  return fail(
      ErrorKind::timeout,
      fmt::format("Amazon has not yet ended {} in {}", fmt::join(ids, ", "), client_.region()),
      "'skyward gc' ends them; they end themselves when their time is over");
}

Status Fleet::end_all(Time deadline) {
  std::set<std::string> ids;
  for (const LedgerEntry& entry : book_.open_entries()) {
    if (entry.kind == "instance" && !entry.id.empty()) ids.insert(entry.id);
  }
  const auto found = find({{fmt::format("tag:{}", kPoolTag), {book_.pool()}}}, deadline);
  for (const Ec2Instance& one : found.value_or(std::vector<Ec2Instance>())) {
    if (!is_gone(one)) ids.insert(one.id);
  }
  const Status ended = end({ids.begin(), ids.end()}, deadline);
  return ended && !found ? Status(fail(found)) : ended;
}

}  // namespace skyward::provider::aws

#include "skyward/provider/fake/cloud.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "skyward/base/check.h"
#include "skyward/base/text.h"

namespace skyward::provider::fake {

namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kFirstSecond = 1'700'000'000;
constexpr std::int64_t kLongestLifeSeconds = 3660LL * 86400;
constexpr Duration kRemembered = 1h;     // machines that ended stay in listings
constexpr Duration kPatience = 100ms;    // at least, before what was refused for speed comes again
constexpr Duration kLooked = 60s;        // a careful client has looked at a listing so lately
constexpr int kMostAtOnce = 1000;        // machines of one request
constexpr double kLeastSpotShare = 0.1;  // of the on-demand price
constexpr std::string_view kViolation = "Violation";

bool has_all(const Tags& tags, const Tags& wanted) {
  return std::ranges::all_of(wanted, [&](const auto& one) {
    const auto found = tags.find(one.first);
    return found != tags.end() && found->second == one.second;
  });
}

std::unexpected<Refusal> refuse(std::string code, std::string message) {
  return std::unexpected(Refusal{std::move(code), std::move(message)});
}

// All sizes of a model share what there is: of "fake-a100-x2", "fake-a100".
std::string_view model_of(std::string_view type) {
  const std::size_t size = type.rfind("-x");
  const bool has_size = size != std::string_view::npos && size + 2 < type.size() &&
                        type.find_first_not_of("0123456789", size + 2) == std::string_view::npos;
  return has_size ? type.substr(0, size) : type;
}

}  // namespace

Cloud::Cloud(CloudConfig config, Time begin)
    : config_(std::move(config)),
      begin_(begin),
      request_draws_(config_.seed, Draws::kRequests),
      price_draws_(config_.seed, Draws::kPrices),
      allowance_(config_.burst),
      allowance_at_(begin),
      to_preempt_(config_.preemptions) {
  for (const MachineType& type : config_.types) {
    prices_[{type.name, false}].push_back({begin, type.on_demand});
    prices_[{type.name, true}].push_back({begin, type.spot});
  }
  for (const Duration storm : config_.storms) at(begin + storm, Due::Kind::storm);
  if (config_.price_volatility > 0) at(begin + config_.price_interval, Due::Kind::prices);
}

void Cloud::at(Time time, Due::Kind kind, std::string machine) {
  due_.emplace(std::pair(time, next_due_++), Due{kind, std::move(machine)});
}

Time Cloud::next_event() const { return due_.empty() ? kNever : due_.begin()->first.first; }

std::int64_t Cloud::wall_s(Time now) const {
  return kFirstSecond + std::chrono::duration_cast<std::chrono::seconds>(now - begin_).count();
}

std::vector<std::string> Cloud::zones() const {
  std::vector<std::string> out;
  for (int zone = 0; zone < config_.zones; ++zone) {
    out.push_back(fmt::format("zone-{}", static_cast<char>('a' + zone)));
  }
  return out;
}

const MachineType* Cloud::find_type(const std::string& name) const {
  const auto found = std::ranges::find(config_.types, name, &MachineType::name);
  return found == config_.types.end() ? nullptr : &*found;
}

// ---- Requests and what becomes of them

std::unexpected<Refusal> Cloud::violation(Time now, std::string_view action,
                                          const std::string& what) {
  violations_.push_back(fmt::format("{:.0f} s: {}: {}", seconds(now - begin_), action, what));
  return refuse(std::string(kViolation), what);
}

std::optional<Refusal> Cloud::refused_for_speed(Time now, std::string_view action) {
  if (config_.requests_per_second <= 0) return std::nullopt;
  allowance_ = std::min<double>(
      config_.burst, allowance_ + seconds(now - allowance_at_) * config_.requests_per_second);
  allowance_at_ = now;
  const auto before = throttled_.find(action);
  if (before != throttled_.end() && now - before->second < kPatience) {
    return violation(now, action, "retried at once after being throttled").error();
  }
  if (allowance_ >= 1) {
    allowance_ -= 1;
    if (before != throttled_.end()) throttled_.erase(before);
    return std::nullopt;
  }
  throttled_.insert_or_assign(std::string(action), now);
  return Refusal{"Throttled", "more requests than this account may make"};
}

template <typename T, typename Deed>
Answer<T> Cloud::request(Time now, std::string_view action, Deed deed) {
  advance(now);
  ++requests_;
  if (watch) watch(action, false);
  if (auto refusal = refused_for_speed(now, action)) return std::unexpected(*std::move(refusal));
  const bool broken = request_draws_.chance() < config_.server_errors;
  const Refusal internal{"InternalError", "something went wrong inside; try again"};
  if (broken && request_draws_.chance() < 0.5) return std::unexpected(internal);
  Answer<T> answer = deed();
  if (watch) watch(action, true);
  if (broken) return std::unexpected(internal);
  if (request_draws_.chance() < config_.lost_replies) return refuse("NoReply", "no answer came");
  return answer;
}

std::string Cloud::wrong_tags(const Tags& tags, Time now) const {
  for (const char* name : {kPoolTag, kOwnerTag}) {
    if (value_at(tags, name).empty()) return fmt::format("it has no tag \"{}\"", name);
  }
  const std::string expires = value_at(tags, kExpiresTag);
  std::int64_t at_s = 0;
  std::from_chars(expires.data(), expires.data() + expires.size(), at_s);
  if (at_s <= wall_s(now)) return fmt::format("its tag \"expires\" is \"{}\", not later", expires);
  if (at_s > wall_s(now) + kLongestLifeSeconds)
    return "its tag \"expires\" is more than ten years away";
  return {};
}

Answer<std::vector<MachineType>> Cloud::list_types(Time now) {
  return request<std::vector<MachineType>>(now, "ListTypes", [&] {
    std::vector<MachineType> types = config_.types;
    for (MachineType& type : types) {
      type.on_demand = hourly(type.name, false);
      type.spot = hourly(type.name, true);
    }
    return types;
  });
}

// ---- Machines

std::string Cloud::wrong_launch(const LaunchRequest& request, Time now) const {
  if (request.token.empty()) return "it has no client token";
  if (request.count < 1 || request.count > kMostAtOnce) {
    return fmt::format("{} machines in one request", request.count);
  }
  if (find_type(request.type) == nullptr) return "there is no type \"" + request.type + "\"";
  const std::vector<std::string> known = zones();
  if (std::ranges::find(known, request.zone) == known.end()) {
    return "there is no zone \"" + request.zone + "\"";
  }
  for (const auto& [kind, id] :
       {std::pair("security_group", request.group), std::pair("key_pair", request.key)}) {
    const bool there = std::ranges::any_of(items_, [&](const Made& one) {
      return one.item.kind == kind && one.item.id == id && one.gone == kNever;
    });
    if (!there) return fmt::format("there is no {} \"{}\"", kind, id);
  }
  if (request.lifetime <= Duration{} || request.unclaimed <= Duration{}) {
    return "the machine has no timer that would terminate it";
  }
  if (value_at(request.tags, kLaunchTag) != request.token)
    return "its tag \"launch\" is not its token";
  return wrong_tags(request.tags, now);
}

std::optional<Refusal> Cloud::no_room(const LaunchRequest& request) const {
  int standing_here = 0;
  int spot_here = 0;
  for (const auto& [id, sold] : machines_) {
    if (sold.ended != kNever || model_of(sold.told.type) != model_of(request.type)) continue;
    if (sold.told.zone != request.zone) continue;
    ++standing_here;
    if (sold.told.spot) ++spot_here;
  }
  const auto limit = [&](const std::map<std::string, int>& limits) -> std::optional<int> {
    for (const std::string& key : {request.type + "/" + request.zone, request.type}) {
      if (const auto found = limits.find(key); found != limits.end()) return found->second;
    }
    return std::nullopt;
  };
  const auto all = limit(config_.capacity);
  const auto spot = limit(config_.spot_capacity);
  if ((all && standing_here + request.count > *all) ||
      (request.spot && spot && spot_here + request.count > *spot)) {
    return Refusal{"NoCapacity", fmt::format("there are not {} {} available in {} now",
                                             request.count, request.type, request.zone)};
  }
  if (config_.quota && standing() + request.count > *config_.quota) {
    return Refusal{"QuotaExceeded",
                   fmt::format("this account may have {} machines", *config_.quota)};
  }
  if (request.spot && request.most_hourly > 0 && hourly(request.type, true) > request.most_hourly) {
    return Refusal{"PriceTooLow", fmt::format("{} costs more now", request.type)};
  }
  return std::nullopt;
}

Answer<std::vector<Machine>> Cloud::run_machines(Time now, const LaunchRequest& wanted) {
  return request<std::vector<Machine>>(now, "RunMachines", [&] { return sell(now, wanted); });
}

Answer<std::vector<Machine>> Cloud::sell(Time now, const LaunchRequest& wanted) {
  const auto known = tokens_.find(wanted.token);
  if (known == tokens_.end()) {
    if (const std::string wrong = wrong_launch(wanted, now); !wrong.empty()) {
      return violation(now, "RunMachines", wrong);
    }
    if (auto refusal = no_room(wanted)) return std::unexpected(*std::move(refusal));
    std::vector<std::string> ids;
    for (int i = 0; i < wanted.count; ++i) ids.push_back(sell_one(now, wanted));
    tokens_[wanted.token] = {wanted, ids};
    if (wanted.spot) choose_preempted(ids);
  } else if (known->second.first != wanted) {
    return violation(now, "RunMachines", "its token was used for something else");
  }
  std::vector<Machine> out;
  for (const std::string& id : tokens_.at(wanted.token).second) {
    out.push_back(machines_.at(id).told);
    out.back().state = state_at(machines_.at(id), now);
  }
  return out;
}

std::string Cloud::sell_one(Time now, const LaunchRequest& wanted) {
  const std::string id = fmt::format("i-{:04}", ++next_id_);
  Draws draws(config_.seed, Draws::kFirstMachine + machines_.size());
  Sold sold{.told = {.id = id, .type = wanted.type, .zone = wanted.zone, .spot = wanted.spot},
            .fate = {.boot_time = draws.chance(),
                     .failed_boot = draws.chance(),
                     .preemption = draws.chance(),
                     .notice_time = draws.chance(),
                     .leaked_disk = draws.chance()},
            .group = wanted.group,
            .key = wanted.key,
            .most_hourly = wanted.most_hourly,
            .launched = now};
  sold.told.private_ip =
      fmt::format("10.{}.{}.{}", next_id_ >> 16, next_id_ >> 8 & 255, next_id_ & 255);
  sold.told.hourly = hourly(wanted.type, wanted.spot);
  sold.told.tags = wanted.tags;
  const double delay = 2.0 / 3 + sold.fate.boot_time * 2 / 3;
  const Time boots = now + std::chrono::duration_cast<Duration>(config_.launch_delay * delay);
  at(boots, Due::Kind::boot, id);
  at(now + wanted.lifetime, Due::Kind::expire, id);
  at(boots + wanted.unclaimed, Due::Kind::unclaimed, id);
  items_.push_back({.item = {.kind = "volume", .id = "vol-" + id.substr(2), .tags = wanted.tags},
                    .machine = id,
                    .made = now});
  machines_.emplace(id, std::move(sold));
  return id;
}

// Decides which of them will be preempted, as many as the configuration says.
void Cloud::choose_preempted(std::vector<std::string> ids) {
  std::ranges::sort(ids, {},
                    [&](const std::string& id) { return machines_.at(id).fate.preemption; });
  for (const std::string& id : ids) {
    if (to_preempt_ == 0) return;
    --to_preempt_;
    machines_.at(id).to_be_preempted = true;
  }
}

MachineState Cloud::state_at(const Sold& sold, Time time) const {
  if (time >= sold.ended) return MachineState::ended;
  if (time >= sold.ending) return MachineState::ending;
  return time >= sold.running ? MachineState::running : MachineState::pending;
}

// Whether listings no longer show it, since it terminated long ago.
bool Cloud::is_forgotten(const Sold& sold, Time known) {
  return sold.ended != kNever && known - sold.ended > kRemembered;
}

Answer<std::vector<Machine>> Cloud::list_machines(Time now, const Tags& tags) {
  return request<std::vector<Machine>>(now, "ListMachines", [&] {
    const Time known = now - config_.listing_lag;
    std::vector<Machine> out;
    for (const auto& [id, sold] : machines_) {
      if (sold.launched > known || !has_all(sold.told.tags, tags)) continue;
      if (is_forgotten(sold, known)) continue;
      out.push_back(sold.told);
      out.back().state = state_at(sold, known);
    }
    return out;
  });
}

Answer<void> Cloud::end_machines(Time now, const std::vector<std::string>& ids) {
  return request<void>(now, "EndMachines", [&]() -> Answer<void> {
    if (ids.empty()) return violation(now, "EndMachines", "no machine is named");
    for (const std::string& id : ids) {
      const auto found = machines_.find(id);
      if (found == machines_.end()) {
        return violation(now, "EndMachines", id + " was never sold");
      }
      const Time known = now - config_.listing_lag;
      if (is_forgotten(found->second, known)) continue;  // no listing tells
      if (state_at(found->second, known - kLooked) == MachineState::ended) {
        return violation(now, "EndMachines", id + " has ended, as its listing tells");
      }
    }
    for (const std::string& id : ids) {
      Sold& sold = machines_.at(id);
      if (sold.ending == kNever) end(sold, now, now + config_.end_delay, "by request");
    }
    return {};
  });
}

void Cloud::end(Sold& sold, Time ending, Time ended, std::string reason) {
  sold.ending = ending;
  sold.told.reason = std::move(reason);
  events_.push_back({MachineEvent::Kind::power_off, sold.told.id});
  at(ended, Due::Kind::end, sold.told.id);
}

// ---- Other things

Answer<std::string> Cloud::make_item(Time now, const std::string& kind, const std::string& name,
                                     const Tags& tags) {
  return request<std::string>(now, "MakeItem", [&]() -> Answer<std::string> {
    if (name.empty()) return violation(now, "MakeItem", "it has no name");
    if (const std::string wrong = wrong_tags(tags, now); !wrong.empty()) {
      return violation(now, "MakeItem", wrong);
    }
    for (const Made& one : items_) {
      if (one.item.kind != kind || one.item.name != name || one.gone != kNever) continue;
      if (one.item.tags == tags) return one.item.id;
      return violation(now, "MakeItem", name + " is there already, with other tags");
    }
    std::string id = fmt::format("{}-{:04}", kind == "key_pair" ? "key" : "sg", ++next_id_);
    items_.push_back({.item = {kind, id, name, tags}, .made = now});
    return id;
  });
}

Answer<std::vector<Item>> Cloud::list_items(Time now, const Tags& tags) {
  return request<std::vector<Item>>(now, "ListItems", [&] {
    const Time known = now - config_.listing_lag;
    std::vector<Item> out;
    for (const Made& one : items_) {
      if (one.made > known || one.gone <= known || !has_all(one.item.tags, tags)) continue;
      // A disk in use is its machine's.
      if (!one.machine.empty() && machines_.at(one.machine).ended > known) continue;
      out.push_back(one.item);
    }
    return out;
  });
}

Answer<void> Cloud::delete_item(Time now, const std::string& kind, const std::string& id_or_name) {
  return request<void>(now, "DeleteItem", [&]() -> Answer<void> {
    const auto is_it = [&](const Made& one) {
      return one.item.kind == kind && (one.item.id == id_or_name || one.item.name == id_or_name);
    };
    const auto there = std::ranges::find_if(
        items_, [&](const Made& one) { return is_it(one) && one.gone == kNever; });
    if (there == items_.end()) {
      const auto gone = std::ranges::find_if(items_, is_it);
      if (gone != items_.end() && gone->gone + config_.listing_lag + kLooked < now) {
        return violation(now, "DeleteItem", id_or_name + " is gone, as its listing tells");
      }
      return refuse("NotFound", "there is no " + id_or_name);
    }
    const bool used = std::ranges::any_of(machines_, [&](const auto& one) {
      const Sold& sold = one.second;
      return sold.ended == kNever && (sold.group == there->item.id || sold.key == there->item.id ||
                                      there->machine == sold.told.id);
    });
    if (used) return refuse("InUse", "machines use " + id_or_name);
    there->gone = now;
    return {};
  });
}

// ---- What happens by itself

void Cloud::advance(Time now) {
  while (!due_.empty() && due_.begin()->first.first <= now) {
    const Time time = due_.begin()->first.first;
    const Due due = std::move(due_.begin()->second);
    due_.erase(due_.begin());
    happen(time, due);
  }
}

void Cloud::happen(Time now, const Due& due) {
  if (due.kind == Due::Kind::prices) return step_prices(now);
  if (due.kind == Due::Kind::storm) {
    (void)preempt_all_spot(now, config_.notice);
    return;
  }
  Sold& sold = machines_.at(due.machine);
  if (due.kind == Due::Kind::end) {
    sold.ended = now;
    const bool leaks = sold.fate.leaked_disk < config_.leaked_disks;
    for (Made& disk : items_) {
      if (disk.machine == due.machine && !leaks) disk.gone = now;
    }
    return;
  }
  if (sold.ending != kNever) return;
  switch (due.kind) {
    case Due::Kind::boot:
      if (sold.fate.failed_boot < config_.failed_boots) {
        return end(sold, now, now, "it did not start");
      }
      sold.running = now;
      break;
    case Due::Kind::notice:
      (void)preempt(now, due.machine, config_.notice);
      break;
    case Due::Kind::reclaim:
      sold.taken_back = true;
      end(sold, now, now, "preempted");
      break;
    case Due::Kind::expire:
      end(sold, now, now, "its time was over");
      break;
    case Due::Kind::unclaimed:
      if (!sold.claimed) end(sold, now, now, "nobody began to use it");
      break;
    case Due::Kind::end:
    case Due::Kind::prices:
    case Due::Kind::storm:
      break;
  }
}

void Cloud::claim(Time now, const std::string& id) {
  advance(now);
  const auto found = machines_.find(id);
  if (found == machines_.end() || std::exchange(found->second.claimed, true)) return;
  if (!found->second.to_be_preempted) return;
  const double share = 0.5 + found->second.fate.notice_time;
  at(now + std::chrono::duration_cast<Duration>(config_.preempt_after * share), Due::Kind::notice,
     id);
}

bool Cloud::preempt(Time now, const std::string& id, Duration notice) {
  const auto found = machines_.find(id);
  if (found == machines_.end() || found->second.ending != kNever) return false;
  if (std::exchange(found->second.noticed, true)) return false;
  ++preempted_;
  if (notice > Duration{}) events_.push_back({MachineEvent::Kind::notice, id, notice});
  at(now + notice, Due::Kind::reclaim, id);
  return true;
}

int Cloud::preempt_all_spot(Time now, Duration notice) {
  int count = 0;
  for (const auto& [id, sold] : machines_) {
    if (sold.told.spot && preempt(now, id, notice)) ++count;
  }
  return count;
}

void Cloud::step_prices(Time now) {
  for (const MachineType& type : config_.types) {
    // The sum of twelve chances is as good as normal here.
    double step = -6;
    for (int i = 0; i < 12; ++i) step += price_draws_.chance();
    const auto before = static_cast<double>(hourly(type.name, true));
    const auto whole = static_cast<double>(hourly(type.name, false));
    const double after =
        std::clamp(before * (1 + config_.price_volatility * step), whole * kLeastSpotShare, whole);
    set_hourly(now, type.name, true, static_cast<MicroDollars>(after));
  }
  at(now + config_.price_interval, Due::Kind::prices);
}

void Cloud::set_hourly(Time now, const std::string& type, bool spot, MicroDollars price) {
  SKYWARD_CHECK(find_type(type) != nullptr, "there is no type {}", type);
  std::vector<PriceStep>& steps = prices_[{type, spot}];
  if (!steps.empty() && steps.back().at == now) steps.pop_back();
  steps.push_back({now, price});
  if (!spot) return;
  for (const auto& [id, sold] : machines_) {
    if (sold.told.spot && sold.told.type == type && sold.most_hourly > 0 &&
        price > sold.most_hourly) {
      (void)preempt(now, id, config_.notice);
    }
  }
}

// ---- The account

MicroDollars Cloud::hourly(const std::string& type, bool spot) const {
  return prices_.at({type, spot}).back().hourly;
}

// Rounded up once for each machine.
MicroDollars Cloud::cost(const Sold& sold, Time now) const {
  const Duration quantum = std::max<Duration>(config_.billing.quantum, std::chrono::nanoseconds(1));
  const Duration used = std::min(now, sold.ended) - sold.launched;
  const bool early = now >= sold.ended && used < config_.billing.free_when_taken_back;
  if (sold.taken_back && early) return 0;
  const Duration billed =
      std::max(config_.billing.minimum, (used + quantum - Duration(1)) / quantum * quantum);
  const Time end = sold.launched + billed;
  const auto& steps =
      sold.told.spot ? prices_.at({sold.told.type, true}) : prices_.at({sold.told.type, false});
  double sum = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    // The time behind a machine's end, up to its quantum, is at its last price.
    const bool last = i + 1 == steps.size() || steps[i + 1].at >= std::min(now, sold.ended);
    const Time from = std::max(steps[i].at, sold.launched);
    const Time until = last ? end : std::min(steps[i + 1].at, end);
    if (until > from) sum += static_cast<double>(steps[i].hourly) * seconds(until - from) / 3600;
    if (last) break;
  }
  const auto exact = static_cast<MicroDollars>(std::ceil(sum - 1e-6));
  return exact > 0 ? std::max(exact, config_.billing.least) : 0;
}

MicroDollars Cloud::bill(Time now, const std::string& pool) const {
  MicroDollars sum = 0;
  for (const auto& [id, sold] : machines_) {
    if (pool.empty() || value_at(sold.told.tags, kPoolTag) == pool) sum += cost(sold, now);
  }
  return sum;
}

std::vector<Charge> Cloud::charges(Time now, const std::string& id) const {
  const auto found = machines_.find(id);
  if (found == machines_.end()) return {};
  const Sold& sold = found->second;
  std::vector<Charge> out;
  for (const PriceStep& step : prices_.at({sold.told.type, sold.told.spot})) {
    if (!out.empty() && step.at >= std::min(now, sold.ended)) break;
    if (step.at <= sold.launched) out.clear();  // the price at which it was sold
    out.push_back({.instance = id,
                   .hourly = to_dollars(step.hourly),
                   .since = now - std::max(step.at, sold.launched),
                   .began = now - sold.launched});
    if (sold.ended != kNever) out.back().ended = now - sold.ended;
    out.back().taken_back = sold.taken_back;
  }
  return out;
}

int Cloud::standing() const {
  return static_cast<int>(
      std::ranges::count_if(machines_, [](const auto& one) { return one.second.ended == kNever; }));
}

bool Cloud::stands(const std::string& id) const {
  const auto found = machines_.find(id);
  return found != machines_.end() && found->second.ending == kNever;
}

void Cloud::assign(const std::string& id, int node) { machines_.at(id).node = node; }

std::string Cloud::machine_of(int node) const {
  std::string newest;
  for (const auto& [id, sold] : machines_) {
    if (sold.ending == kNever && sold.node == node) newest = id;
  }
  return newest;
}

std::vector<std::string> Cloud::resources() const {
  std::vector<std::string> out;
  for (const auto& [id, sold] : machines_) {
    if (sold.ended == kNever) out.push_back("instance " + id);
  }
  for (const Made& one : items_) {
    const bool in_use = !one.machine.empty() && machines_.at(one.machine).ended == kNever;
    if (one.gone == kNever && !in_use) out.push_back(one.item.kind + " " + one.item.id);
  }
  return out;
}

}  // namespace skyward::provider::fake

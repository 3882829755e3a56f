#include "skyward/testing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "skyward/base/text.h"
#include "skyward/call/error.h"
#include "skyward/provider/fake/fake.h"
#include "skyward/spec/accelerator.h"

namespace skyward::testing {

namespace {

using provider::fake::Cloud;
using provider::fake::CloudConfig;
using provider::fake::MachineType;
using provider::fake::Simulation;

constexpr const char* kNoAccelerator = "cpu";
constexpr double kSpotShare = 0.4;
// Of machines: how many devices, or how many times 8 CPUs.
constexpr std::array kSizes = {1, 2, 4, 8};

[[noreturn]] void refuse(const std::string& text) {
  throw ConfigurationError("FakeCloud: " + text);
}

std::string type_name(const std::string& name, int size) {
  std::string out = "fake-" + lower(name);
  std::ranges::replace(out, ' ', '-');
  return size == 1 ? out : fmt::format("{}-x{}", out, size);
}

void check_price(const std::string& what, double dollars) {
  constexpr double kMost = 1e6;
  if (dollars > 0 && dollars <= kMost) return;
  refuse(fmt::format("{}={}: a price must be positive, and at most a million dollars an hour", what,
                     dollars));
}

// Prices are of the smallest size.
MachineType type_of(const std::string& name, int size, double on_demand, double spot) {
  MachineType type{.name = type_name(name, size),
                   .devices = size,
                   .on_demand = to_micro_dollars(size * on_demand),
                   .spot = to_micro_dollars(size * spot)};
  type.cpus *= size;
  type.memory_gb *= size;
  if (name == kNoAccelerator) return type;
  const auto known = catalogue_accelerator(name);
  if (!known) throw_error(known.error());
  type.devices *= static_cast<int>(std::lround(known->count));  // a slice of TPUs has several
  type.accelerator = known->name;
  type.accelerator_memory_gb = device_memory_gb(*known);
  return type;
}

std::map<std::string, int> by_type(const char* what, const FakeCloudOptions& options,
                                   const std::map<std::string, int>& limits) {
  std::map<std::string, int> out;
  for (const auto& [name, count] : limits) {
    if (!options.prices.contains(name)) {
      refuse(fmt::format("{}[\"{}\"]: it is not in prices, so there are none", what, name));
    }
    if (count < 0) refuse(fmt::format("{}[\"{}\"]={}: it is negative", what, name, count));
    for (const int size : kSizes) out[type_name(name, size)] = count;
  }
  return out;
}

void check_shares(const FakeCloudOptions& options) {
  for (const auto& [name, share] : {std::pair("lost_replies", options.lost_replies),
                                    std::pair("server_errors", options.server_errors),
                                    std::pair("failed_boots", options.failed_boots),
                                    std::pair("leaked_disks", options.leaked_disks)}) {
    if (!(share >= 0 && share <= 1))
      refuse(fmt::format("{}={}: a share must be from 0 to 1", name, share));
  }
  for (const auto& [name, value] : {std::pair("price_volatility", options.price_volatility),
                                    std::pair("requests_per_second", options.requests_per_second),
                                    std::pair("speed", options.speed)}) {
    constexpr double kMost = 1e9;
    if (!(value >= 0 && value <= kMost)) {
      refuse(fmt::format("{}={}: expected a number from 0 to {:g}", name, value, kMost));
    }
  }
  if (options.preemptions < 0) refuse("preemptions is negative");
  if (options.quota.value_or(0) < 0) refuse("quota is negative");
}

void check_times(const FakeCloudOptions& options) {
  std::vector<std::pair<const char*, Duration>> times = {{"preempt_after", options.preempt_after},
                                                         {"notice", options.notice},
                                                         {"launch_delay", options.launch_delay},
                                                         {"listing_lag", options.listing_lag}};
  for (const Duration storm : options.storms) times.emplace_back("storms", storm);
  for (const auto& [name, time] : times) {
    if (time < Duration{}) refuse(fmt::format("{}={:g} s: it is negative", name, seconds(time)));
  }
}

CloudConfig to_config(const FakeCloudOptions& options) {
  check_shares(options);
  check_times(options);
  CloudConfig config;
  for (const auto& [name, price] : options.prices) {
    const auto given = options.spot_prices.find(name);
    const double spot = given == options.spot_prices.end() ? price * kSpotShare : given->second;
    check_price(fmt::format("prices[\"{}\"]", name), price);
    check_price(fmt::format("spot_prices[\"{}\"]", name), spot);
    for (const int size : kSizes) config.types.push_back(type_of(name, size, price, spot));
  }
  for (const auto& [name, price] : options.spot_prices) {
    if (!options.prices.contains(name)) {
      refuse(fmt::format("spot_prices[\"{}\"]: it is not in prices", name));
    }
  }
  config.capacity = by_type("capacity", options, options.capacity);
  config.spot_capacity = by_type("spot_capacity", options, options.spot_capacity);
  config.quota = options.quota;
  config.launch_delay = options.launch_delay;
  config.failed_boots = options.failed_boots;
  config.leaked_disks = options.leaked_disks;
  config.listing_lag = options.listing_lag;
  config.requests_per_second = options.requests_per_second;
  config.lost_replies = options.lost_replies;
  config.server_errors = options.server_errors;
  config.preemptions = options.preemptions;
  config.preempt_after = options.preempt_after;
  config.notice = options.notice;
  config.storms = options.storms;
  config.price_volatility = options.price_volatility;
  config.seed = options.seed;
  return config;
}

void check_sold(const Cloud& cloud, const std::string& name) {
  const auto& types = cloud.config().types;
  if (std::ranges::find(types, type_name(name, 1), &MachineType::name) != types.end()) return;
  refuse(fmt::format("it sells no {}", name));
}

}  // namespace

FakeCloud::FakeCloud(const FakeCloudOptions& options) {
  auto made = provider::fake::start_simulation(to_config(options), options.speed);
  if (!made) throw_error(made.error());
  cloud_ = *std::move(made);
}

FakeCloud::operator ProviderSpec() const {
  return {.name = "fake", .settings = {{"cloud", cloud_->name()}}};
}

void FakeCloud::advance(Duration duration) {
  if (duration < Duration{}) refuse("advance() cannot go back in time");
  cloud_->advance(duration);
}

Duration FakeCloud::elapsed() const {
  return cloud_->ask([](const Cloud& cloud, Time now) { return now - cloud.begin(); });
}

void FakeCloud::preempt(int node, std::optional<Duration> notice) {
  cloud_->ask([&](Cloud& cloud, Time now) {
    const std::string machine = cloud.machine_of(node);
    if (machine.empty()) refuse(fmt::format("node {} has no machine to preempt", node));
    if (!cloud.preempt(now, machine, notice.value_or(cloud.config().notice))) {
      refuse(fmt::format("the machine of node {} is being preempted already", node));
    }
    cloud.advance(now);
  });
}

int FakeCloud::storm(std::optional<Duration> notice) {
  return cloud_->ask([&](Cloud& cloud, Time now) {
    const int count = cloud.preempt_all_spot(now, notice.value_or(cloud.config().notice));
    cloud.advance(now);
    return count;
  });
}

void FakeCloud::set_spot_price(const std::string& name, double dollars_an_hour) {
  check_price(fmt::format("set_spot_price(\"{}\")", name), dollars_an_hour);
  cloud_->ask([&](Cloud& cloud, Time now) {
    check_sold(cloud, name);
    for (const int size : kSizes) {
      cloud.set_hourly(now, type_name(name, size), true, to_micro_dollars(size * dollars_an_hour));
    }
  });
}

void FakeCloud::set_capacity(const std::string& name, int machines) {
  if (machines < 0) refuse(fmt::format("set_capacity(\"{}\", {}): it is negative", name, machines));
  cloud_->ask([&](Cloud& cloud, Time) {
    check_sold(cloud, name);
    for (const int size : kSizes) cloud.set_capacity(type_name(name, size), machines);
  });
}

double FakeCloud::bill() const {
  return to_dollars(cloud_->ask([](const Cloud& cloud, Time now) { return cloud.bill(now); }));
}

int FakeCloud::running() const {
  return cloud_->ask([](const Cloud& cloud, Time) { return cloud.standing(); });
}

int FakeCloud::launched() const {
  return cloud_->ask([](const Cloud& cloud, Time) { return cloud.sold(); });
}

int FakeCloud::preempted() const {
  return cloud_->ask([](const Cloud& cloud, Time) { return cloud.preempted(); });
}

int FakeCloud::requests() const {
  return cloud_->ask([](const Cloud& cloud, Time) { return cloud.requests(); });
}

std::vector<std::string> FakeCloud::left() const {
  return cloud_->ask([](const Cloud& cloud, Time) { return cloud.resources(); });
}

std::vector<std::string> FakeCloud::violations() const {
  return cloud_->ask([](const Cloud& cloud, Time) { return cloud.violations(); });
}

}  // namespace skyward::testing

#pragma once

// A cloud for tests: sky::testing::FakeCloud sells machines that are processes of this computer,
// so that functions really run. It bills, throttles, loses replies and preempts machines as its
// options say.
//
//   sky::testing::FakeCloud cloud({.prices = {{"A100", 4.0}}, .preemptions = 2});
//   {
//     sky::ComputePool pool({.provider = cloud, .nodes = 4, .accelerator = "A100"});
//     train(data) >> pool;
//   }
//   assert(cloud.preempted() == 2 && cloud.bill() < 3 && cloud.running() == 0);
//
// It has a clock of its own, `speed` times as fast as this computer's; all durations here are in
// the cloud's time. It refuses what real clouds tolerate but careful clients never do (a resource
// without tags, a token used twice, terminating what was never sold), and lists it in violations().

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "skyward/base/time.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider::fake {
class Simulation;
}

namespace skyward::testing {

// Names are those of accelerators, and "cpu" for machines without one.
struct FakeCloudOptions {
  // What is sold, in dollars an hour for one device on demand, or for 8 CPUs. Machines have 1, 2, 4
  // or 8 devices, with 8 CPUs and 64 GB of memory each, or 8, 16, 32 or 64 CPUs. Spot machines cost
  // two fifths of that where `spot_prices` does not say otherwise.
  std::map<std::string, double> prices = {{"cpu", 0.1}, {"T4", 0.5}, {"A100", 4}, {"H100", 8}};
  std::map<std::string, double> spot_prices = {};
  double price_volatility = 0;  // spot prices move by about this share, every five minutes

  // How many machines, of any size, each of the two zones has, and how many of them are sold as
  // spot machines. Unlimited for names that are not listed.
  std::map<std::string, int> capacity = {};
  std::map<std::string, int> spot_capacity = {};
  std::optional<int> quota = {};  // machines of the account at the same time

  // How many spot machines are preempted; the seed decides which. Each gets its notice when it has
  // been in use for about `preempt_after`, and is gone `notice` later. A storm preempts them all.
  int preemptions = 0;
  Duration preempt_after = std::chrono::seconds(60);
  Duration notice = std::chrono::seconds(120);
  std::vector<Duration> storms = {};  // since the beginning

  Duration launch_delay = std::chrono::seconds(30);  // a third more or less
  Duration listing_lag = {};                         // until listings know what was done
  double requests_per_second = 0;                    // 0: any number; beyond it: throttled
  double lost_replies = 0;                           // share of requests done and never answered
  double server_errors = 0;                          // share that fails, before the deed or after
  double failed_boots = 0;                           // share of machines that never start
  double leaked_disks = 0;                           // share of disks that outlive their machine

  std::uint64_t seed = 1;
  double speed = 60;  // a second here is a minute there; 0: the clock stands until it is advanced
};

// May be used from several threads. Copies are the same cloud, which lives as long as one of them
// or a pool on it. Throws ConfigurationError for options that make no sense.
class FakeCloud {
 public:
  explicit FakeCloud(const FakeCloudOptions& options = {});
  operator ProviderSpec() const;

  // Skips this much of the cloud's time at once.
  void advance(Duration duration);
  Duration elapsed() const;  // since the beginning

  // Preempts the machine of this node; throws if there is none. Without a notice of its own,
  // the options'.
  void preempt(int node, std::optional<Duration> notice = {});
  // Preempts all spot machines; returns how many.
  int storm(std::optional<Duration> notice = {});
  void set_spot_price(const std::string& name, double dollars_an_hour);
  // From now on, each zone has so many machines, of any size. Those that run stay.
  void set_capacity(const std::string& name, int machines);

  // What all machines have cost, by the cloud's own account.
  double bill() const;
  int running() const;  // machines that it bills now
  int launched() const;
  int preempted() const;
  int requests() const;
  std::vector<std::string> left() const;  // all that there is: "instance i-0001"
  std::vector<std::string> violations() const;

 private:
  std::shared_ptr<provider::fake::Simulation> cloud_;
};

}  // namespace skyward::testing

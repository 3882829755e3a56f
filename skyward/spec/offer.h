#pragma once

// What a cloud sells and what it sold: values that engine and providers exchange.

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace skyward {

// An instance type at a place and a price, buyable now. Prices in dollars an hour.
struct Offer {
  std::string instance_type{};
  std::string region{};
  int cpus = 0;
  double memory_gb = 0;
  std::optional<double> price_on_demand{};
  std::optional<double> price_spot{};
  int billing_increment_minutes = 0;

  bool operator==(const Offer&) const = default;
};

// What prepare() made for a pool, as data: enough to tear it down from another process.
struct Cluster {
  std::string id{};  // "<provider>-<8 hex>"
  std::string region{};
  std::string instance_type{};
  std::vector<std::pair<std::string, std::string>> details{};

  bool operator==(const Cluster&) const = default;
};

// A machine that the cloud runs for us.
struct Instance {
  std::string id{};
  bool spot = false;
  std::string private_ip{};
  std::optional<std::string> public_ip{};

  bool operator==(const Instance&) const = default;
};

}  // namespace skyward

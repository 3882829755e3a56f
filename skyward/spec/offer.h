#pragma once

// What a cloud sells and what it sold: values that engine and providers exchange, and the choice
// among offers.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/spec/accelerator.h"

namespace skyward {

// How many times the price of its offer a machine may cost: one of an alternative type, or one that
// has its own price.
inline constexpr double kMostTimesThePrice = 1.5;

// An instance type at a place and a price, that can be launched now. Prices in dollars an hour.
struct Offer {
  std::string instance_type{};
  std::string region{};
  int cpus = 0;
  double memory_gb = 0;
  std::string accelerator{};       // its devices' model; empty without
  std::string accelerator_form{};  // "SXM", "PCIe", "NVL"; empty: not told
  double accelerator_count = 0;
  double accelerator_memory_gb = 0;  // of one device; 0: not told
  std::string architecture{};        // "x86_64", "arm64"; empty: not told
  std::optional<double> price_on_demand{};
  std::optional<double> price_spot{};
  // Dollars for a GB into and out of the machine, where traffic has a price of its own.
  std::optional<double> price_download_gb{};
  std::optional<double> price_upload_gb{};
  int billing_increment_minutes = 0;
  // The share of its processors' time that it has under a lasting load. Some types have more for a
  // while, if they have been idle.
  double baseline = 1;
  // Each machine has its own price, up to kMostTimesThePrice of the one here.
  bool prices_vary = false;

  bool operator==(const Offer&) const = default;
};

// Dollars an hour in the market that is tried first; empty: not told.
std::optional<double> asking_price(const Offer& offer, bool prefers_spot);

// What a machine must have at least. A request without an accelerator takes a machine that has one
// only when no other fits.
struct OfferRequest {
  std::optional<Accelerator> accelerator{};
  double cpus = 1;
  std::int64_t memory_mb = 1024;
  std::string architecture{};  // empty: any
  bool prefer_spot = false;    // order by spot price where one is known
};

// Positions of the offers that fit, the best first: by price over baseline (unknown ones last),
// then the fewest devices, processors and memory, then by name. When none fits, the error names
// what was near.
Result<std::vector<std::size_t>> rank_offers(std::span<const Offer> offers,
                                             const OfferRequest& request);

// What prepare() made for a pool, as data: enough to tear it down from another process.
struct Cluster {
  std::string id{};  // "<provider>-<8 hex>"
  std::string region{};
  std::string instance_type{};
  std::vector<std::pair<std::string, std::string>> details{};
  int head_port = 0;  // where the frameworks of its nodes meet; 0: the usual one
  // What ends its machines while this computer is off, for people. Empty: as people expect it.
  std::string unattended{};

  bool operator==(const Cluster&) const = default;
};

// A machine that the cloud runs for us.
struct Instance {
  std::string id{};
  bool spot = false;
  std::string private_ip{};
  std::optional<std::string> public_ip{};
  int ssh_port = 0;  // where its sshd listens; 0: as everywhere
  // What it is and costs an hour, where that is not as its offer says.
  std::string instance_type{};
  std::optional<double> price_on_demand{};
  std::optional<double> price_spot{};

  bool operator==(const Instance&) const = default;
};

}  // namespace skyward

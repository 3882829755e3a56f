#pragma once

// Amazon's partitions: groups of regions with accounts of their own, and with host names that end
// in their own way. And which of its regions are near each other.

#include <string>
#include <string_view>
#include <vector>

namespace skyward::provider::aws {

struct AwsPartition {
  std::string_view id{};           // as in ARNs: "aws-cn"
  std::string_view regions{};      // what their names begin with
  std::string_view domain{};       // of the services' hosts: "amazonaws.com"
  std::string_view dual_domain{};  // ... of those that have IPv6 as well
  bool in_dollars = true;          // Amazon's prices there
};

const AwsPartition& partition_of(std::string_view region);

// Regions whose names begin as the home's ("eu"), then others by their distance.
std::vector<std::string> nearest_first(std::string_view home, std::vector<std::string> regions);

}  // namespace skyward::provider::aws

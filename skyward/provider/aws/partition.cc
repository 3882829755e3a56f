#include "skyward/provider/aws/partition.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace skyward::provider::aws {

namespace {

// From partitions.json of Amazon's SDKs. The last one is for all other names.
constexpr std::array<AwsPartition, 8> kPartitions = {{
    {"aws-cn", "cn-", "amazonaws.com.cn", "api.amazonwebservices.com.cn", false},
    {"aws-eusc", "eusc-", "amazonaws.eu", "api.amazonwebservices.eu", false},
    {"aws-us-gov", "us-gov-", "amazonaws.com", "api.aws"},
    {"aws-iso", "us-iso-", "c2s.ic.gov", "api.aws.ic.gov"},
    {"aws-iso-b", "us-isob-", "sc2s.sgov.gov", "api.aws.scloud"},
    {"aws-iso-e", "eu-isoe-", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"},
    {"aws-iso-f", "us-isof-", "csp.hci.ic.gov", "api.aws.hci.ic.gov"},
    {"aws", "", "amazonaws.com", "api.aws"},
}};

std::string_view area_of(std::string_view region) { return region.substr(0, region.find('-')); }

// Where an area is, roughly, as on a line from west to east. The Atlantic is narrower than Asia.
int place_of(std::string_view area) {
  constexpr std::array<std::pair<std::string_view, int>, 9> kAreas = {{
      {"sa", 0},
      {"ca", 1},
      {"mx", 1},
      {"us", 1},
      {"eu", 4},
      {"af", 5},
      {"il", 5},
      {"me", 5},
      {"ap", 9},
  }};
  constexpr int kElsewhere = 100;
  for (const auto& [name, place] : kAreas) {
    if (name == area) return place;
  }
  return kElsewhere;
}

}  // namespace

const AwsPartition& partition_of(std::string_view region) {
  return *std::ranges::find_if(kPartitions, [&](const AwsPartition& partition) {
    return region.starts_with(partition.regions);
  });
}

std::vector<std::string> nearest_first(std::string_view home, std::vector<std::string> regions) {
  const std::string_view area = area_of(home);
  std::ranges::stable_sort(regions, {}, [&](const std::string& region) {
    const std::string_view other = area_of(region);
    return std::pair(other != area, std::abs(place_of(other) - place_of(area)));
  });
  return regions;
}

}  // namespace skyward::provider::aws

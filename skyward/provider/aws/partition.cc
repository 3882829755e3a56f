#include "skyward/provider/aws/partition.h"

#include <algorithm>
#include <array>

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

}  // namespace

const AwsPartition& partition_of(std::string_view region) {
  return *std::ranges::find_if(kPartitions, [&](const AwsPartition& partition) {
    return region.starts_with(partition.regions);
  });
}

}  // namespace skyward::provider::aws

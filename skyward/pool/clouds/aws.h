#pragma once

// Machines of Amazon EC2. Skyward looks for credentials where Amazon's own tools do.
// docs/guide/aws.md says more.
// Made by tools/providers.py from the sheets in skyward/provider; ./dev static compares them.

#include <map>
#include <optional>
#include <string>

#include "skyward/spec/pool_spec.h"

namespace skyward {

struct AWS {
  // The region. Default: from the settings, `AWS_REGION` or the profile; else `"us-east-1"`.
  std::optional<std::string> region{};
  // Connect without an open port, through Session Manager. It needs the AWS CLI with its plugin on
  // your computer, and `instance_profile_arn`. Default: false.
  std::optional<bool> use_ssm{};
  // Your own image. Default: Ubuntu's newest, or Amazon's with NVIDIA's driver.
  std::optional<std::string> ami{};
  // The version of Ubuntu's image. Default: "24.04".
  std::optional<std::string> ubuntu_version{};
  // Your own subnet, or one for each zone, separated by commas. Default: Amazon's default.
  std::optional<std::string> subnet_id{};
  // Your own security group. Default: one per pool.
  std::optional<std::string> security_group_id{};
  // A role for the machines.
  std::optional<std::string> instance_profile_arn{};
  // The login user. Default: by the image's name.
  std::optional<std::string> username{};
  // Ignored; use the pool's `timeout=`. Default: 300.
  std::optional<int> instance_timeout{};
  // Time limit for one attempt of a request, in seconds. Default: 30.
  std::optional<int> request_timeout{};
  // Ignored: Skyward tries zones in the order of their prices. Default: "price-capacity-optimized".
  std::optional<std::string> allocation_strategy{};
  // Rent no burstable types (t families). Default: false.
  std::optional<bool> exclude_burstable{};
  // Give machines no public addresses, and connect to their private ones. It needs `subnet_id`.
  // Default: false.
  std::optional<bool> private_addresses{};
  // Your own tags for machines, disks and security groups: `{"CostCenter": "1234"}`.
  std::optional<std::map<std::string, std::string>> tags{};
  operator ProviderSpec() const;
};

}  // namespace skyward

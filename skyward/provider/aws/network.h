#pragma once

// Where a pool's machines stand: the network, the zones with their subnets, and the group that
// decides who may reach them.

#include <optional>
#include <string>
#include <vector>

#include "skyward/provider/aws/ec2_api.h"

namespace skyward::provider::aws {

// The subnets that a pool may use, one for each zone, all of one network: the one that was given,
// else those of the region's default network.
Result<std::vector<Subnet>> find_subnets(Client& client, const std::string& given, Time deadline);

// The address of this machine as Amazon sees it, as "203.0.113.5/32". Nobody else is let in.
Result<std::string> caller_address(Client& client, Time deadline);

// Makes the rules of a new group: SSH from `caller`, where there is one; everything among its own
// members.
Status make_rules(Client& client, const std::string& group,
                  const std::optional<std::string>& caller, Time deadline);

}  // namespace skyward::provider::aws

#pragma once

// The network of a pool's machines: the VPC, the zones with their subnets, and the rules of the
// security group.

#include <string>
#include <vector>

#include "skyward/provider/aws/ec2_api.h"

namespace skyward::provider::aws {

// The subnets that a pool may use, sorted by zone, all in one VPC: those given (separated by
// commas), else those of the region's default VPC.
Result<std::vector<Subnet>> find_subnets(Client& client, const std::string& given, Time deadline);

// This computer's address as Amazon sees it, "203.0.113.5/32". Only it will be admitted.
Result<std::string> caller_address(Client& client, Time deadline);

// Where this computer's address is if its way to the machines is private.
std::vector<std::string> private_networks();

// Adds the rules of a group: SSH from these addresses, and all traffic among its members.
Status make_rules(Client& client, const std::string& group, const std::vector<std::string>& callers,
                  Time deadline);

}  // namespace skyward::provider::aws

#pragma once

// What kind of machine this computer is, and which services may supply credentials without TLS.

#include <string_view>

#include "skyward/provider/world.h"

namespace skyward::provider::aws {

// Whether credentials may come from this address: https, or http of this machine (a loopback
// address, "localhost") or of the credential services of ECS and EKS. The whole host must match,
// and the address must not contain a user name or password.
bool is_trusted_service(std::string_view url);

// Whether this is an EC2 machine, by its firmware, as cloud-init decides it. Elsewhere, anyone on
// the network could pose as the metadata service.
bool is_ec2_machine(const World& world);

}  // namespace skyward::provider::aws

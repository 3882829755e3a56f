#pragma once

// What this computer is: whose services may be asked for credentials in clear.

#include <string_view>

#include "skyward/provider/world.h"

namespace skyward::provider::aws {

// An address that credentials may be asked at: https, or http of this machine itself (a loopback
// address, "localhost") and of the two services that containers have (ECS, EKS). The host is
// compared whole, and nobody's name and password may stand before it.
bool is_trusted_service(std::string_view url);

// By what its firmware says of it, as cloud-init does: a machine of EC2 has a metadata service, and
// elsewhere anybody on the network could answer in its place.
bool is_ec2_machine(const World& world);

}  // namespace skyward::provider::aws

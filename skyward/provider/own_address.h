#pragma once

// The public address of this computer, for firewalls that admit nobody else.

#include <string>

#include "skyward/base/error.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

struct AddressQuestion {
  std::string url{};  // returns the client's address as text
  std::string ca_file{};
  std::string advice{};  // what to do if that fails
};

// "203.0.113.5/32" or "2001:db8::1/128".
Result<std::string> own_address(const World& world, const AddressQuestion& question, Time deadline);

}  // namespace skyward::provider

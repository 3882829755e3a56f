#pragma once

// The address of this computer as the internet sees it, for the firewalls that admit nobody else.

#include <string>

#include "skyward/base/error.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

struct AddressQuestion {
  std::string url{};  // answers with the address of whoever asks, as text
  std::string ca_file{};
  std::string advice{};  // what to do when it cannot be learnt
};

// "203.0.113.5/32" or "2001:db8::1/128".
Result<std::string> own_address(const World& world, const AddressQuestion& question, Time deadline);

}  // namespace skyward::provider

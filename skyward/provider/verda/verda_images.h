#pragma once

// What Verda's words for types and systems mean here. Pure.

#include <string>

#include "skyward/provider/verda/verda_api.h"
#include "skyward/spec/offer.h"

namespace skyward::provider::verda {

// `offer` with what the type says; without prices.
Offer offer_of(const ServerType& type, const std::string& location, Offer offer);

// The newest Ubuntu that the type starts from, with CUDA where it has GPUs.
std::string image_for(const ServerType& type);

}  // namespace skyward::provider::verda

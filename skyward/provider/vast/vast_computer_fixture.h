#pragma once

// A computer whose user has an account at Vast.ai, which is the double.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "doubles/vast.h"
#include "skyward/provider/doubled_computer_fixture.h"

namespace skyward::provider::vast {

class VastComputer : public DoubledComputer<doubles::Vast> {
 public:
  VastComputer() { spec_.provider = {.name = "vastai", .settings = {{"trust", "community"}}}; }
};

}  // namespace skyward::provider::vast

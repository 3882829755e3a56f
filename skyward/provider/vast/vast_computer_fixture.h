#pragma once

// A computer whose user has an account at Vast.ai, which is the double.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "doubles/vast.h"
#include "skyward/provider/doubled_computer_fixture.h"
#include "skyward/provider/vast/sweep.h"
#include "skyward/provider/vast/vast.h"

namespace skyward::provider::vast {

class VastComputer : public DoubledComputer<doubles::Vast> {
 public:
  VastComputer() { spec_.provider = {.name = "vastai", .settings = {{"trust", "community"}}}; }

  std::unique_ptr<Provider> provider() override {
    auto made = make_vast(spec_.provider, fixture_.world);
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }
  std::vector<Swept> gc(const SweepOptions& options = {}) {
    return ComputerFixture::gc(sweep, options);
  }
};

}  // namespace skyward::provider::vast

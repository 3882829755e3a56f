#pragma once

// A computer with DigitalOcean on virtual time: for the tests that live whole pools there.

#include <memory>
#include <utility>
#include <vector>

#include "doubles/digitalocean.h"
#include "skyward/provider/digital_ocean/digital_ocean.h"
#include "skyward/provider/digital_ocean/sweep.h"
#include "skyward/provider/doubled_computer_fixture.h"

namespace skyward::provider::digital_ocean {

class DigitalOceanComputer : public DoubledComputer<doubles::DigitalOcean> {
 public:
  DigitalOceanComputer() { spec_.provider = {.name = "digital_ocean", .settings = {}}; }

  std::unique_ptr<Provider> provider() override {
    auto made = make_digital_ocean(spec_.provider, fixture_.world);
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }
  std::vector<Swept> gc(const SweepOptions& options = {}) {
    return ComputerFixture::gc(sweep, options);
  }
};

}  // namespace skyward::provider::digital_ocean

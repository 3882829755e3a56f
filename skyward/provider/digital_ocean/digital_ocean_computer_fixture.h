#pragma once

// A computer with DigitalOcean on virtual time: for the tests that live whole pools there.

#include <memory>
#include <utility>
#include <vector>

#include "doubles/digitalocean.h"
#include "skyward/provider/doubled_computer_fixture.h"

namespace skyward::provider::digital_ocean {

class DigitalOceanComputer : public DoubledComputer<doubles::DigitalOcean> {
 public:
  DigitalOceanComputer() { spec_.provider = {.name = "digital_ocean", .settings = {}}; }
};

}  // namespace skyward::provider::digital_ocean

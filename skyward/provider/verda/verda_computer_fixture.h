#pragma once

// A computer with Verda on virtual time: for the tests that live whole pools there.

#include <memory>
#include <utility>
#include <vector>

#include "doubles/verda.h"
#include "skyward/provider/doubled_computer_fixture.h"

namespace skyward::provider::verda {

class VerdaComputer : public DoubledComputer<doubles::Verda> {
 public:
  VerdaComputer() { spec_.provider = {.name = "verda", .settings = {}}; }
};

}  // namespace skyward::provider::verda

#pragma once

// A computer with Verda on virtual time: for the tests that live whole pools there.

#include <memory>
#include <utility>
#include <vector>

#include "doubles/verda.h"
#include "skyward/provider/doubled_computer_fixture.h"
#include "skyward/provider/verda/sweep.h"
#include "skyward/provider/verda/verda.h"

namespace skyward::provider::verda {

class VerdaComputer : public DoubledComputer<doubles::Verda> {
 public:
  VerdaComputer() { spec_.provider = {.name = "verda", .settings = {}}; }

  std::unique_ptr<Provider> provider() override {
    auto made = make_verda(spec_.provider, fixture_.world);
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }
  std::vector<Swept> gc(const SweepOptions& options = {}) {
    return ComputerFixture::gc(sweep, options);
  }
};

}  // namespace skyward::provider::verda

#pragma once

// A computer whose user has an account at RunPod, which is the double.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "doubles/runpod.h"
#include "skyward/provider/doubled_computer_fixture.h"
#include "skyward/provider/runpod/runpod.h"
#include "skyward/provider/runpod/sweep.h"

namespace skyward::provider::runpod {

class RunPodComputer : public DoubledComputer<doubles::RunPod> {
 public:
  RunPodComputer() { spec_.provider = {.name = "runpod", .settings = {}}; }

  std::unique_ptr<Provider> provider() override {
    auto made = make_runpod(spec_.provider, fixture_.world);
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }
  std::vector<Swept> gc(const SweepOptions& options = {}) {
    return ComputerFixture::gc(sweep, options);
  }
};

}  // namespace skyward::provider::runpod

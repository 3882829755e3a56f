#pragma once

// A computer whose user has an account at RunPod, which is the double.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "doubles/runpod.h"
#include "skyward/provider/doubled_computer_fixture.h"

namespace skyward::provider::runpod {

class RunPodComputer : public DoubledComputer<doubles::RunPod> {
 public:
  RunPodComputer() { spec_.provider = {.name = "runpod", .settings = {}}; }
};

}  // namespace skyward::provider::runpod

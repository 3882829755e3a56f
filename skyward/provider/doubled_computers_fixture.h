#pragma once

// A computer at each cloud whose machines a reaper terminates.

#include <gtest/gtest.h>

#include "skyward/provider/digital_ocean/digital_ocean_computer_fixture.h"
#include "skyward/provider/runpod/runpod_computer_fixture.h"
#include "skyward/provider/vast/vast_computer_fixture.h"
#include "skyward/provider/verda/verda_computer_fixture.h"

namespace skyward::provider {

using DoubledComputers =
    ::testing::Types<digital_ocean::DigitalOceanComputer, runpod::RunPodComputer,
                     vast::VastComputer, verda::VerdaComputer>;

}  // namespace skyward::provider

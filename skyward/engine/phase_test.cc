#include "skyward/engine/phase.h"

#include <gtest/gtest.h>

#include <array>

namespace skyward::engine {
namespace {

TEST(Phase, APoolRunsFromIdleToClosed) {
  using enum Phase;
  CheckedPhase phase;
  for (const Phase next : {offering, preparing, provisioning, starting, running, closing,
                           terminating, removing, closed}) {
    phase.set(next);
    EXPECT_EQ(phase, next) << name(next);
  }
}

TEST(Phase, ARegionWithoutMachinesIsLeft) {
  using enum Phase;
  CheckedPhase phase;
  for (const Phase next : {offering, preparing, provisioning, offering, moving, preparing}) {
    phase.set(next);
  }
  EXPECT_EQ(phase, preparing);
}

TEST(Phase, EveryOpenPoolMayCloseAndNoneOpensAgain) {
  using enum Phase;
  constexpr std::array kPhases{idle,    offering, moving,      preparing, provisioning, starting,
                               running, closing,  terminating, removing,  closed};
  for (const Phase phase : kPhases) {
    EXPECT_EQ(may_follow(phase, closing), is_opening(phase) || phase == running) << name(phase);
    EXPECT_FALSE(may_follow(phase, phase)) << name(phase);
    EXPECT_FALSE(may_follow(phase, idle)) << name(phase);
    for (const Phase next : kPhases) {
      if (is_closing(phase)) {
        EXPECT_TRUE(!may_follow(phase, next) || is_closing(next)) << name(next);
      }
    }
    EXPECT_FALSE(has_machines(phase) && is_closing(phase)) << name(phase);
  }
}

TEST(PhaseDeathTest, AWrongStepIsABug) {
  CheckedPhase phase;
  EXPECT_DEATH(phase.set(Phase::running), "running after idle");
}

}  // namespace
}  // namespace skyward::engine

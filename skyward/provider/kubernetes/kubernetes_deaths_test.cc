#include <gtest/gtest.h>

#include "skyward/provider/doubled_deaths_fixture.h"
#include "skyward/provider/kubernetes/kubernetes_computer_fixture.h"

namespace skyward::provider::kubernetes {
namespace {

class KubernetesDeaths : public DoubledDeaths<KubernetesComputer> {
 protected:
  void set_fault(const DeathFault& fault) override {
    DoubledDeaths::set_fault(fault);
    // An API server lists what it has, but pods start late.
    cloud_->dials.listing_lag = cloud_->dials.reading_lag = Duration{};
    cloud_->dials.boot = std::max<Duration>(fault.lag, 5s);
  }
};

TEST_P(KubernetesDeaths, AtEveryBoundaryOfALifeLeaveNothing) {
  die_everywhere("## Kubernetes, with one fault at a time");
  EXPECT_EQ(violations(), "");
}

const DeathFault kFaults[] = {
    {.name = "plain", .words = "nothing else goes wrong"},
    {.name = "slow", .words = "pods take 60 s to start", .lag = 60s},
    {.name = "lost", .words = "every second reply is lost", .lost = true},
    {.name = "throttled", .words = "every second request is throttled", .throttled = true},
    {.name = "broken", .words = "every second request gets a 500", .broken = true}};

INSTANTIATE_TEST_SUITE_P(Faults, KubernetesDeaths, ::testing::ValuesIn(kFaults), death_name);

}  // namespace
}  // namespace skyward::provider::kubernetes

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "skyward/provider/container/container_computer_fixture.h"
#include "skyward/provider/deaths_fixture.h"

namespace skyward::provider::container {
namespace {

class ContainerDeaths : public DeathsFixture<ContainerComputer> {
 protected:
  void set_fault(const DeathFault& fault) override {
    before_ = after_ = -1;
    engine_->lose_reply = fault.lost;
    engine_->breaks = fault.broken;
    engine_->on_request = [this](int number, bool after) {
      if (number == (after ? after_ : before_)) throw DriverDied();
    };
  }
  void die_at_request(int before, int after) override {
    before_ = before;
    after_ = after;
  }
  int requests() override { return ContainerComputer::requests(); }
  int machines() override { return engine_->standing(); }
  int others() override { return 0; }
  bool machines_end_themselves() override { return false; }  // no keeper runs here
  int least_deaths() override { return 30; }                 // a launch is one command for each

 private:
  int before_ = -1;
  int after_ = -1;
};

TEST_P(ContainerDeaths, AtEveryBoundaryOfALifeLeaveNothing) {
  die_everywhere("## Containers, with one fault at a time");
  EXPECT_THAT(engine_->violations, ::testing::IsEmpty());
}

const DeathFault kFaults[] = {
    {.name = "plain", .words = "nothing else goes wrong"},
    {.name = "lost", .words = "every second command is obeyed, and its answer lost", .lost = true},
    {.name = "breaks",
     .words = "the way to the engine breaks before every second command",
     .broken = true}};

INSTANTIATE_TEST_SUITE_P(Faults, ContainerDeaths, ::testing::ValuesIn(kFaults), death_name);

}  // namespace
}  // namespace skyward::provider::container

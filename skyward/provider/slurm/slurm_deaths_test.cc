#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "skyward/provider/deaths_fixture.h"
#include "skyward/provider/slurm/slurm_computer_fixture.h"

namespace skyward::provider::slurm {
namespace {

class SlurmDeaths : public DeathsFixture<SlurmComputer> {
 protected:
  void set_fault(const DeathFault& fault) override {
    slurm_->queue = fault.lag;
    before_ = after_ = -1;
    turn_ = nullptr;
    if (fault.lost) turn_ = [this](bool on) { slurm_->lose_reply = on; };
    if (fault.throttled) turn_ = [this](bool on) { slurm_->busy = on; };
    if (fault.broken) turn_ = [this](bool on) { slurm_->breaks = on; };
    slurm_->on_request = [this](int number, bool after) {
      if (!after && turn_) turn_(number % 2 == 0);
      if (number == (after ? after_ : before_)) throw DriverDied();
    };
  }
  void die_at_request(int before, int after) override {
    before_ = before;
    after_ = after;
  }
  int requests() override { return SlurmComputer::requests(); }
  int machines() override { return slurm_->standing(); }
  int others() override { return 0; }
  bool machines_end_themselves() override { return false; }  // no keeper runs here
  int least_deaths() override { return 30; }                 // a whole launch is one command

 private:
  std::function<void(bool on)> turn_;  // the fault, for every second request
  int before_ = -1;
  int after_ = -1;
};

TEST_P(SlurmDeaths, AtEveryBoundaryOfALifeLeaveNothing) {
  die_everywhere("## Slurm, with one fault at a time");
  EXPECT_THAT(slurm_->violations, ::testing::IsEmpty());
}

// A controller lists what it has, but jobs wait.
const DeathFault kFaults[] = {
    {.name = "plain", .words = "nothing else goes wrong"},
    {.name = "queue", .words = "jobs wait in the queue for 60 s", .lag = 60s},
    {.name = "lost", .words = "every second answer is lost", .lost = true},
    {.name = "busy",
     .words = "the controller is too busy for every second command",
     .throttled = true},
    {.name = "breaks",
     .words = "the connection to the login node breaks at every second command",
     .broken = true}};

INSTANTIATE_TEST_SUITE_P(Faults, SlurmDeaths, ::testing::ValuesIn(kFaults), death_name);

}  // namespace
}  // namespace skyward::provider::slurm

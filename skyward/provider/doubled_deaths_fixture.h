#pragma once

// deaths_fixture.h for the clouds in doubles/, whose machines' own timers do not run here.

#include <functional>
#include <string>

#include "skyward/provider/deaths_fixture.h"
#include "skyward/provider/doubled_computer_fixture.h"

namespace skyward::provider {

// `Computer` is a DoubledComputer.
template <typename Computer>
class DoubledDeaths : public DeathsFixture<Computer> {
 protected:
  void set_fault(const DeathFault& fault) override {
    doubles::Dials& dials = this->cloud_->dials;
    dials.listing_lag = fault.lag;
    dials.reading_lag = fault.lag / 2;
    before_ = after_ = -1;
    turn_ = nullptr;
    if (fault.lost) turn_ = [&dials](bool on) { dials.lose_reply = on; };
    if (fault.throttled) turn_ = [&dials](bool on) { dials.throttle = on; };
    // It has happened all the same.
    if (fault.broken) turn_ = [&dials](bool on) { dials.fail_late = on; };
    this->cloud_->on_request = [this](int number, bool after) {
      if (!after && turn_) turn_(number % 2 == 0);
      if (number == (after ? after_ : before_)) throw DriverDied();
    };
  }
  void die_at_request(int before, int after) override {
    before_ = before;
    after_ = after;
  }
  int requests() override { return Computer::requests(); }
  int machines() override {
    int out = 0;
    for (const std::string& one : this->cloud_->leftovers()) out += one.starts_with("machine ");
    return out;
  }
  int others() override { return static_cast<int>(this->cloud_->leftovers().size()) - machines(); }
  bool machines_end_themselves() override { return false; }

 private:
  std::function<void(bool on)> turn_;  // the fault, for every second request
  int before_ = -1;
  int after_ = -1;
};

}  // namespace skyward::provider

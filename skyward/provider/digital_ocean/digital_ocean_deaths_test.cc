#include <gtest/gtest.h>

#include <string>

#include "skyward/provider/deaths_fixture.h"
#include "skyward/provider/digital_ocean/digital_ocean_computer_fixture.h"

namespace skyward::provider::digital_ocean {
namespace {

class DropletDeaths : public DeathsFixture<DigitalOceanComputer> {
 protected:
  void set_fault(const DeathFault& fault) override {
    doubles::Dials& dials = cloud_->dials;
    dials.listing_lag = fault.lag;
    dials.reading_lag = fault.lag / 2;
    every_second_ = nullptr;
    if (fault.lost) every_second_ = [&dials](int number) { dials.lose_reply = number % 2 == 0; };
    if (fault.throttled) every_second_ = [&dials](int number) { dials.throttle = number % 2 == 0; };
    // It has happened all the same.
    if (fault.broken) every_second_ = [&dials](int number) { dials.fail_late = number % 2 == 0; };
    watch();
  }
  void die_at_request(int before, int after) override {
    before_ = before;
    after_ = after;
  }
  int requests() override { return DigitalOceanComputer::requests(); }
  int machines() override { return count("machine "); }
  int others() override { return static_cast<int>(cloud_->leftovers().size()) - count("machine "); }
  bool machines_end_themselves() override { return false; }

 private:
  int count(const char* kind) const {
    int out = 0;
    for (const std::string& one : cloud_->leftovers()) out += one.starts_with(kind);
    return out;
  }
  void watch() {
    cloud_->on_request = [this](int number, bool after) {
      if (!after && every_second_) every_second_(number);
      if (number == (after ? after_ : before_)) throw DriverDied();
    };
  }

  std::function<void(int number)> every_second_;
  int before_ = -1;
  int after_ = -1;
};

TEST_P(DropletDeaths, AtEveryBoundaryOfALifeLeaveNothing) {
  const std::string row = die_everywhere();
  EXPECT_EQ(violations(), "");
  const auto page = io::read_file(SKYWARD_DOCS "/leaks.md");
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_TRUE(page->contains(row)) << "docs/leaks.md does not have this row:\n" << row;
}

INSTANTIATE_TEST_SUITE_P(Faults, DropletDeaths, ::testing::ValuesIn(death_faults()), death_name);

}  // namespace
}  // namespace skyward::provider::digital_ocean

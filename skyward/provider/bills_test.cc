// What Skyward says that a pool costs, beside what the cloud bills: two machines for some hours, or
// for two minutes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "skyward/provider/doubled_computers_fixture.h"
#include "skyward/spec/cost.h"

namespace skyward::provider {
namespace {

// As the engine does it: the machine's own price wins over its offer's.
std::optional<MachinePrice> price_of(const Instance& machine, const Offer& offer) {
  const auto& own = machine.spot ? machine.price_spot : machine.price_on_demand;
  const auto& offered = machine.spot ? offer.price_spot : offer.price_on_demand;
  const auto& dollars = own ? own : offered;
  if (!dollars) return std::nullopt;
  return MachinePrice{.hourly = to_micro_dollars(*dollars), .spot = machine.spot};
}

template <typename Computer>
class Bills : public ::testing::Test, public Computer {
 protected:
  MicroDollars price_in_ledger(const Cluster& cluster, const std::string& id) {
    const auto entries = (*open_ledger(this->fixture_.world))->entries(cluster.id, false);
    const auto found = std::ranges::find(*entries, id, &LedgerEntry::id);
    return found == entries->end() ? 0 : found->hourly_micro_dollars;
  }
  // Compares after so long.
  void live_for(Duration time, double tolerance = 0.01) {
    this->spec_.timeout = 24h;
    const auto cloud = this->provider();
    const auto offers = cloud->offers(this->spec_, this->soon());
    ASSERT_TRUE(offers) << offers.error().message;
    const Offer& offer = offers->front();
    const auto cluster = cloud->prepare(this->spec_, offer, this->soon());
    ASSERT_TRUE(cluster) << cluster.error().message;
    BillingRules rules = cloud->capabilities().billing;
    rules.set_increment(offer.billing_increment_minutes);
    CostBook book(rules);
    const Time asked = this->fixture_.now;
    const auto machines = cloud->provision(*cluster, 2, 0, this->soon());
    ASSERT_TRUE(machines) << machines.error().message;
    for (const Instance& one : *machines) {
      book.on_launched(one.id, 0, asked, price_of(one, offer));
      EXPECT_EQ(price_in_ledger(*cluster, one.id), price_of(one, offer)->hourly);
    }
    this->fixture_.now += time;
    std::vector<std::string> ids;
    for (const Instance& one : *machines) ids.push_back(one.id);
    EXPECT_TRUE(cloud->terminate(*cluster, ids, this->soon()));
    const Time gone = this->fixture_.now;
    for (const std::string& id : ids) book.on_gone(id, gone);
    EXPECT_TRUE(cloud->teardown(*cluster, this->soon()));
    const double invoice = this->cloud_->invoice(gone);
    const CostNow told = book.now(gone);
    EXPECT_TRUE(told.complete);
    EXPECT_GT(invoice, 0);
    EXPECT_NEAR(to_dollars(told.total) / invoice, 1, tolerance) << "billed: $" << invoice;
    EXPECT_EQ(this->violations(), "");
  }
};

TYPED_TEST_SUITE(Bills, DoubledComputers);

TYPED_TEST(Bills, OfMachinesOnDemandAreWithinOnePercent) {
  this->spec_.accelerator = Accelerator{.name = "H100"};
  this->spec_.spot = Spot::Never();
  this->live_for(std::chrono::hours(5) + 17min);
}

class DropletBills : public Bills<digital_ocean::DigitalOceanComputer> {};

// Where two minutes cost less than the least that the cloud charges.
TEST_F(DropletBills, OfTheSmallestMachinesForTwoMinutesAreWithinOnePercent) {
  spec_.spot = Spot::Never();
  live_for(2min);
}

class PodBills : public Bills<runpod::RunPodComputer> {};

// A minimum of a minute would be twice that; what they take to start and to end is less.
TEST_F(PodBills, OfMachinesForHalfAMinuteHaveNoMinimum) {
  cloud_->dials.boot = cloud_->dials.address_lag = cloud_->dials.ending = 0s;
  spec_.accelerator = Accelerator{.name = "H100"};
  spec_.spot = Spot::Never();
  live_for(30s, 0.4);
}

TYPED_TEST(Bills, OfSpotMachinesAreWithinOnePercent) {
  this->spec_.accelerator = Accelerator{.name = "H100"};
  this->spec_.spot = Spot::Always();
  if (!this->provider()->capabilities().spot) GTEST_SKIP() << "this cloud has no spot machines";
  this->live_for(std::chrono::hours(5) + 17min);
}

// One of two is sold out, so the other is released again.
TYPED_TEST(Bills, OfFailedLaunchesAreTold) {
  this->spec_.accelerator = Accelerator{.name = "H100"};
  this->spec_.spot = Spot::Never();
  this->cloud_->dials.capacity = {{"*", 1}};
  const auto cloud = this->provider();
  const auto offers = cloud->offers(this->spec_, this->soon());
  ASSERT_TRUE(offers) << offers.error().message;
  const auto cluster = cloud->prepare(this->spec_, offers->front(), this->soon());
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_FALSE(cloud->provision(*cluster, 2, 0, this->soon()));
  EXPECT_GT(cloud->capabilities().charges_interval, Duration());
  const auto charges = cloud->charges(*cluster, {}, this->soon());
  ASSERT_TRUE(charges) << charges.error().message;
  CostBook book(cloud->capabilities().billing);
  book.on_charges(*charges, this->fixture_.now);
  const double invoice = this->cloud_->invoice(this->fixture_.now);
  if (invoice > 0) {
    EXPECT_TRUE(book.costs_anything());
  }
  EXPECT_GE(to_dollars(book.now(this->fixture_.now).total) * 1.01, invoice);
  EXPECT_TRUE(cloud->teardown(*cluster, this->soon()));
}

}  // namespace
}  // namespace skyward::provider

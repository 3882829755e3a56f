#include "skyward/engine/loop_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace skyward::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<Offer> offer(std::optional<double> on_demand, std::optional<double> spot = {}) {
  return Offer{.instance_type = "m", .price_on_demand = on_demand, .price_spot = spot};
}

PoolSpec choosing(Selection selection, Spot spot = Spot::Never()) {
  PoolSpec spec;
  spec.selection = selection;
  spec.spot = spot;
  return spec;
}

TEST(LoopChoice, TheCheapestGoesByThePriceOfItsMarket) {
  const std::vector<Result<Offer>> offers = {offer(3.0, 1.0), offer(2.0, 1.5), offer({}),
                                             fail(ErrorKind::denied, "no keys"), offer(0.5)};
  EXPECT_THAT(order_of(choosing(Selection::cheapest), offers), ElementsAre(4, 1, 0, 2, 3));
  EXPECT_THAT(order_of(choosing(Selection::cheapest, Spot::Always()), offers),
              ElementsAre(4, 0, 1, 2, 3));
}

TEST(LoopChoice, AvailableKeepsTheOrderButForThoseThatHaveNothing) {
  const std::vector<Result<Offer>> offers = {fail(ErrorKind::exhausted, "none"), offer(3.0),
                                             offer(1.0)};
  EXPECT_THAT(order_of(choosing(Selection::available), offers), ElementsAre(1, 2, 0));
}

TEST(LoopChoice, AllAreAskedAndWhatGoesWrongIsTold) {
  PoolSpec unknown;
  unknown.provider.name = "nowhere";
  PoolSpec command;
  command.provider = {.name = "command", .settings = {{"commands", R"([["true"]])"}}};
  command.agent_path = "/bin/true";
  command.runtime.command = {"/bin/true"};
  const auto offers = best_offers({unknown, command}, {});
  ASSERT_EQ(offers.size(), 2U);
  EXPECT_THAT(offers[0].error().message, HasSubstr("nowhere"));
  EXPECT_TRUE(offers[1]) << offers[1].error().message;
}

}  // namespace
}  // namespace skyward::engine

#include "skyward/provider/aws/market.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "skyward/provider/aws/catalogue.h"
#include "skyward/provider/aws/list_prices.h"
#include "skyward/provider/choosing.h"

namespace skyward::provider::aws {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

InstanceType type(const std::string& name, int cpus, double memory_gib) {
  return {.name = name,
          .cpus = cpus,
          .memory_mib = memory_gib * 1024,
          .architectures = {std::string(own_architecture())},
          .spot = true,
          .on_demand = true,
          .current_generation = true};
}

InstanceType gpu(const std::string& name, const std::string& model, double count, double mib) {
  InstanceType made = type(name, 96, 1152);
  made.devices = {{.name = model, .manufacturer = "NVIDIA", .count = count, .memory_mib = mib}};
  return made;
}

// What Amazon sells of it, cheapest first in the fixture's prices.
std::vector<InstanceType> some_types() {
  InstanceType burstable = type("t3.small", 2, 2);
  burstable.burstable = true;
  InstanceType metal = type("m5.metal", 96, 384);
  metal.bare_metal = true;
  InstanceType old = type("m3.large", 2, 7.5);
  old.current_generation = false;
  InstanceType other = type("x9.large", 2, 8);
  other.architectures = {"riscv"};
  return {burstable,
          type("c5.large", 2, 4),
          type("m5.large", 2, 8),
          metal,
          old,
          other,
          gpu("p4d.24xlarge", "A100", 8, 40960),
          gpu("p4de.24xlarge", "A100", 8, 81920),
          gpu("g6f.large", "L4", 0.125, 2861),
          gpu("g6.xlarge", "L4", 1, 22888),
          gpu("trn1.2xlarge", "Trainium", 1, 32768)};
}

Prices some_prices() {
  Prices prices;
  prices.on_demand = {{"t3.small", 0.02}, {"c5.large", 0.08},   {"m5.large", 0.1},
                      {"m5.metal", 4.6},  {"p4d.24xlarge", 22}, {"p4de.24xlarge", 27},
                      {"g6f.large", 0.2}, {"g6.xlarge", 0.8},   {"trn1.2xlarge", 1.3}};
  prices.spot = {
      {{"m5.large", "z1"}, 0.05}, {{"m5.large", "z2"}, 0.01}, {{"c5.large", "z1"}, 0.03}};
  return prices;
}

std::vector<std::string> fitting(const PoolSpec& spec) {
  const std::vector<InstanceType> types = some_types();
  const auto offers = fitting_offers(to_offers(types, some_prices(), "r", spec), spec);
  std::vector<std::string> names;
  if (!offers) return {offers.error().message + ": " + offers.error().hint};
  for (const Offer& offer : *offers) names.push_back(offer.instance_type);
  return names;
}

PoolSpec on_demand() {
  PoolSpec spec;
  spec.spot = Spot::Never();
  return spec;
}

PoolSpec with(const std::string& accelerator, std::optional<double> count = {}) {
  PoolSpec spec = on_demand();
  spec.accelerator = *catalogue_accelerator(accelerator, {.count = count});
  return spec;
}

TEST(Market, TheCheapestThatFitsComesFirst) {
  EXPECT_THAT(fitting(on_demand()), ElementsAre("c5.large", "m5.large", "t3.small"))
      << "which has a fifth of its processors";
  PoolSpec spec = on_demand();
  spec.memory_mb = 8 * 1024;
  EXPECT_THAT(fitting(spec), ElementsAre("m5.large"));
  spec = on_demand();
  spec.provider.settings["exclude_burstable"] = "true";
  EXPECT_THAT(fitting(spec), ElementsAre("c5.large", "m5.large"));
}

TEST(Market, PricesAreThoseOfMachinesWithTheirAddresses) {
  PoolSpec spec;  // spot
  spec.machine = "m5.large";
  const auto price = [&] { return to_offers(some_types(), some_prices(), "r", spec).front(); };
  EXPECT_DOUBLE_EQ(price().price_on_demand.value_or(0), 0.1 + 0.005);
  EXPECT_DOUBLE_EQ(price().price_spot.value_or(0), 0.01 + 0.005);
  spec.provider.settings = {{"use_ssm", "true"}};
  EXPECT_DOUBLE_EQ(price().price_on_demand.value_or(0), 0.1 + 0.005) << "in a default subnet";
  spec.provider.settings["subnet_id"] = "subnet-1";
  EXPECT_DOUBLE_EQ(price().price_on_demand.value_or(0), 0.1);
  EXPECT_DOUBLE_EQ(price().price_spot.value_or(0), 0.01);
  spec.provider.settings = {{"private_addresses", "true"}, {"subnet_id", "subnet-1"}};
  EXPECT_DOUBLE_EQ(price().price_on_demand.value_or(0), 0.1);
}

TEST(Market, BurstableMachinesCountWithTheirBaseline) {
  const auto baseline = [](const std::string& name, bool burstable) {
    InstanceType one = type(name, 2, 8);
    one.burstable = burstable;
    return to_offers(std::vector{one}, {}, "r", on_demand()).front().baseline;
  };
  EXPECT_EQ(baseline("m5.large", false), 1);
  EXPECT_EQ(baseline("t3.nano", true), 0.05);
  EXPECT_EQ(baseline("t4g.large", true), 0.3);
  EXPECT_EQ(baseline("t3a.2xlarge", true), 0.4);
  EXPECT_EQ(baseline("t2.2xlarge", true), 0.17);
  EXPECT_LT(baseline("t9.24xlarge", true), 1) << "one that nobody knows yet";
}

TEST(Market, SpotMachinesAreRankedByTheCheapestZone) {
  PoolSpec spec;  // spot
  EXPECT_THAT(fitting(spec), ElementsAre("m5.large", "c5.large", "t3.small"));
}

TEST(Market, AcceleratorsByNameMemoryAndShare) {
  EXPECT_THAT(fitting(with("A100")), ElementsAre("p4d.24xlarge", "p4de.24xlarge"));
  EXPECT_THAT(fitting(with("A100-80GB")), ElementsAre("p4de.24xlarge"));
  EXPECT_THAT(fitting(with("L4")), ElementsAre("g6.xlarge"));
  EXPECT_THAT(fitting(with("L4", 0.125)), ElementsAre("g6f.large", "g6.xlarge"));
  EXPECT_THAT(fitting(with("Trainium1")), ElementsAre("trn1.2xlarge"));
}

TEST(Market, ATypeThatIsNamedIsTakenAsItIs) {
  PoolSpec spec = on_demand();
  spec.machine = "m5.metal";
  EXPECT_THAT(fitting(spec), ElementsAre("m5.metal"));
  spec.machine = "m5.mega";
  EXPECT_THAT(fitting(spec).front(), HasSubstr("machine=\"m5.mega\" is not offered"));
}

TEST(Market, WhatIsNearIsNamedWhenNothingFits) {
  EXPECT_THAT(fitting(with("H100")).front(), HasSubstr("the machines on offer have A100, L4"));
  EXPECT_THAT(fitting(with("A100", 16)).front(), HasSubstr("A100 is offered with 8 devices"));
  PoolSpec spec = on_demand();
  spec.cpus = 500;
  EXPECT_THAT(fitting(spec).front(), HasSubstr("the most offered is 96 CPUs"));
}

TEST(Market, OtherRegionsAreOnlyAskedForWhatIsNotSoldHere) {
  const std::vector<InstanceType> types = some_types();
  EXPECT_TRUE(is_known(types, with("A100", 64)));
  EXPECT_FALSE(is_known(types, with("H100")));
  PoolSpec spec = on_demand();
  spec.cpus = 500;
  EXPECT_TRUE(is_known(types, spec));
  spec.machine = "m5.mega";
  EXPECT_FALSE(is_known(types, spec));
}

TEST(Market, OtherTypesAreTriedWhileTheyCostLittleMore) {
  const std::vector<InstanceType> types = some_types();
  const auto names = [&](PoolSpec spec) {
    const auto ranked = fitting_offers(to_offers(types, some_prices(), "r", spec), spec);
    std::vector<std::string> out;
    for (const Offer& one : with_alternatives(*ranked, ranked->front(), spec)) {
      out.push_back(one.instance_type);
    }
    return out;
  };
  EXPECT_THAT(names(with("A100")), ElementsAre("p4d.24xlarge", "p4de.24xlarge"));
  EXPECT_THAT(names(on_demand()), ElementsAre("c5.large", "m5.large", "t3.small"));
  EXPECT_THAT(names(with("L4")), ElementsAre("g6.xlarge"));
  PoolSpec limited = with("A100");
  limited.nodes = 2;
  limited.max_hourly_cost = 50;
  EXPECT_THAT(names(limited), ElementsAre("p4d.24xlarge"));
}

TEST(Market, BurstableTypesBehindDearerOnesAreTriedToo) {
  const auto sold = [](std::string type, double price, double baseline) {
    return Offer{.instance_type = std::move(type),
                 .region = "r",
                 .price_on_demand = price,
                 .baseline = baseline};
  };
  const std::vector<Offer> ranked = {sold("t3a.small", 0.0188, 0.2), sold("m5.large", 0.096, 1),
                                     sold("t3.small", 0.0208, 0.2)};
  const std::vector<Offer> tried = with_alternatives(ranked, ranked.front(), on_demand());
  ASSERT_EQ(tried.size(), 2U);
  EXPECT_EQ(tried.back().instance_type, "t3.small");
}

TEST(Market, TypesSurviveTheCache) {
  const std::vector<InstanceType> types = some_types();
  const std::vector<InstanceType> again = types_of_text(to_text(types));
  ASSERT_EQ(again.size(), types.size());
  EXPECT_EQ(to_text(again), to_text(types));
  EXPECT_TRUE(types_of_text("[[1]]").empty());
  EXPECT_TRUE(types_of_text("nothing").empty());
}

TEST(ListPrices, AreThere) {
  EXPECT_EQ(list_prices().at("p4d.24xlarge"), 21.957642);
  EXPECT_EQ(list_prices().at("m5.large"), 0.096);
  EXPECT_GT(list_prices().size(), 300U);
}

TEST(Market, AMachineIsOfTheArchitectureThatTheAgentsAreFor) {
  const std::string own(own_architecture());
  const std::string foreign = own == "arm64" ? "x86_64" : "arm64";
  InstanceType other = type("m7g.large", 2, 8);
  other.architectures = {foreign};
  const std::vector<InstanceType> types = {type("m5.large", 2, 8), other};
  const auto offered = [&](const PoolSpec& spec) {
    std::vector<std::string> out;
    for (const Offer& offer : to_offers(types, {}, "r", spec)) {
      out.push_back(offer.instance_type + " " + offer.architecture);
    }
    return out;
  };
  PoolSpec spec;
  spec.other_agents = {{foreign, "/agent"}};
  EXPECT_THAT(offered(spec), ElementsAre("m5.large " + own));
  spec.architecture = foreign;
  EXPECT_THAT(offered(spec), ElementsAre("m7g.large " + foreign));
  EXPECT_TRUE(check_architecture(spec));
  spec.architecture.clear();
  spec.machine = "m7g.large";  // which says what it is
  EXPECT_THAT(offered(spec), ElementsAre("m7g.large " + foreign));
  spec.other_agents.clear();
  EXPECT_THAT(offered(spec), ElementsAre());
  EXPECT_TRUE(check_architecture(spec));
  spec.architecture = own;
  EXPECT_TRUE(check_architecture(spec));
  spec.architecture = foreign;
  const Status refused = check_architecture(spec);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("has no agent for " + foreign + " machines"));
}

}  // namespace
}  // namespace skyward::provider::aws

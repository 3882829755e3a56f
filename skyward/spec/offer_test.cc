#include "skyward/spec/offer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace skyward {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Accelerator wanted(std::string_view name, const AcceleratorOptions& options = {}) {
  return catalogue_accelerator(name, options).value();
}

std::vector<Offer> market() {
  return {
      {.instance_type = "big", .cpus = 64, .memory_gb = 256, .price_on_demand = 3.0},
      {.instance_type = "small",
       .cpus = 2,
       .memory_gb = 4,
       .price_on_demand = 0.1,
       .price_spot = 0.09},
      {.instance_type = "mid",
       .cpus = 8,
       .memory_gb = 32,
       .price_on_demand = 0.4,
       .price_spot = 0.05},
      {.instance_type = "a100x8",
       .cpus = 96,
       .memory_gb = 1152,
       .accelerator = "A100-40",
       .accelerator_count = 8,
       .accelerator_memory_gb = 40,
       .price_on_demand = 32.0},
      {.instance_type = "a100x8-80",
       .cpus = 96,
       .memory_gb = 1152,
       .accelerator = "A100-80",
       .accelerator_count = 8,
       .accelerator_memory_gb = 80,
       .price_on_demand = 40.0},
      {.instance_type = "t4",
       .cpus = 4,
       .memory_gb = 16,
       .accelerator = "T4",
       .accelerator_count = 1,
       .accelerator_memory_gb = 16,
       .price_on_demand = 0.5},
      {.instance_type = "t4-unpriced",
       .cpus = 4,
       .memory_gb = 16,
       .accelerator = "T4",
       .accelerator_count = 1,
       .accelerator_memory_gb = 16},
  };
}

// The best offer; or why there is none, and what was near.
std::string chosen(const OfferRequest& request, const std::vector<Offer>& offers = market()) {
  const auto ranked = rank_offers(offers, request);
  return ranked ? offers[ranked->front()].instance_type
                : ranked.error().message + " | " + ranked.error().hint;
}

TEST(RankOffers, TheCheapestThatFits) {
  EXPECT_EQ(chosen({}), "small");
  EXPECT_EQ(chosen({.cpus = 4}), "mid");
  EXPECT_EQ(chosen({.memory_mb = 8192, .prefer_spot = true}), "mid");
  EXPECT_EQ(chosen({.prefer_spot = true}), "mid");
  EXPECT_EQ(chosen({.accelerator = wanted("A100")}), "a100x8");
  EXPECT_EQ(chosen({.accelerator = wanted("A100", {.memory = "80GB"})}), "a100x8-80");
  EXPECT_EQ(chosen({.accelerator = wanted("T4")}), "t4");
}

// Another size has other profiles: the driver would refuse them once the machine is paid for.
TEST(RankOffers, PartitionsNeedTheMemoryThatHasTheirProfile) {
  EXPECT_EQ(chosen({.accelerator = wanted("A100", {.mig = "3g.40gb"})}), "a100x8-80");
  EXPECT_EQ(chosen({.accelerator = wanted("A100", {.memory = "40GB", .mig = "3g.20gb"})}),
            "a100x8");
  std::vector<Offer> small = market();
  std::erase_if(small, [](const Offer& one) { return one.instance_type == "a100x8-80"; });
  EXPECT_EQ(chosen({.accelerator = wanted("A100", {.mig = "3g.40gb"})}, small),
            "no machine has an A100 of 80GB | the machines on offer have A100-40, T4");
}

TEST(RankOffers, AFormFactorThatIsToldMustBeTheOneThatIsWanted) {
  const auto offer = [](const char* type, const char* form, double memory_gb, double price) {
    return Offer{.instance_type = type,
                 .cpus = 8,
                 .memory_gb = 64,
                 .accelerator = "H100",
                 .accelerator_form = form,
                 .accelerator_count = 1,
                 .accelerator_memory_gb = memory_gb,
                 .price_on_demand = price};
  };
  const std::vector<Offer> offers = {offer("pcie", "PCIe", 80, 2), offer("nvl", "NVL", 94, 2.5),
                                     offer("sxm", "SXM", 80, 3)};
  EXPECT_EQ(chosen({.accelerator = wanted("H100")}, offers), "pcie");
  EXPECT_EQ(chosen({.accelerator = wanted("H100", {.form_factor = "SXM"})}, offers), "sxm");
  EXPECT_EQ(chosen({.accelerator = wanted("H100", {.form_factor = "NVL"})}, offers), "nvl");
  EXPECT_EQ(chosen({.accelerator = wanted("H100", {.form_factor = "SXM"})}, {offers[0]}),
            "no machine has an H100-SXM | the machines on offer have H100-PCIe");
  EXPECT_EQ(chosen({.accelerator = wanted("A100")}, offers),
            "no machine has an A100 | the machines on offer have H100");
  EXPECT_EQ(chosen({.accelerator = wanted("H100", {.form_factor = "SXM"})},
                   {offer("plain", "", 80, 2.2), offers[2]}),
            "plain");
}

TEST(RankOffers, APartOfAProcessorIsNotAWholeOne) {
  const std::vector<Offer> offers = {
      {.instance_type = "burstable", .cpus = 2, .memory_gb = 4, .price_on_demand = 0.02},
      {.instance_type = "whole", .cpus = 2, .memory_gb = 4, .price_on_demand = 0.08}};
  EXPECT_THAT(rank_offers(offers, {}).value(), ElementsAre(0, 1));
  std::vector<Offer> honest = offers;
  honest[0].baseline = 0.2;
  EXPECT_THAT(rank_offers(honest, {}).value(), ElementsAre(1, 0));
}

TEST(RankOffers, WithoutPricesTheSmallest) {
  const std::vector<Offer> offers = {{.instance_type = "c", .cpus = 32, .memory_gb = 64},
                                     {.instance_type = "b", .cpus = 8, .memory_gb = 64},
                                     {.instance_type = "a", .cpus = 8, .memory_gb = 64}};
  EXPECT_THAT(rank_offers(offers, {.cpus = 4}).value(), ElementsAre(2, 1, 0));
}

TEST(RankOffers, DevicesNobodyAskedForComeLast) { EXPECT_EQ(chosen({.cpus = 80}), "a100x8"); }

TEST(RankOffers, ErrorsSayWhatWasNear) {
  EXPECT_EQ(chosen({.accelerator = wanted("H100")}),
            "no machine has an H100 | the machines on offer have A100-40, A100-80, T4");
  EXPECT_EQ(chosen({.accelerator = wanted("T4", {.count = 4})}),
            "no machine has 4 T4 | T4 is offered with 1 device");
  EXPECT_THAT(chosen({.accelerator = wanted("T4"), .cpus = 16}),
              AllOf(HasSubstr("no machine has 1 T4 with 16 CPUs and 1 GB of memory"),
                    HasSubstr("the most offered with it is 4 CPUs and 16 GB")));
  EXPECT_THAT(chosen({.accelerator = wanted("T4"), .cpus = 16, .memory_mb = 1}),
              HasSubstr("1 T4 with 16 CPUs and 0 GB of memory"));
  EXPECT_THAT(chosen({.cpus = 1000}), HasSubstr("the most offered is 96 CPUs and 1152 GB"));
  EXPECT_THAT(chosen({}, {}), HasSubstr(" | no machines are offered at all"));
}

TEST(RankOffers, Architecture) {
  std::vector<Offer> offers = market();
  offers[1].architecture = "arm64";
  EXPECT_EQ(chosen({.architecture = "x86_64"}, offers), "mid");
  EXPECT_EQ(chosen({.architecture = "arm64"}, offers), "small");
}

}  // namespace
}  // namespace skyward

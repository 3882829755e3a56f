#include "skyward/provider/launch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

namespace skyward::provider {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

// Two types in two zones; the cheaper type first.
std::vector<LaunchTarget> places() {
  return {{.type = "a", .zone = "z1", .subnet = "s1", .spot_price = 1.0, .on_demand_price = 3.0},
          {.type = "a", .zone = "z2", .subnet = "s2", .spot_price = 2.0, .on_demand_price = 3.0},
          {.type = "b", .zone = "z1", .subnet = "s1", .spot_price = 1.5, .on_demand_price = 4.0}};
}

enum class Answer { yes, capacity, count, type, quota };

// Plays a plan against a market; what was done, in words: "3 spot a/z1".
struct Play {
  std::vector<std::string> steps;
  LaunchOutcome outcome{};
};
Play play(const Spot& spot, int count, const std::function<Answer(const Attempt&)>& market) {
  const std::vector<LaunchTarget> where = places();
  LaunchPlan plan(spot, count, where);
  Play out;
  for (int i = 0; i < 1000; ++i) {
    const Step step = plan.next();
    if (const auto* outcome = std::get_if<LaunchOutcome>(&step)) {
      out.outcome = *outcome;
      return out;
    }
    if (const auto* wait = std::get_if<Wait>(&step)) {
      out.steps.push_back("wait " + std::to_string(wait->duration / 1s));
    } else if (std::holds_alternative<Release>(step)) {
      out.steps.emplace_back("release");
    } else {
      const auto& attempt = std::get<Attempt>(step);
      const LaunchTarget& place = where[attempt.placement];
      out.steps.push_back(std::to_string(attempt.count) + (attempt.spot ? " spot " : " ") +
                          place.type + "/" + place.zone);
      const Answer answer = market(attempt);
      if (answer == Answer::yes) {
        plan.on_launched();
      } else {
        plan.on_refused(answer == Answer::quota   ? RefusedPart::market
                        : answer == Answer::type  ? RefusedPart::type
                        : answer == Answer::count ? RefusedPart::count
                                                  : RefusedPart::place);
      }
    }
  }
  ADD_FAILURE() << "the plan never ends";
  return out;
}

Answer never(const Attempt&) { return Answer::capacity; }
Answer always(const Attempt&) { return Answer::yes; }

TEST(LaunchPlan, TheFirstPlaceThatHasThemIsTaken) {
  const Play played = play(Spot::Always(), 3, always);
  EXPECT_THAT(played.steps, ElementsAre("3 spot a/z1"));
  EXPECT_EQ(played.outcome, LaunchOutcome::complete);
}

TEST(LaunchPlan, AlwaysTriesEveryPlaceInEveryRound) {
  const Play played = play(Spot::Always(2, 5s), 2, never);
  EXPECT_THAT(played.steps, ElementsAre("2 spot a/z1", "2 spot a/z2", "2 spot b/z1", "wait 5",
                                        "2 spot a/z1", "2 spot a/z2", "2 spot b/z1"));
  EXPECT_EQ(played.outcome, LaunchOutcome::no_capacity);
}

TEST(LaunchPlan, NeverAsksForSpotMachines) {
  const Play played = play(Spot::Never(), 2, never);
  EXPECT_THAT(played.steps, ElementsAre("2 a/z1", "2 a/z2", "2 b/z1"));
  EXPECT_EQ(played.outcome, LaunchOutcome::no_capacity);
}

TEST(LaunchPlan, IfAvailableDoesNotMix) {
  const Play played = play(Spot::IfAvailable(1), 4, [](const Attempt& attempt) {
    return attempt.spot ? Answer::capacity : Answer::yes;
  });
  EXPECT_THAT(played.steps, ElementsAre("4 spot a/z1", "4 spot a/z2", "4 spot b/z1", "4 a/z1"));
  EXPECT_EQ(played.outcome, LaunchOutcome::complete);
}

TEST(LaunchPlan, AShareIsFilledUpInTheSameZone) {
  const Play played = play(Spot::Percent(0.5), 5, [](const Attempt& attempt) {
    return attempt.spot && attempt.count == 5 ? Answer::capacity : Answer::yes;
  });
  EXPECT_THAT(played.steps,
              ElementsAre("5 spot a/z1", "5 spot a/z2", "5 spot b/z1", "3 spot a/z1", "2 a/z1"));
  EXPECT_EQ(played.outcome, LaunchOutcome::complete);
}

TEST(LaunchPlan, WhereTheRestIsMissingTheSpotPartIsGivenBack) {
  const Play played = play(Spot::Percent(0.5), 4, [](const Attempt& attempt) {
    if (attempt.spot) return attempt.count == 4 ? Answer::capacity : Answer::yes;
    return attempt.placement == 1 ? Answer::yes : Answer::capacity;  // on demand in z2 alone
  });
  EXPECT_THAT(played.steps, ElementsAre("4 spot a/z1", "4 spot a/z2", "4 spot b/z1", "2 spot a/z1",
                                        "2 a/z1", "2 b/z1", "release", "2 spot a/z2", "2 a/z2"));
  EXPECT_EQ(played.outcome, LaunchOutcome::complete);
}

TEST(LaunchPlan, AShareThatIsNotMetIsSaidSo) {
  EXPECT_EQ(play(Spot::Percent(0.5), 4, never).outcome, LaunchOutcome::spot_minimum_not_met);
  // The share was there; what is missing is the rest.
  const Play played = play(Spot::Percent(0.5), 4, [](const Attempt& attempt) {
    return attempt.spot && attempt.count == 2 ? Answer::yes : Answer::capacity;
  });
  EXPECT_EQ(played.outcome, LaunchOutcome::no_capacity);
  EXPECT_EQ(std::ranges::count(played.steps, "2 spot a/z1"),
            std::ranges::count(played.steps, "2 spot a/z2"));
}

TEST(LaunchPlan, CheapestMixesTheMarketsByPrice) {
  const Play played = play(Spot::Cheapest(), 1, [](const Attempt& attempt) {
    return attempt.spot ? Answer::capacity : Answer::yes;
  });
  EXPECT_THAT(played.steps, ElementsAre("1 spot a/z1", "1 spot b/z1", "1 spot a/z2", "1 a/z1"));
}

TEST(LaunchPlan, ATypeThatIsRefusedIsAskedForOnceInEachMarket) {
  const auto refusing_a = [](const Attempt& attempt) {
    return places()[attempt.placement].type == "a" ? Answer::type : Answer::capacity;
  };
  EXPECT_THAT(play(Spot::Always(2, 5s), 2, refusing_a).steps,
              ElementsAre("2 spot a/z1", "2 spot b/z1", "wait 5", "2 spot b/z1"));
  EXPECT_THAT(
      play(Spot::IfAvailable(2, 5s), 2, refusing_a).steps,
      ElementsAre("2 spot a/z1", "2 spot b/z1", "wait 5", "2 spot b/z1", "2 a/z1", "2 b/z1"));
  Spot cheapest = Spot::Cheapest();
  cheapest.retries = 1;
  EXPECT_THAT(play(cheapest, 1, refusing_a).steps,
              ElementsAre("1 spot a/z1", "1 spot b/z1", "1 a/z1", "1 b/z1"));
  const Play none = play(Spot::Always(10, 5s), 2, [](const Attempt&) { return Answer::type; });
  EXPECT_THAT(none.steps, ElementsAre("2 spot a/z1", "2 spot b/z1"));
  EXPECT_EQ(none.outcome, LaunchOutcome::no_capacity);
}

TEST(LaunchPlan, APlaceWithTooFewIsNotAskedForAsManyAgain) {
  const auto few_in_z1 = [](const Attempt& attempt) {
    const bool is_all = attempt.count == 2;
    if (!attempt.spot || !is_all) return is_all ? Answer::capacity : Answer::yes;
    return places()[attempt.placement].zone == "z1" ? Answer::count : Answer::capacity;
  };
  EXPECT_THAT(play(Spot::Always(2, 5s), 2, few_in_z1).steps,
              ElementsAre("2 spot a/z1", "2 spot a/z2", "2 spot b/z1", "wait 5", "2 spot a/z2"));
  EXPECT_THAT(
      play(Spot::IfAvailable(2, 5s), 1,
           [](const Attempt& attempt) { return attempt.spot ? Answer::count : Answer::yes; })
          .steps,
      ElementsAre("1 spot a/z1", "1 spot a/z2", "1 spot b/z1", "1 a/z1"));
  EXPECT_THAT(play(Spot::Percent(0.5), 2, few_in_z1).steps,
              ElementsAre("2 spot a/z1", "2 spot a/z2", "2 spot b/z1", "1 spot a/z1", "1 a/z1"))
      << "half as many may be there";
}

TEST(LaunchPlan, AShareWithTooFewForItsRestIsNotLaunchedAgain) {
  Spot half = Spot::Percent(0.5);
  half.retries = 10;
  const Play played = play(half, 2, [](const Attempt& attempt) {
    if (attempt.count == 2) return Answer::capacity;
    return attempt.spot ? Answer::yes : Answer::count;
  });
  EXPECT_THAT(played.steps, ElementsAre("2 spot a/z1", "2 spot a/z2", "2 spot b/z1", "1 spot a/z1",
                                        "1 a/z1", "1 b/z1", "release", "1 spot a/z2", "1 a/z2",
                                        "release", "1 spot b/z1", "1 b/z1", "1 a/z1", "release"));
}

TEST(LaunchPlan, AShareWhoseRestIsRefusedByTypeUsesAnotherOne) {
  Spot half = Spot::Percent(0.5);
  half.retries = 1;
  const Play played = play(half, 4, [](const Attempt& attempt) {
    if (attempt.spot) return attempt.count == 4 ? Answer::capacity : Answer::yes;
    return places()[attempt.placement].type == "a" ? Answer::type : Answer::capacity;
  });
  // Without type a on demand, z2 has nothing for the rest.
  EXPECT_THAT(played.steps,
              ElementsAre("4 spot a/z1", "4 spot a/z2", "4 spot b/z1", "2 spot a/z1", "2 a/z1",
                          "2 b/z1", "release", "2 spot b/z1", "2 b/z1", "release"));
}

TEST(LaunchPlan, AShareOfAllIsTriedInEveryRound) {
  Spot all = Spot::Percent(1);
  all.retries = 2;
  all.interval = 5s;
  const Play played = play(all, 2, never);
  EXPECT_THAT(played.steps, ElementsAre("2 spot a/z1", "2 spot a/z2", "2 spot b/z1", "wait 5",
                                        "2 spot a/z1", "2 spot a/z2", "2 spot b/z1"));
  EXPECT_EQ(played.outcome, LaunchOutcome::spot_minimum_not_met);
}

TEST(LaunchPlan, AShareOfNothingPrefersSpotMachines) {
  const Play played = play(Spot::Percent(0), 2, [](const Attempt& attempt) {
    return attempt.spot ? Answer::capacity : Answer::yes;
  });
  EXPECT_THAT(played.steps, ElementsAre("2 spot a/z1", "2 spot a/z2", "2 spot b/z1", "2 a/z1"));
  EXPECT_EQ(play(Spot::Percent(0), 2, never).outcome, LaunchOutcome::no_capacity);
}

TEST(LaunchPlan, AMixedRoundIsTriedAgainAfterAPause) {
  Spot half = Spot::Percent(0.5);
  half.retries = 2;
  half.interval = 5s;
  const Play played = play(half, 2, never);
  EXPECT_THAT(played.steps,
              ElementsAre("2 spot a/z1", "2 spot a/z2", "2 spot b/z1", "1 spot a/z1", "1 spot a/z2",
                          "1 spot b/z1", "wait 5", "1 spot a/z1", "1 spot a/z2", "1 spot b/z1"));
}

TEST(LaunchPlan, AQuotaOfTheRestEndsTheShare) {
  const Play played = play(Spot::Percent(0.5), 2, [](const Attempt& attempt) {
    if (!attempt.spot) return Answer::quota;
    return attempt.count == 2 ? Answer::capacity : Answer::yes;
  });
  EXPECT_THAT(played.steps, ElementsAre("2 spot a/z1", "2 spot a/z2", "2 spot b/z1", "1 spot a/z1",
                                        "1 a/z1", "release"));
  EXPECT_EQ(played.outcome, LaunchOutcome::no_capacity);
}

TEST(LaunchPlan, AfterAQuotaTheOtherMarketIsTriedFromItsFirstPlace) {
  for (const Spot& spot : {Spot::IfAvailable(2), Spot::Cheapest()}) {
    int asked = 0;
    const Play played = play(spot, 2, [&](const Attempt& attempt) {
      if (!attempt.spot) return Answer::yes;
      return ++asked == 1 ? Answer::capacity : Answer::quota;
    });
    EXPECT_EQ(played.steps.size(), 3U);
    EXPECT_EQ(played.steps.back(), "2 a/z1");
  }
}

TEST(LaunchPlan, AQuotaIsNotAskedTwice) {
  const Play played = play(Spot::IfAvailable(5), 2, [](const Attempt& attempt) {
    return attempt.spot ? Answer::quota : Answer::yes;
  });
  EXPECT_THAT(played.steps, ElementsAre("2 spot a/z1", "2 a/z1"));
  EXPECT_EQ(play(Spot::Never(), 2, [](const Attempt&) { return Answer::quota; }).steps.size(), 1U);
}

// Whatever the market does, the plan ends; and what it says is so stands in one zone.
TEST(LaunchPlan, EveryMarketEndsIt) {
  const std::vector<LaunchTarget> where = places();
  for (const Spot& spot : {Spot::Always(3), Spot::IfAvailable(2), Spot::Never(), Spot::Cheapest(),
                           Spot::Percent(0), Spot::Percent(0.3), Spot::Percent(1)}) {
    for (unsigned seed = 0; seed < 500; ++seed) {
      unsigned random = seed * 2654435761U + 1;
      int spot_count = 0;
      int count = 0;
      std::string zone;
      LaunchPlan plan(spot, 5, where);
      for (int i = 0;; ++i) {
        ASSERT_LT(i, 200);
        const Step step = plan.next();
        if (const auto* outcome = std::get_if<LaunchOutcome>(&step)) {
          EXPECT_EQ(*outcome == LaunchOutcome::complete, count == 5);
          if (*outcome == LaunchOutcome::complete) {
            EXPECT_GE(spot_count, least_spot_count(spot, 5));
          }
          break;
        }
        if (std::holds_alternative<Release>(step)) count = spot_count = 0;
        const auto* attempt = std::get_if<Attempt>(&step);
        if (attempt == nullptr) continue;
        random = random * 1664525U + 1013904223U;
        if ((random >> 28) < 3) {
          if (count > 0) {
            EXPECT_EQ(zone, where[attempt->placement].zone);
          }
          zone = where[attempt->placement].zone;
          count += attempt->count;
          spot_count += attempt->spot ? attempt->count : 0;
          plan.on_launched();
        } else {
          const auto dice = random >> 28;
          plan.on_refused(dice == 3   ? RefusedPart::market
                          : dice == 4 ? RefusedPart::type
                          : dice == 5 ? RefusedPart::count
                                      : RefusedPart::place);
        }
      }
    }
  }
}

TEST(LaunchPlan, WhatCostsTooMuchOnDemandIsNotLaunchedSo) {
  std::vector<LaunchTarget> where = places();
  for (LaunchTarget& place : where) place.on_demand = place.type == "b";
  for (const Spot& spot : {Spot::Never(), Spot::IfAvailable(1, 1s), Spot::Cheapest()}) {
    LaunchPlan plan(spot, 2, where);
    for (Step step = plan.next(); std::holds_alternative<Attempt>(step); step = plan.next()) {
      const auto& attempt = std::get<Attempt>(step);
      EXPECT_TRUE(attempt.spot || where[attempt.placement].type == "b");
      plan.on_refused(RefusedPart::place);
    }
  }
  // The rest of a share: of the type that may be launched, and only where there is one.
  LaunchPlan plan(Spot::Percent(0.5), 2, where);
  std::vector<Attempt> asked;
  for (Step step = plan.next(); std::holds_alternative<Attempt>(step); step = plan.next()) {
    asked.push_back(std::get<Attempt>(step));
    if (asked.back().count == 2) {
      plan.on_refused(RefusedPart::place);
    } else {
      plan.on_launched();
    }
  }
  ASSERT_GE(asked.size(), 2U);
  EXPECT_EQ(asked.at(asked.size() - 2), (Attempt{0, 1, true}));
  EXPECT_EQ(asked.back(), (Attempt{2, 1, false}));
}

TEST(PolicyBeside, WhatStandsCountsForTheShareOfSpotMachines) {
  const Spot half = Spot::Percent(0.5);
  const auto kind = [&](int standing, int spot, int count) {
    return policy_beside(half, 4, standing, spot, count).kind;
  };
  EXPECT_EQ(policy_beside(half, 4, 0, 0, 4), half) << "the pool's first machines";
  EXPECT_EQ(kind(3, 3, 1), SpotKind::if_available);
  EXPECT_EQ(kind(3, 2, 1), SpotKind::if_available);
  EXPECT_EQ(kind(3, 1, 1), SpotKind::always);
  EXPECT_EQ(policy_beside(half, 4, 1, 1, 3), Spot::Percent(1.0 / 3)) << "one of the three";
  // One that is being preempted still stands.
  EXPECT_EQ(kind(4, 3, 1), SpotKind::if_available);
  EXPECT_EQ(kind(4, 2, 1), SpotKind::always) << "it may be one of the two";
}

TEST(PolicyBeside, OtherPoliciesStay) {
  for (const Spot& spot : {Spot::Always(), Spot::Never(), Spot::IfAvailable(), Spot::Cheapest()}) {
    EXPECT_EQ(policy_beside(spot, 4, 3, 3, 1), spot);
  }
}

}  // namespace
}  // namespace skyward::provider

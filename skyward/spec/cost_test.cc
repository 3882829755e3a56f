#include "skyward/spec/cost.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace skyward {
namespace {

using namespace std::chrono_literals;

const Time kStart = Time{} + 1h;

MachinePrice spot_price(double dollars, double on_demand) {
  return {.hourly = to_micro_dollars(dollars),
          .on_demand_hourly = to_micro_dollars(on_demand),
          .spot = true};
}
MachinePrice plain_price(double dollars) {
  return {.hourly = to_micro_dollars(dollars), .on_demand_hourly = {}, .spot = false};
}

TEST(Cost, FromLaunchToTheEndByTheSecond) {
  CostBook book;
  EXPECT_EQ(book.now(kStart).total, 0);
  book.on_launched("a", 0, kStart, plain_price(3.6));  // a tenth of a cent a second
  book.on_ready("a", kStart + 2min);
  EXPECT_EQ(book.now(kStart + 10min).total, 600'000);
  EXPECT_EQ(book.now(kStart + 10min + 1ms).total, 601'000) << "a begun second counts";
  EXPECT_EQ(book.now(kStart + 10min).elapsed, 10min);
  EXPECT_EQ(book.now(kStart + 10min).hourly, 3'600'000);
  book.on_gone("a", kStart + 20min);
  EXPECT_EQ(book.now(kStart + 5h).total, 1'200'000);
  EXPECT_EQ(book.now(kStart + 5h).hourly, 0);
  EXPECT_EQ(book.now(kStart + 5h).elapsed, 20min);
}

TEST(Cost, MinimumAndQuantumOfACloud) {
  CostBook seconds;
  seconds.on_launched("a", 0, kStart, plain_price(3.6));
  seconds.on_gone("a", kStart + 1s);
  EXPECT_EQ(seconds.now(kStart + 1h).total, 60'000) << "a minute at least";
  CostBook tens({.quantum = 10min, .minimum = 10min});
  tens.on_launched("a", 0, kStart, plain_price(3.6));
  tens.on_gone("a", kStart + 10min + 1s);
  EXPECT_EQ(tens.now(kStart + 1h).total, 1'200'000);
}

TEST(Cost, TheLeastChargeOfACloud) {
  CostBook book({.least = 10'000});
  book.on_launched("small", 0, kStart, spot_price(0.006, 0.012));
  book.on_launched("free", 0, kStart, plain_price(0));
  book.on_launched("unknown", 0, kStart, std::nullopt);
  book.on_ready("small", kStart + 1min);
  book.on_work("small", 1min, {});
  EXPECT_EQ(book.now(kStart + 2min).total, 10'000);
  EXPECT_EQ(book.now(kStart + 2min).on_demand, 10'000) << "nothing is saved";
  EXPECT_EQ(book.split(kStart + 2min),
            (CostSplit{.total = 10'000, .setup = 100, .useful = 100, .idle = 9'800, .lost = 0}));
  EXPECT_EQ(book.lasts_until(9'999, kStart + 2min), kStart + 2min);
  EXPECT_LE(kStart + 100min - book.lasts_until(10'000, kStart + 2min), 1ms);
  EXPECT_EQ(book.now(kStart + 5h).total, 30'000);
  EXPECT_EQ(book.now(kStart + 5h).on_demand, 60'000);
}

TEST(Cost, SpotPricesChangeAndAreComparedWithOnDemand) {
  CostBook book;
  book.on_launched("a", 0, kStart, spot_price(0.36, 3.6));
  book.on_launched("b", 0, kStart, plain_price(3.6));
  const std::vector<Charge> step = {{.instance = "a", .hourly = 0.72, .since = 1min}};
  book.on_charges(step, kStart + 11min);
  const CostNow now = book.now(kStart + 20min);
  EXPECT_EQ(now.total, 60'000 + 120'000 + 1'200'000);
  EXPECT_EQ(now.on_demand, 2'400'000);
  EXPECT_EQ(now.spot_count, 1);
  EXPECT_EQ(now.on_demand_count, 1);
  EXPECT_TRUE(now.complete);
}

TEST(Cost, APriceCountsFromItsChangeHoweverLateItIsTold) {
  CostBook book;
  book.on_launched("a", 0, kStart, spot_price(0.36, 3.6));
  const auto tell = [&](double hourly, Duration since, Duration at) {
    book.on_charges(std::vector<Charge>{{.instance = "a", .hourly = hourly, .since = since}},
                    kStart + at);
  };
  tell(0.72, 2h, 10min);  // the offer's was out of date already
  EXPECT_EQ(book.now(kStart + 20min).total, 240'000);
  tell(1.44, 5min, 25min);
  EXPECT_EQ(book.now(kStart + 30min).total, 240'000 + 240'000);
  tell(0.72, 3h, 35min);  // an old reply
  tell(1.44, 16min, 36min);
  EXPECT_EQ(book.now(kStart + 40min).total, 240'000 + 480'000);
}

TEST(Cost, AnUnknownPriceIsSaidToBeSo) {
  CostBook book;
  book.on_launched("a", 0, kStart, std::nullopt);
  book.on_launched("b", 0, kStart, plain_price(0));
  EXPECT_FALSE(book.now(kStart + 1h).complete);
  EXPECT_EQ(book.unpriced(), 1);
  EXPECT_EQ(book.now(kStart + 1h).total, 0);
}

TEST(Cost, TheReceiptSplitsAndAddsUp) {
  CostBook book;
  book.on_launched("a", 0, kStart, plain_price(3.6));
  book.on_ready("a", kStart + 100s);
  book.on_work("a", 300s, {});
  book.on_gone("a", kStart + 1000s);
  book.on_launched("lost", 1, kStart, plain_price(3.6));
  book.on_ready("lost", kStart + 100s);
  book.on_work("lost", 50s, 150s);
  book.on_gone("lost", kStart + 300s);
  book.on_launched("never ready", 1, kStart, plain_price(3.6));
  book.on_gone("never ready", kStart + 100s);
  const CostSplit split = book.split(kStart + 2h);
  EXPECT_EQ(split, (CostSplit{.total = 1'400'000,
                              .setup = 100'000 + 100'000 + 100'000,
                              .useful = 300'000 + 50'000,
                              .idle = 600'000,
                              .lost = 150'000}));
  EXPECT_EQ(book.by_node(kStart + 2h), (std::map<int, MicroDollars>{{0, 1'000'000}, {1, 400'000}}));
  EXPECT_EQ(book.machines(false), 3);
  EXPECT_EQ(book.highest_hourly(), 3'600'000) << "one after the other";
}

// As the cloud itself counts: until it says that it took the machine, it is paid for.
TEST(Cost, WhatTheCloudTakesBackEarlyIsFreeWhenItSaysSo) {
  CostBook book({.free_when_taken_back = 1h});
  for (const char* name : {"early", "late", "ours"}) {
    book.on_launched(name, 0, kStart, plain_price(3.6));
  }
  book.on_gone("early", kStart + 59min);
  book.on_gone("ours", kStart + 59min);
  book.on_gone("late", kStart + 1h);
  EXPECT_TRUE(book.is_free_if_taken_back("early", kStart + 59min));
  EXPECT_FALSE(book.is_free_if_taken_back("early", kStart + 1h));
  EXPECT_FALSE(book.is_free_if_taken_back("unknown", kStart));
  EXPECT_FALSE(CostBook().is_free_if_taken_back("early", kStart));
  const MicroDollars before = 2 * 59LL * 60'000 + 3'600'000;
  EXPECT_EQ(book.now(kStart + 1h).total, before);
  book.on_charges(std::vector<Charge>{{.instance = "early", .taken_back = true},
                                      {.instance = "late", .taken_back = true}},
                  kStart + 1h);
  EXPECT_EQ(book.now(kStart + 1h).total, before - 59LL * 60'000);
  EXPECT_EQ(book.split(kStart + 1h).total, before - 59LL * 60'000);
  EXPECT_EQ(book.lasts_until(before - 59LL * 60'000, kStart + 1h), kNever);
  book.on_charges(std::vector<Charge>{{.instance = "early", .hourly = 3.6}}, kStart + 1h);
  EXPECT_EQ(book.now(kStart + 1h).total, before - 59LL * 60'000) << "it is not said each time";
  CostBook elsewhere;
  elsewhere.on_launched("early", 0, kStart, plain_price(3.6));
  elsewhere.on_gone("early", kStart + 1h);
  elsewhere.on_charges(std::vector<Charge>{{.instance = "early", .taken_back = true}}, kStart + 1h);
  EXPECT_EQ(elsewhere.now(kStart + 1h).total, 3'600'000) << "a rule of some clouds only";
}

TEST(Cost, TheCloudsWordWins) {
  CostBook book;
  book.on_launched("a", 0, kStart, plain_price(3.6));
  const Time now = kStart + 10min;
  // It began later than it was asked for, cost more after a while, and ended before we saw it.
  const std::vector<Charge> told = {
      {.instance = "a", .hourly = 3.6, .since = 9min, .began = 9min},
      {.instance = "a", .hourly = 7.2, .since = 5min},
      {.instance = "nobody's", .hourly = 100},
  };
  book.on_charges(told, now);
  EXPECT_EQ(book.now(now).total, 4 * 60'000 + 5 * 120'000);
  EXPECT_EQ(book.now(now).hourly, 7'200'000);
  book.on_charges(told, now) /* the same again */;
  EXPECT_EQ(book.now(now).total, 4 * 60'000 + 5 * 120'000);
  EXPECT_EQ(book.open_bills(), (std::vector<std::string>{"a"}));
  book.on_charges(std::vector<Charge>{{.instance = "a", .ended = 1min}}, now);
  book.on_gone("a", now + 1min);
  EXPECT_EQ(book.now(now + 1h).total, 4 * 60'000 + 4 * 120'000);
  EXPECT_EQ(book.now(now + 1h).hourly, 0);
  EXPECT_TRUE(book.open_bills().empty());
}

// The offer's price was another one, and the clock of this computer may be behind the cloud's.
TEST(Cost, TheCloudsWordOnTheBeginWinsWhatWasOffered) {
  CostBook book;
  book.on_launched("dearer", 0, kStart, plain_price(3.6));
  book.on_launched("earlier", 0, kStart, plain_price(3.6));
  book.on_charges(std::vector<Charge>{{.instance = "dearer", .hourly = 7.2, .since = 10min},
                                      {.instance = "earlier", .began = 11min}},
                  kStart + 10min);
  EXPECT_EQ(book.now(kStart + 10min).total, 10 * 120'000 + 11 * 60'000);
  EXPECT_EQ(book.now(kStart + 10min).hourly, 7'200'000 + 3'600'000);
}

// By a clock that was set back in between.
TEST(Cost, AMachineThatEndedBeforeItBeganHadNoTime) {
  CostBook book;
  book.on_launched("a", 0, kStart, plain_price(3.6));
  book.on_launched("b", 1, kStart + 10min, plain_price(3.6));
  book.on_gone("a", kStart + 5min);
  book.on_gone("b", kStart + 8min);
  EXPECT_EQ(book.now(kStart + 1h).total, 5 * 60'000 + 60'000);
  EXPECT_EQ(book.now(kStart + 1h).elapsed, 10min);
}

TEST(Cost, APriceThatIsToldAfterTheEndIsOfNoMachineThatIsThere) {
  CostBook book;
  book.on_launched("a", 0, kStart, plain_price(3.6));
  book.on_gone("a", kStart + 10min);
  book.on_charges(std::vector<Charge>{{.instance = "a", .hourly = 7.2, .since = 15min}},
                  kStart + 15min);
  EXPECT_EQ(book.now(kStart + 15min).hourly, 0);
  EXPECT_EQ(book.now(kStart + 15min).total, 1'200'000);
}

TEST(Cost, TellsHowLongABudgetLasts) {
  CostBook book;
  EXPECT_EQ(book.lasts_until(1, kStart), kNever);
  book.on_launched("a", 0, kStart, plain_price(3.6));
  const Time at = book.lasts_until(to_micro_dollars(1), kStart + 1min);
  EXPECT_NEAR(seconds(at - kStart), 1000, 0.01);
  EXPECT_LE(book.now(at).total, to_micro_dollars(1));
  EXPECT_GT(book.now(at + 1s).total, to_micro_dollars(1));
  EXPECT_EQ(book.lasts_until(1000, kStart + 1min), kStart + 1min) << "it is spent already";
  book.on_asked(1, kStart, 2, plain_price(3.6));
  EXPECT_NEAR(seconds(book.lasts_until(to_micro_dollars(1), kStart) - kStart), 333, 0.01)
      << "what is asked for may cost already; seconds are begun whole";
  EXPECT_EQ(book.on_answered(1, kStart + 5s), kStart);
  EXPECT_EQ(book.on_answered(1, kStart + 5s), kStart + 5s) << "nothing was asked";
  book.on_gone("a", kStart + 2min);
  EXPECT_EQ(book.lasts_until(to_micro_dollars(1), kStart + 2min), kNever);
}

// In a market where many ask, a spot machine may cost more than one on demand.
TEST(Cost, ASpotPriceAboveTheOneOnDemandIsExpectedToStay) {
  CostBook book({.prices_change = true});
  book.on_launched("a", 0, kStart, spot_price(7.2, 3.6));
  EXPECT_TRUE(book.prices_may_change());
  EXPECT_NEAR(seconds(book.lasts_until(to_micro_dollars(1), kStart) - kStart), 500, 0.01);
  book.on_gone("a", kStart + 10min);
  EXPECT_FALSE(book.prices_may_change());
}

TEST(Cost, LaunchesThatCameToNothingAreInTheBill) {
  CostBook book;
  book.on_asked(0, kStart, 2, plain_price(3.6));
  EXPECT_TRUE(book.asked_for_any());
  const Charge vain{.instance = "v",
                    .hourly = 7.2,
                    .since = 2min,
                    .began = 2min,
                    .ended = 90s,
                    .failed_launch = true,
                    .spot = true};
  book.on_charges(std::vector{vain}, kStart + 3min);
  book.on_charges(std::vector{vain}, kStart + 4min);
  EXPECT_EQ(book.now(kStart + 1h).total, 120'000) << "a minute, once";
  EXPECT_EQ(book.split(kStart + 1h).setup, 120'000);
  EXPECT_EQ(book.machines(true), 1);
  EXPECT_TRUE(book.costs_anything());
  const Charge unknown{.instance = "another pool's", .hourly = 7.2, .began = 2min};
  book.on_charges(std::vector{unknown}, kStart + 5min);
  EXPECT_EQ(book.now(kStart + 1h).total, 120'000);
}

TEST(Cost, ShownPartsAddUp) {
  EXPECT_EQ(round_parts(std::vector<MicroDollars>{150, 150, 150}, 100),
            (std::vector<MicroDollars>{2, 2, 1}));
  EXPECT_EQ(round_parts(std::vector<MicroDollars>{199, 1, 0}, 100),
            (std::vector<MicroDollars>{2, 0, 0}));
  EXPECT_TRUE(round_parts({}, 100).empty());
}

TEST(Dollars, AreTheDecimalNumberThatTheMillionthsMake) {
  EXPECT_EQ(to_dollars(4'460'715), 4.460715);  // times 1e-6 it is 4.4607149999999995
}

// Ten thousand pools with machines that come, change price and go; the bill of a cloud that counts
// each second for itself.
TEST(Cost, AgreesWithABillThatIsCountedSecondBySecond) {
  std::mt19937_64 random(20261121);
  const auto draw = [&](int below) {
    return static_cast<int>(random() % static_cast<unsigned>(below));
  };
  for (int pool = 0; pool < 10'000; ++pool) {
    CostBook book;
    double bill = 0;
    const int machines = 1 + draw(4);
    for (int i = 0; i < machines; ++i) {
      const std::string name = std::to_string(i);
      const int launched = draw(100);
      const int lived = 1 + draw(400);
      double price = 0.001 + draw(40'000) * 1e-3;
      book.on_launched(name, 0, kStart + std::chrono::seconds(launched), plain_price(price));
      if (draw(2) == 0) book.on_ready(name, kStart + std::chrono::seconds(launched + lived / 2));
      for (int second = 0; second < std::max(lived, 60); ++second) {
        if (second > 0 && second < lived && draw(100) == 0) {
          price = 0.001 + draw(40'000) * 1e-3;
          const std::vector<Charge> step = {{.instance = name, .hourly = price}};
          book.on_charges(step, kStart + std::chrono::seconds(launched + second));
        }
        bill += price / 3600;
      }
      book.on_gone(name, kStart + std::chrono::seconds(launched + lived));
    }
    const double ours = to_dollars(book.now(kStart + 10h).total);
    ASSERT_NEAR(ours, bill, bill * 0.001 + 1e-4) << "pool " << pool;
    const CostSplit split = book.split(kStart + 10h);
    ASSERT_EQ(split.setup + split.useful + split.idle + split.lost, split.total);
  }
}

}  // namespace
}  // namespace skyward

#include "skyward/spec/spot.h"

#include <gtest/gtest.h>

namespace skyward {
namespace {

TEST(Spot, WordsOfBothVocabularies) {
  for (const char* word : {"always", "always-spot", "spot"})
    EXPECT_EQ(parse_spot(word).value(), Spot::Always());
  for (const char* word : {"if-available", "spot-if-available"})
    EXPECT_EQ(parse_spot(word).value(), Spot::IfAvailable());
  for (const char* word : {"never", "on-demand"})
    EXPECT_EQ(parse_spot(word).value(), Spot::Never());
  EXPECT_EQ(parse_spot("cheapest").value(), Spot::Cheapest());
  EXPECT_EQ(parse_spot("sometimes").error().message, "spot=\"sometimes\" is not known");
  EXPECT_EQ(parse_spot("0.8").value(), Spot::Percent(0.8));
  for (const char* word : {"0.8 ", "80%", "", "-"}) EXPECT_FALSE(parse_spot(word)) << word;
}

TEST(Spot, Bounds) {
  EXPECT_TRUE(validate(Spot::Percent(0)) && validate(Spot::Percent(1)));
  EXPECT_FALSE(validate(Spot::Percent(1.01)) || validate(Spot::Percent(-0.1)));
  EXPECT_FALSE(validate(Spot::Always(-1)));
  EXPECT_FALSE(validate(Spot::Always(1, Duration{-1})));
}

TEST(Spot, LeastCounts) {
  EXPECT_EQ(least_spot_count(Spot::Always(), 5), 5);
  EXPECT_EQ(least_spot_count(Spot::IfAvailable(), 5), 0);
  EXPECT_EQ(least_spot_count(Spot::Percent(0.5), 5), 3);
  EXPECT_EQ(least_spot_count(Spot::Percent(0.1), 10), 1);
  EXPECT_EQ(least_spot_count(Spot::Percent(0.7), 10), 7);
  EXPECT_EQ(least_spot_count(Spot::Percent(1), 3), 3);
}

}  // namespace
}  // namespace skyward

#include "skyward/base/utc.h"

#include <gtest/gtest.h>

namespace skyward {
namespace {

// In other time zones: python/tests/e2e_record_test.py.
TEST(UtcTest, CountsFromTheBeginningOf1970) {
  EXPECT_EQ(utc_moment(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(utc_moment(1'795'812'398), "2026-11-27T20:46:38Z");
  EXPECT_EQ(utc_moment(1'795'812'398, "%Y%m%d-%H%M%S"), "20261127-204638");
}

TEST(UtcTest, MomentsAreReadInTheirTimeZone) {
  EXPECT_EQ(parse_moment("2023-11-14T22:13:20Z"), 1'700'000'000);
  EXPECT_EQ(parse_moment("2023-11-14T22:13:20.123Z"), 1'700'000'000);
  EXPECT_EQ(parse_moment("2023-11-15T00:13:20+02:00"), 1'700'000'000);
  EXPECT_EQ(parse_moment("2023-11-14T21:43:20.5-00:30"), 1'700'000'000);
}

TEST(UtcTest, WhatIsNoMomentIsNotRead) {
  for (const char* text :
       {"", "tomorrow", "2023-13-14T22:13:20Z", "2023-02-30T22:13:20Z", "2023-11-14T24:13:20Z",
        "2023-11-14T22:60:20Z", "2023-11-14T22:13:2xZ", "2023-11-14 22:13:20Z",
        "2023-11-14T22:13:20", "2023-11-14T22:13:20z", "2023-11-14T22:13:20+2",
        "2023-11-14T22:13:20+02:60", "2023-11-14T22:13:20Z+02:00", "2023-11-14T22:13:20.Zx"}) {
    EXPECT_EQ(parse_moment(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace skyward

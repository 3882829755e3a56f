#include "skyward/provider/iso_time.h"

#include <gtest/gtest.h>

namespace skyward::provider {
namespace {

TEST(IsoTime, HasAZoneAndMayHaveFractions) {
  EXPECT_EQ(parse_iso_time("2023-11-14T22:13:20Z"), 1'700'000'000);
  EXPECT_EQ(parse_iso_time("2023-11-14T22:13:20.123Z"), 1'700'000'000);
  EXPECT_EQ(parse_iso_time("2023-11-15T00:13:20+02:00"), 1'700'000'000);
  EXPECT_EQ(parse_iso_time("2023-11-14T21:43:20-00:30"), 1'700'000'000);
  for (const char* text : {"", "tomorrow", "2023-13-14T22:13:20Z", "2023-11-14T22:13:20"}) {
    EXPECT_EQ(parse_iso_time(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace skyward::provider

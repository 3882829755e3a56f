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

}  // namespace
}  // namespace skyward

#include "skyward/call/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace skyward {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Error shortage(ShortageKind kind) {
  return with_shortage({ErrorKind::exhausted, "none left", "wait"}, {.kind = kind,
                                                                     .requested = 4,
                                                                     .got = 2,
                                                                     .region = "north",
                                                                     .regions = {"north", "south"},
                                                                     .instance_type = "big",
                                                                     .offers = {"small"}});
}

template <typename E>
void expect_thrown(ShortageKind kind) {
  try {
    throw_error(shortage(kind));
  } catch (const E& error) {
    EXPECT_THAT(error.what(), HasSubstr("none left\n  hint: wait"));
    if constexpr (std::is_base_of_v<CapacityError, E>) {
      EXPECT_EQ(error.requested(), 4);
      EXPECT_EQ(error.got(), 2);
      EXPECT_EQ(error.region(), "north");
      EXPECT_THAT(error.regions_checked(), ElementsAre("north", "south"));
      EXPECT_EQ(error.instance_type(), "big");
      EXPECT_THAT(error.offers(), ElementsAre("small"));
    }
  }
}

TEST(FaceError, EachShortageHasItsClass) {
  expect_thrown<SpotCapacityError>(ShortageKind::spot_capacity);
  expect_thrown<SpotMinimumNotMetError>(ShortageKind::spot_minimum);
  expect_thrown<QuotaExceededError>(ShortageKind::quota);
  expect_thrown<NoAvailableRegionError>(ShortageKind::region);
  expect_thrown<CapacityError>(ShortageKind::capacity);
  expect_thrown<NoMatchingInstanceError>(ShortageKind::no_match);
  EXPECT_THROW(throw_error(shortage(ShortageKind::quota)), ProvisioningError);
  EXPECT_THROW(throw_error(shortage(ShortageKind::no_match)), ConfigurationError);
}

// As in Python: other machines may well be there.
TEST(FaceError, ATypeThatNoRegionSellsIsNoLackOfCapacity) {
  static_assert(!std::is_base_of_v<CapacityError, NoAvailableRegionError>);
  try {
    throw_error(shortage(ShortageKind::region));
    FAIL();
  } catch (const NoAvailableRegionError& error) {
    EXPECT_EQ(error.instance_type(), "big");
    EXPECT_THAT(error.regions_checked(), ElementsAre("north", "south"));
  }
}

TEST(FaceError, WithoutAShortageTheKindDecides) {
  EXPECT_THROW(throw_error({ErrorKind::exhausted, "x", ""}), ProvisioningError);
  EXPECT_THROW(throw_error({ErrorKind::invalid, "x", ""}), ConfigurationError);
}

}  // namespace
}  // namespace skyward

#include "skyward/base/nearest.h"

#include <gtest/gtest.h>

#include <array>

namespace skyward {
namespace {

TEST(Nearest, TheDistanceCountsLetters) {
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("offers", "offers"), 0U);
  EXPECT_EQ(edit_distance("ofers", "offers"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(Nearest, TheClosestWordIsFoundOrNone) {
  constexpr std::array<std::string_view, 4> kWords = {"offers", "providers", "pool", "gc"};
  EXPECT_EQ(nearest_word("ofers", kWords), "offers");
  EXPECT_EQ(nearest_word("pools", kWords), "pool");
  EXPECT_EQ(nearest_word("provider", kWords), "providers");
  EXPECT_EQ(nearest_word("frobnicate", kWords), "");
  EXPECT_EQ(nearest_word("", kWords), "");
  EXPECT_EQ(did_you_mean("ofers", kWords), "did you mean offers? ");
  EXPECT_EQ(did_you_mean("frobnicate", kWords), "");
}

}  // namespace
}  // namespace skyward

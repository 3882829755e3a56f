#include "skyward/base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace skyward {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Text, PartsAreTrimmedAndMayBeEmpty) {
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_THAT(split("a", ','), ElementsAre("a"));
  EXPECT_THAT(split(" a,, b c ,\r\n", ','), ElementsAre("a", "", "b c", ""));
}

TEST(Text, ItemsAreThePartsThatAreNotEmpty) {
  EXPECT_THAT(items_of("", ','), IsEmpty());
  EXPECT_THAT(items_of("US, ,NO,", ','), ElementsAre("US", "NO"));
}

TEST(Text, OneWordOfSeveralIsFound) {
  EXPECT_TRUE(contains_any("over the limit", {"quota", "limit"}));
  EXPECT_FALSE(contains_any("over", {"quota", "limit"}));
  EXPECT_FALSE(contains_any("over", {}));
}

}  // namespace
}  // namespace skyward

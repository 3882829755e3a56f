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

TEST(Text, WhatAUrlEscapesIsDecoded) {
  EXPECT_EQ(percent_decode("a%20b%2fc%2F"), "a b/c/");
  EXPECT_EQ(percent_decode("100%"), "100%");
  EXPECT_EQ(percent_decode("%zz%2"), "%zz%2");
}

TEST(Text, WhatIsNotUtf8IsReplaced) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(to_utf8("a\x80z"), "a" + r + "z");
  EXPECT_EQ(to_utf8("\xC0\xAF"), r + r);          // overlong
  EXPECT_EQ(to_utf8("\xED\xA0\x80"), r + r + r);  // surrogate
  EXPECT_EQ(to_utf8("\xF4\x90\x80\x80"), r + r + r + r);
  EXPECT_EQ(to_utf8("\xE2\x82"), r);  // cut short
  EXPECT_EQ(to_utf8("\xE2\x82z"), r + "z");
  EXPECT_EQ(to_utf8("\xF0\x9F\x9Az"), r + "z");
  EXPECT_EQ(to_utf8(std::string_view("\0x", 2)), std::string("\0x", 2));
  EXPECT_EQ(to_utf8("gr\xC3\xBC\xC3\x9F \xF0\x9F\x9A\x80"), "gr\xC3\xBC\xC3\x9F \xF0\x9F\x9A\x80");
}

}  // namespace
}  // namespace skyward

#include "skyward/provider/json_read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace skyward::provider {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(JsonRead, WhatIsThere) {
  const auto json = read_json(R"({"a":{"b":"text","c":1.5,"d":7},"e":[1,"x",null]})");
  EXPECT_EQ(json_text(json, "a/b"), "text");
  EXPECT_EQ(json_number(json, "a/c"), 1.5);
  EXPECT_EQ(json_whole(json, "a/d"), 7);
  EXPECT_THAT(json_items(json, "e"), SizeIs(3));
  EXPECT_THAT(json_items(json, "a"), SizeIs(3));
  EXPECT_EQ(json_text(json_item(json_at(json, "e"), 1)), "x");
  EXPECT_EQ(json_line(json_at(json, "e")), R"([1,"x",null])");
}

TEST(JsonRead, ADecimalIsANumberOrItsText) {
  EXPECT_EQ(json_decimal(read_json("0.35")), 0.35);
  EXPECT_EQ(json_decimal(read_json(R"({"price": "5.00"})"), "price"), 5.0);
  for (const char* text :
       {R"("")", R"("5.00 USD")", R"("nan")", R"("inf")", R"("0x5")", "null", "[]", "true"}) {
    EXPECT_EQ(json_decimal(read_json(text)), std::nullopt) << text;
  }
}

TEST(JsonRead, NothingThrows) {
  for (const char* text : {"", "{", "null", "3", "\"x\"", "[]", "[[[]]]", "{}", R"({"a":null})",
                           R"({"a":3})", R"({"a":[{"b":1}]})", R"({"a":{"b":{}}})", "\xff"}) {
    const auto json = read_json(text);
    EXPECT_EQ(json_text(json, "a/b"), "") << text;
    EXPECT_EQ(json_whole(json, "a/b/c"), std::nullopt) << text;
    EXPECT_EQ(json_number(json, "a/b"), std::nullopt) << text;
    EXPECT_THAT(json_items(json, "a/b"), IsEmpty()) << text;
    EXPECT_TRUE(json_item(json, 9).is_null()) << text;
  }
  EXPECT_EQ(json_whole(read_json("1e300")), std::nullopt);
  EXPECT_EQ(json_whole(read_json("-1.9")), -1);
  EXPECT_EQ(json_line("\xff"), "\"\xef\xbf\xbd\"") << "no UTF-8";
  EXPECT_FALSE(json_line(read_json(std::string(100'000, '['))).empty()) << "deep";
}

}  // namespace
}  // namespace skyward::provider

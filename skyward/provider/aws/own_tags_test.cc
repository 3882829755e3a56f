#include "skyward/provider/aws/own_tags.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace skyward::provider::aws {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

Result<Tags> tags_from(std::string text) {
  return own_tags({.name = "aws", .settings = {{"tags", std::move(text)}}});
}

TEST(OwnTags, AreReadAsTheyAreGiven) {
  EXPECT_THAT(*own_tags({.name = "aws", .settings = {}}), IsEmpty());
  EXPECT_THAT(*tags_from("CostCenter=12 34, team = ml=a,empty="),
              ElementsAre(Pair("CostCenter", "12 34"), Pair("team", "ml=a"), Pair("empty", "")));
}

TEST(OwnTags, ThatAmazonOrSkywardNeedsAreRefused) {
  for (const char* text :
       {"CostCenter", "=1", "aws:x=1", "AWS:x=1", "skyward:pool=a", "Name=a", "a=1,a=2"}) {
    const auto tags = tags_from(text);
    ASSERT_FALSE(tags) << text;
    EXPECT_EQ(tags.error().kind, ErrorKind::invalid) << text;
    EXPECT_THAT(tags.error().hint, HasSubstr("CostCenter")) << text;
  }
}

TEST(OwnTags, AreNoMoreThanAResourceMayHave) {
  std::string text;
  for (int i = 0; i < 43; ++i) text += fmt::format("k{}=v,", i);
  EXPECT_TRUE(tags_from(text));
  EXPECT_FALSE(tags_from(text + "k43=v"));
}

}  // namespace
}  // namespace skyward::provider::aws

#include "skyward/spec/provider_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace skyward {
namespace {

using testing::HasSubstr;

std::string refusal(std::string_view provider, const char* name, const char* value) {
  const Status status = validate_settings(provider, {{name, value}});
  return status ? "accepted" : status.error().message + " | " + status.error().hint;
}

TEST(ProviderSettings, StandardsFitTheirOwnTable) {
  for (const ProviderSheet& sheet : provider_sheets()) {
    for (const ProviderSetting& setting : sheet.settings) {
      if (setting.standard.empty()) continue;
      EXPECT_EQ(refusal(sheet.name, std::string(setting.name).c_str(),
                        std::string(setting.standard).c_str()),
                "accepted")
          << sheet.name;
    }
  }
}

TEST(ProviderSettings, Refusals) {
  EXPECT_THAT(refusal("aws", "regoin", "us-east-1"),
              HasSubstr("AWS() has no setting regoin | did you mean region?"));
  EXPECT_THAT(refusal("aws", "use_ssm", "perhaps"), HasSubstr("true or false"));
  EXPECT_THAT(refusal("aws", "region", ""), HasSubstr("AWS(region=\"\") is not valid"));
  EXPECT_THAT(refusal("digital_ocean", "region", "mars1"), HasSubstr("one of nyc1, nyc2"));
  EXPECT_THAT(refusal("vastai", "disk_gb", "1.5"), HasSubstr("a whole number"));
  EXPECT_THAT(refusal("vastai", "min_cuda", "-1"), HasSubstr("a number, not negative"));
  EXPECT_EQ(refusal("vastai", "min_reliability", "1"), "accepted");
  EXPECT_THAT(refusal("vastai", "min_reliability", "3"), HasSubstr("a number from 0 to 1"));
  EXPECT_THAT(refusal("runpod", "api_key", "a\nb"), testing::Not(HasSubstr("a\nb")));
  EXPECT_EQ(refusal("some-other", "any", "thing"), "accepted");
}

}  // namespace
}  // namespace skyward

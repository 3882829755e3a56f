#include "skyward/spec/provider_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "skyward/spec/pool_spec.h"

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
  EXPECT_THAT(refusal("digital_ocean", "region", "mars/1"), HasSubstr("the name of a region"));
  EXPECT_THAT(refusal("vastai", "disk_gb", "1.5"), HasSubstr("a whole number"));
  for (const char* odd : {"1e3", "0x10", " 5", "+5", "-1", "", "2147483648", "99999999999"}) {
    EXPECT_THAT(refusal("vastai", "request_timeout", odd),
                HasSubstr("a whole number from 0 to 2147483647"))
        << odd;
  }
  EXPECT_THAT(refusal("vastai", "min_cuda", "-1"), HasSubstr("a number, not negative"));
  EXPECT_EQ(refusal("vastai", "min_reliability", "1"), "accepted");
  EXPECT_THAT(refusal("vastai", "min_reliability", "3"), HasSubstr("a number from 0 to 1"));
  EXPECT_THAT(refusal("runpod", "api_key", "a\nb"), testing::Not(HasSubstr("a\nb")));
  EXPECT_EQ(refusal("some-other", "any", "thing"), "accepted");
}

TEST(ProviderSettings, NumbersAreThoseThatWereGivenOrTheirStandards) {
  ProviderSpec spec{.name = "vastai", .settings = {{"disk_gb", "7"}, {"min_reliability", "0.5"}}};
  EXPECT_EQ(number_setting(spec, "disk_gb"), 7);
  EXPECT_EQ(number_setting(spec, "min_reliability"), 0.5);
  spec.settings.clear();
  EXPECT_EQ(number_setting(spec, "disk_gb"), 100);
  EXPECT_EQ(number_setting(spec, "min_reliability"), 0.95);
  EXPECT_EQ(number_setting(spec, "bid_multiplier"), 1.2);
}

TEST(ProviderSettings, TheLeastCudaIsTheHigherOfWhatIsAsked) {
  Accelerator own{.name = "Own 9", .custom = true, .cuda_min = "12.8"};
  for (const char* cloud : {"vastai", "runpod"}) {
    ProviderSpec spec{.name = cloud, .settings = {{"min_cuda", "12.4"}}};
    EXPECT_EQ(least_cuda(spec, std::nullopt), 12.4);
    EXPECT_EQ(least_cuda(spec, Accelerator{.name = "H100"}), 12.4);
    EXPECT_EQ(least_cuda(spec, own), 12.8);
    spec.settings["min_cuda"] = "13.0";
    EXPECT_EQ(least_cuda(spec, own), 13);
  }
  own.cuda_min.clear();
  EXPECT_EQ(least_cuda({.name = "vastai", .settings = {}}, own), 12);
  EXPECT_EQ(least_cuda({.name = "runpod", .settings = {}}, own), 0) << "any";
}

}  // namespace
}  // namespace skyward

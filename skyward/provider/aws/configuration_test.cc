#include "skyward/provider/aws/configuration.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "skyward/provider/aws/published_data_fixture.h"
#include "skyward/provider/world_fixture.h"

namespace skyward::provider::aws {
namespace {

using ::testing::HasSubstr;

TEST(Configuration, AmazonsPublishedParserCases) {
  const std::string data = published_data();
  if (data.empty()) GTEST_SKIP() << "Amazon's parser cases are not on this machine";
  const auto cases =
      nlohmann::json::parse(slurp(data + "/test-data/credential-chain/profile-parser-tests.json"));
  int count = 0;
  for (const auto& one : cases.at("tests")) {
    SCOPED_TRACE(one.at("name").get<std::string>());
    const auto& input = one.at("input");
    const auto parsed =
        parse_profiles(input.value("configFile", ""), input.value("credentialsFile", ""));
    const auto& output = one.at("output");
    ++count;
    if (output.contains("errorContaining")) {
      ASSERT_FALSE(parsed);
      EXPECT_THAT(parsed.error().message, HasSubstr(output["errorContaining"].get<std::string>()));
      EXPECT_THAT(parsed.error().message, HasSubstr("line "));
      continue;
    }
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(nlohmann::json(parsed->profiles), output.at("config").at("profiles"));
    EXPECT_EQ(nlohmann::json(parsed->sso_sessions),
              output.at("config").value("sso_sessions", nlohmann::json::object()));
  }
  EXPECT_GT(count, 50);
}

TEST(Configuration, AmazonsPublishedLocations) {
  const std::string data = published_data();
  if (data.empty()) GTEST_SKIP() << "Amazon's location cases are not on this machine";
  const auto cases =
      nlohmann::json::parse(slurp(data + "/test-data/credential-chain/file-location-tests.json"));
  for (const auto& one : cases.at("tests")) {
    if (one.at("platform") != "linux") continue;
    SCOPED_TRACE(one.at("name").get<std::string>());
    WorldFixture fixture;
    fixture.variables = one.at("environment").get<std::map<std::string, std::string>>();
    const FileLocations locations = file_locations(fixture.world);
    EXPECT_EQ(locations.config, one.at("configLocation").get<std::string>());
    EXPECT_EQ(locations.credentials, one.at("credentialsLocation").get<std::string>());
  }
}

TEST(Configuration, TheChosenProfileMustExist) {
  WorldFixture fixture;
  fixture.files["/home/.aws/config"] = "[default]\nregion = r1\n[profile work]\nregion = r2\n";
  EXPECT_EQ(load_configuration(fixture.world, "")->property("region"), "r1");
  EXPECT_EQ(load_configuration(fixture.world, "work")->property("region"), "r2");
  fixture.variables["AWS_PROFILE"] = "werk";
  const auto wrong = load_configuration(fixture.world, "");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().kind, ErrorKind::invalid);
  EXPECT_THAT(wrong.error().message, HasSubstr("\"werk\""));
  EXPECT_THAT(wrong.error().hint, HasSubstr("default, work"));
  EXPECT_TRUE(load_configuration(fixture.world, "work")) << "code outranks the variable";
  fixture.variables.erase("AWS_PROFILE");
  fixture.variables["AWS_DEFAULT_PROFILE"] = "work";
  const auto other = load_configuration(fixture.world, "");
  ASSERT_TRUE(other);
  EXPECT_EQ(other->property("region"), "r2");
  EXPECT_TRUE(other->profile_was_asked_for);
}

TEST(Configuration, RegionFromCodeThenVariablesThenProfile) {
  WorldFixture fixture;
  fixture.files["/home/.aws/config"] = "[default]\nregion = of-profile\n";
  const auto region = [&](const char* given) {
    return find_region(fixture.world, *load_configuration(fixture.world, ""), given);
  };
  EXPECT_EQ(region(""), "of-profile");
  fixture.variables["AWS_DEFAULT_REGION"] = "of-default";
  EXPECT_EQ(region(""), "of-default");
  fixture.variables["AWS_REGION"] = "of-variable";
  EXPECT_EQ(region(""), "of-variable");
  EXPECT_EQ(region("of-code"), "of-code");
}

TEST(Configuration, AmazonsPublishedEndpoints) {
  const std::string data = published_data();
  if (data.empty()) GTEST_SKIP() << "Amazon's endpoint cases are not on this machine";
  int count = 0;
  for (const char* service : {"ec2", "sts", "ssm"}) {
    const auto cases = nlohmann::json::parse(
        slurp(fmt::format("{}/test-data/endpoint-tests/{}.json", data, service)));
    for (const auto& one : cases.at("testCases")) {
      const auto parameters = one.value("params", nlohmann::json::object());
      const std::string region = parameters.value("Region", "");
      // Errors are no concern of a program that was told to use such a host.
      if (!one.at("expect").contains("endpoint") || parameters.contains("Endpoint") ||
          parameters.value("UseGlobalEndpoint", false) || region.empty() ||
          region.ends_with("-global")) {
        continue;
      }
      SCOPED_TRACE(fmt::format("{} {}", service, parameters.dump()));
      WorldFixture fixture;
      const auto set = [&](const char* variable, const char* name) {
        if (parameters.value(name, false)) fixture.variables[variable] = "true";
      };
      set("AWS_USE_FIPS_ENDPOINT", "UseFIPS");
      set("AWS_USE_DUALSTACK_ENDPOINT", "UseDualStack");
      EXPECT_EQ(find_endpoint(fixture.world, Configuration{}, service, region).value_or("none"),
                one.at("expect").at("endpoint").at("url").get<std::string>());
      ++count;
    }
  }
  EXPECT_GT(count, 100);
}

TEST(Configuration, EndpointsOfServices) {
  WorldFixture fixture;
  const auto endpoint = [&](const char* service, const char* place) {
    const auto found =
        find_endpoint(fixture.world, *load_configuration(fixture.world, ""), service, place);
    return found ? *found : found.error().message;
  };
  for (const char* wrong : {"", "evil.example/", "evil.example#", "a@evil", "a:80", "-a", "a b"}) {
    EXPECT_EQ(endpoint("sts", wrong),
              "\"" + std::string(wrong) + "\" is not the name of an AWS region");
  }
  EXPECT_EQ(endpoint("ec2", "eu-west-1"), "https://ec2.eu-west-1.amazonaws.com");
  EXPECT_EQ(endpoint("ec2", "cn-north-1"), "https://ec2.cn-north-1.amazonaws.com.cn");
  EXPECT_EQ(endpoint("pricing", "eu-west-1"), "https://api.pricing.eu-central-1.amazonaws.com");
  EXPECT_EQ(endpoint("pricing", "sa-east-1"), "https://api.pricing.us-east-1.amazonaws.com");
  EXPECT_EQ(endpoint("pricing", "cn-north-1"),
            "https://api.pricing.cn-northwest-1.amazonaws.com.cn");
  EXPECT_EQ(endpoint("pricing", "eusc-de-east-1"),
            "https://api.pricing.eusc-de-east-1.amazonaws.eu");
  EXPECT_EQ(endpoint("ec2", "eusc-de-east-1"), "https://ec2.eusc-de-east-1.amazonaws.eu");
  EXPECT_EQ(endpoint("sts", "us-isob-east-1"), "https://sts.us-isob-east-1.sc2s.sgov.gov");
  EXPECT_EQ(endpoint("sts", "eu-isoe-west-1"), "https://sts.eu-isoe-west-1.cloud.adc-e.uk");
  fixture.variables["AWS_USE_FIPS_ENDPOINT"] = "true";
  EXPECT_EQ(endpoint("sts", "us-gov-west-1"), "https://sts.us-gov-west-1.amazonaws.com");
  EXPECT_EQ(endpoint("sts", "us-west-2"), "https://sts-fips.us-west-2.amazonaws.com");
  fixture.variables.erase("AWS_USE_FIPS_ENDPOINT");
  fixture.variables["AWS_USE_DUALSTACK_ENDPOINT"] = "true";
  EXPECT_EQ(endpoint("ec2", "us-east-2"), "https://ec2.us-east-2.api.aws");
  fixture.variables["AWS_ENDPOINT_URL"] = "http://127.0.0.1:5000/";
  EXPECT_EQ(endpoint("ssm", "us-east-2"), "http://127.0.0.1:5000");
  fixture.variables["AWS_ENDPOINT_URL_SSM"] = "http://127.0.0.1:5001";
  EXPECT_EQ(endpoint("ssm", "us-east-2"), "http://127.0.0.1:5001");
  fixture.variables["AWS_ENDPOINT_URL"] = "http://emulator:4566";
  EXPECT_EQ(endpoint("ec2", "us-east-2"), "http://emulator:4566");
  EXPECT_TRUE(endpoint("oidc", "us-east-2").contains("AWS_ENDPOINT_URL_SSO_OIDC"))
      << "it would get tokens in clear text";
  fixture.variables["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "true";
  EXPECT_EQ(endpoint("ssm", "us-east-2"), "https://ssm.us-east-2.api.aws");
}

}  // namespace
}  // namespace skyward::provider::aws

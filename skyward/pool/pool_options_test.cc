#include "skyward/pool/pool_options.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "skyward/base/forever.h"
#include "skyward/call/error.h"
#include "skyward/pool/accelerators.h"
#include "skyward/pool/put_setting.h"
#include "skyward/spec/provider_settings.h"

namespace skyward {
namespace {

TEST(PoolOptions, AcceleratorsByNameAndByFactory) {
  EXPECT_FALSE(PoolOptions{}.accelerator.get());
  EXPECT_EQ(PoolOptions{.accelerator = "rtx4090"}.accelerator.get()->name, "RTX 4090");
  const PoolOptions options{.accelerator = accelerators::H100({.count = 2, .mig = "3g.40gb"})};
  EXPECT_EQ(workers_per_node(*options.accelerator.get()), 4);
  EXPECT_EQ(accelerators::TPUv5p_8().count, 8);
  EXPECT_EQ(accelerators::RTX_PRO_6000(2).memory, "96GB");
  EXPECT_THROW((void)PoolOptions{.accelerator = "H1OO"}, ConfigurationError);
  EXPECT_THROW(accelerators::A100({.memory = "64GB"}), ConfigurationError);
  EXPECT_THROW(accelerators::T4(0), ConfigurationError);
  EXPECT_TRUE(accelerators::Custom("Own", "5GB", 2, "12.0").custom);
  EXPECT_THROW(accelerators::Custom(""), ConfigurationError);
}

TEST(PoolOptions, SpotInThreeWays) {
  EXPECT_EQ(PoolOptions{}.spot.get(), Spot::Always());
  EXPECT_EQ(PoolOptions{.spot = "never"}.spot.get(), Spot::Never());
  EXPECT_EQ(PoolOptions{.spot = 0.8}.spot.get(), Spot::Percent(0.8));
  EXPECT_EQ(PoolOptions{.spot = Spot::IfAvailable(3)}.spot.get(), Spot::IfAvailable(3));
  EXPECT_THROW((void)PoolOptions{.spot = "perhaps"}, ConfigurationError);
}

TEST(PoolOptions, TextsOfAnyKind) {
  const std::string name = "A100";
  EXPECT_EQ(PoolOptions{.accelerator = name}.accelerator.get()->name, "A100");
  EXPECT_EQ(PoolOptions{.accelerator = std::string_view(name)}.accelerator.get()->name, "A100");
  EXPECT_EQ(PoolOptions{.spot = std::string("never")}.spot.get(), Spot::Never());
  static_assert(!std::is_convertible_v<std::nullptr_t, AcceleratorRequest>);
  static_assert(!std::is_convertible_v<bool, AcceleratorRequest>);
  static_assert(!std::is_convertible_v<bool, SpotRequest>);
  static_assert(!std::is_convertible_v<std::nullptr_t, SpotRequest>);
}

TEST(TimeLimit, WhatCannotBeCountedIsForEver) {
  EXPECT_EQ(Duration(TimeLimit(std::chrono::seconds::max())), kForever);
  EXPECT_EQ(Duration(TimeLimit(std::chrono::hours(24 * 365 * 300))), kForever);
  EXPECT_EQ(Duration(TimeLimit(std::chrono::duration<double>(1e300))), kForever);
  EXPECT_EQ(Duration(TimeLimit(kForever)), kForever);
  EXPECT_EQ(Duration(TimeLimit(std::chrono::hours::min())), Duration::min());
  EXPECT_EQ(Duration(TimeLimit(std::chrono::duration<double>(0.5))),
            std::chrono::milliseconds(500));
  EXPECT_EQ(Duration(TimeLimit(std::chrono::hours(-1))), std::chrono::hours(-1));
  // As constants: the compiler refuses an overflow.
  static_assert(limit_from_seconds(1e300) == kForever);
  static_assert(limit_from_seconds(-1e300) == Duration::min());
  static_assert(limit_from_seconds(std::numeric_limits<double>::quiet_NaN()) == Duration::min());
  static_assert(limit_from_seconds(0.5) == std::chrono::milliseconds(500));
}

TEST(Providers, PairsAreAListOfTexts) {
  ProviderSpec spec;
  put(spec, "labels", std::optional(std::map<std::string, std::string>{{"a", "b"}, {"c", "d"}}));
  put(spec, "none", std::map<std::string, std::string>());
  EXPECT_EQ(spec.settings, (std::map<std::string, std::string>{{"labels", "a=b,c=d"}}));
}

// What is left out is left to files and defaults; what is said has the names and forms of the
// table, which knows nothing else.
TEST(Providers, FitTheirTable) {
  for (const ProviderSpec& spec : std::initializer_list<ProviderSpec>{
           AWS{}, Slurm{}, Kubernetes{}, Container{}, SSH{}, Command{}}) {
    EXPECT_TRUE(spec.settings.empty()) << spec.name;
  }
  const ProviderSpec full[] = {
      AWS{"eu-west-1",
          true,
          "ami-1",
          "22.04",
          "subnet-1",
          "sg-1",
          "arn:1",
          "me",
          60,
          9,
          "lowest-price",
          true,
          true,
          {{{"CostCenter", "1234"}}}},
      Slurm{"gpu", "lab", "normal", "gpu:2", "8:00:00", "me@login", true, {{"--constraint=a,b"}}},
      Container{"docker", "python:3.12", "lab", "me@box"},
      Kubernetes{"kind",
                 "team",
                 "python:3.12",
                 "nvidia.com/gpu",
                 {{{"disktype", "ssd"}}},
                 {{"dedicated=ml:NoSchedule"}},
                 "robot",
                 1000,
                 true},
      SSH{{"w1", "w2"}, "me", 22, "/id", {"gate"}, "/known", "/config", "ec2"}};
  for (const ProviderSpec& spec : full) {
    EXPECT_EQ(spec.settings.size(), find_provider_sheet(spec.name)->settings.size()) << spec.name;
    const Status fits = validate_settings(spec.name, spec.settings);
    EXPECT_TRUE(fits) << fits.error().message;
  }
  EXPECT_EQ(ProviderSpec(AWS{.region = "eu-west-1"}).settings.at("region"), "eu-west-1");
  const ProviderSpec pods = RunPod{.data_center_ids = {{}}, .ports = {{"22/tcp", "80/http"}}};
  EXPECT_EQ(pods.settings, (std::map<std::string, std::string>{{"ports", "22/tcp,80/http"}}));
  const ProviderSpec jobs = Slurm{.extra = {{"--constraint=a,b", "--nice"}}};
  EXPECT_EQ(jobs.settings.at("extra"), "--constraint=a,b\n--nice");
  EXPECT_TRUE(ProviderSpec(Slurm{.extra = {{}}}).settings.empty());
  EXPECT_EQ(ProviderSpec(Local{}).name, "local");
  const ProviderSpec command = Command{.commands = {{"podman", "exec", "-i", "c1", "sh", "-c"}}};
  EXPECT_EQ(command.name, "command");
  EXPECT_EQ(command.settings.at("commands"), R"([["podman","exec","-i","c1","sh","-c"]])");
}

}  // namespace
}  // namespace skyward

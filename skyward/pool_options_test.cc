#include "skyward/pool_options.h"

#include <gtest/gtest.h>

#include "skyward/accelerators.h"
#include "skyward/error.h"
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
  EXPECT_THROW(PoolOptions{.accelerator = "H1OO"}, ConfigurationError);
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
  EXPECT_THROW(PoolOptions{.spot = "perhaps"}, ConfigurationError);
}

// What the constructors say when nothing is given is what the table says, and the table knows all
// that they say.
TEST(Providers, FitTheirTable) {
  const ProviderSpec specs[] = {AWS{}, DigitalOcean{}, Verda{}, VastAI{}, RunPod{}};
  for (const ProviderSpec& spec : specs) {
    const ProviderSheet* sheet = find_provider_sheet(spec.name);
    ASSERT_NE(sheet, nullptr) << spec.name;
    EXPECT_TRUE(validate_settings(spec.name, spec.settings)) << spec.name;
    for (const ProviderSetting& setting : sheet->settings) {
      const auto found = spec.settings.find(std::string(setting.name));
      const std::string said = found == spec.settings.end() ? "" : found->second;
      EXPECT_EQ(said, setting.standard) << spec.name << " " << setting.name;
    }
  }
  EXPECT_EQ(ProviderSpec(AWS{.region = "eu-west-1"}).settings.at("region"), "eu-west-1");
  EXPECT_EQ(ProviderSpec(Local{}).name, "local");
  const ProviderSpec command = Command{.commands = {{"podman", "exec", "-i", "c1", "sh", "-c"}}};
  EXPECT_EQ(command.name, "command");
  EXPECT_EQ(command.settings.at("commands"), R"([["podman","exec","-i","c1","sh","-c"]])");
}

}  // namespace
}  // namespace skyward

#include "skyward/io/cpu_quota.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "skyward/io/machine.h"

namespace skyward::io {
namespace {

namespace fs = std::filesystem;

class CpuQuotaTest : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(root); }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(root + name).parent_path());
    std::ofstream(root + name) << text;
  }
  std::optional<double> quota() const { return cpu_quota(root, root + "/membership"); }

  const std::string root = fs::temp_directory_path() / ("q" + random_hex(8));
};

TEST_F(CpuQuotaTest, TheTightestGroupCounts) {
  write("/membership", "0::/pod/box/inner\n");
  write("/pod/box/inner/cpu.max", "max 100000\n");
  write("/pod/box/cpu.max", "150000 100000\n");
  write("/pod/cpu.max", "400000 100000\n");
  EXPECT_EQ(quota(), 1.5);
}

TEST_F(CpuQuotaTest, AContainerSeesItsOwnGroupAsTheRoot) {
  write("/membership", "12:cpu:/old\n0::/\n");
  write("/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 0.5);
}

TEST_F(CpuQuotaTest, WithoutALimitThereIsNone) {
  EXPECT_EQ(quota(), std::nullopt) << "no control groups";
  write("/membership", "0::/gone\n");
  EXPECT_EQ(quota(), std::nullopt) << "a group that is not mounted here";
  for (const char* text : {"max 100000\n", "", "100000", "0 100000", "-1 100000", "1 0"}) {
    write("/gone/cpu.max", text);
    EXPECT_EQ(quota(), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace skyward::io

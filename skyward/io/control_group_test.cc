#include "skyward/io/control_group.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "skyward/io/machine.h"

namespace skyward::io {
namespace {

namespace fs = std::filesystem;

class ControlGroupTest : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(root); }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(root + name).parent_path());
    std::ofstream(root + name) << text;
  }
  std::optional<double> quota() const { return cpu_quota(root, root + "/membership"); }
  std::optional<std::uint64_t> memory() const { return memory_limit(root, root + "/membership"); }

  const std::string root = fs::temp_directory_path() / ("q" + random_hex(8));
};

TEST_F(ControlGroupTest, TheTightestGroupCounts) {
  write("/membership", "0::/pod/box/inner\n");
  write("/pod/box/inner/cpu.max", "max 100000\n");
  write("/pod/box/cpu.max", "150000 100000\n");
  write("/pod/cpu.max", "400000 100000\n");
  write("/pod/box/inner/memory.max", "max\n");
  write("/pod/box/memory.max", "8589934592\n");
  write("/pod/memory.max", "1073741824\n");
  EXPECT_EQ(quota(), 1.5);
  EXPECT_EQ(memory(), std::uint64_t{1} << 30);
}

TEST_F(ControlGroupTest, AContainerSeesItsOwnGroupAsTheRoot) {
  write("/membership", "12:cpu:/old\n0::/\n");
  write("/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 0.5);
}

TEST_F(ControlGroupTest, WithoutALimitThereIsNone) {
  EXPECT_EQ(quota(), std::nullopt) << "no control groups";
  write("/membership", "0::/gone\n");
  EXPECT_EQ(quota(), std::nullopt) << "a group that is not mounted here";
  for (const char* text : {"max 100000\n", "", "100000", "0 100000", "-1 100000", "1 0"}) {
    write("/gone/cpu.max", text);
    EXPECT_EQ(quota(), std::nullopt) << text;
  }
  for (const char* text : {"max\n", "", "0"}) {
    write("/gone/memory.max", text);
    EXPECT_EQ(memory(), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace skyward::io

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

  std::optional<std::uint64_t> room() const { return memory_room(root, root + "/membership"); }

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

TEST_F(ControlGroupTest, KnowsVersion1) {
  write("/membership", "9:memory:/slurm/job_7\n4:cpuset:/\n3:cpu,cpuacct:/slurm/job_7\n0::/\n");
  write("/cpu/slurm/job_7/cpu.cfs_quota_us", "-1\n");
  write("/cpu/slurm/job_7/cpu.cfs_period_us", "100000\n");
  write("/cpu/slurm/cpu.cfs_quota_us", "250000\n");
  write("/cpu/slurm/cpu.cfs_period_us", "100000\n");
  write("/memory/slurm/job_7/memory.limit_in_bytes", "2000000\n");
  write("/memory/slurm/job_7/memory.usage_in_bytes", "1500000\n");
  write("/memory/slurm/job_7/memory.stat",
        "cache 7\ninactive_file 1\ntotal_inactive_file 300000\n"
        "total_active_file 100000\n");
  write("/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(quota(), 2.5);
  EXPECT_EQ(memory(), 2000000u);
  EXPECT_EQ(room(), 900000u);
}

TEST_F(ControlGroupTest, WhatIsUsedLeavesNoRoom) {
  write("/membership", "0::/pod/box\n");
  EXPECT_EQ(room(), std::nullopt);
  write("/pod/box/memory.max", "1000000\n");
  EXPECT_EQ(room(), 1000000u) << "nothing is said of what is used";
  write("/pod/box/memory.current", "900000\n");
  write("/pod/box/memory.stat",
        "anon 600000\ninactive_file 100000\nactive_file 80000\nslab_reclaimable 20000\n");
  EXPECT_EQ(room(), 300000u);
  write("/pod/memory.max", "2000000\n");
  write("/pod/memory.current", "2000001\n");
  EXPECT_EQ(room(), 0u) << "the group above is full";
  EXPECT_EQ(memory(), 1000000u);
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

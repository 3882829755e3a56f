#include "skyward/agent/metrics.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"
#include "skyward/io/process.h"

namespace skyward::agent {
namespace {

TEST(Metrics, ReadsProcessorTimes) {
  const auto times = parse_cpu_times(
      "cpu  100 5 20 800 50 1 2 3 70 9\n"
      "cpu0 50 5 10 400 25 1 1 1 35 4\n"
      "intr 5\n");
  ASSERT_TRUE(times);
  EXPECT_EQ(times->total, 981U);
  EXPECT_EQ(times->busy, 131U);
  EXPECT_FALSE(parse_cpu_times(""));
  EXPECT_FALSE(parse_cpu_times("cpu0 1 2 3 4\n"));
  EXPECT_FALSE(parse_cpu_times("cpu 1 2 x 4\n"));
  EXPECT_FALSE(parse_cpu_times("cpu 1 2\n"));
}

TEST(Metrics, ComputesTheProcessorShare) {
  EXPECT_DOUBLE_EQ(cpu_percent({100, 1000}, {150, 1200}), 25.0);
  EXPECT_DOUBLE_EQ(cpu_percent({100, 1000}, {100, 1000}), 0.0);
  EXPECT_DOUBLE_EQ(cpu_percent({100, 1000}, {90, 1100}), 0.0);
  EXPECT_DOUBLE_EQ(cpu_percent({100, 1000}, {300, 1100}), 100.0);
}

TEST(Metrics, ReadsMemoryInMebibytes) {
  wire::MetricsSample sample;
  ASSERT_TRUE(parse_memory(
      "MemTotal:        2048000 kB\nMemFree:  1 kB\nMemAvailable:    1536000 kB\nBuffers: 5 kB\n",
      sample));
  EXPECT_DOUBLE_EQ(sample.memory_total_mb, 2000.0);
  EXPECT_DOUBLE_EQ(sample.memory_used_mb, 500.0);
  EXPECT_DOUBLE_EQ(sample.memory_percent, 25.0);
  EXPECT_FALSE(parse_memory("MemTotal: 10 kB\n", sample));
  EXPECT_FALSE(parse_memory("", sample));
}

TEST(Metrics, MemoryIsThatOfTheContainer) {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  const wire::MetricsSample host{
      .memory_percent = 31, .memory_used_mb = 310 << 10, .memory_total_mb = 1000 << 10};
  wire::MetricsSample sample = host;
  limit_memory(16 * kGiB, 4 * kGiB, sample);
  EXPECT_DOUBLE_EQ(sample.memory_total_mb, 16 << 10);
  EXPECT_DOUBLE_EQ(sample.memory_used_mb, 12 << 10);
  EXPECT_DOUBLE_EQ(sample.memory_percent, 75.0);
  sample = host;
  limit_memory(1000 * kGiB, 4 * kGiB, sample);
  EXPECT_EQ(sample, host) << "a limit that is none";
}

TEST(Metrics, CombinesDevices) {
  wire::MetricsSample sample;
  parse_gpus("30, 1000, 81559, 41\n50, 500, 81559, 47\n", sample);
  EXPECT_EQ(sample.gpu_utilization, 40.0);
  EXPECT_EQ(sample.gpu_memory_used_mb, 1500.0);
  EXPECT_EQ(sample.gpu_memory_total_mb, 163118.0);
  EXPECT_EQ(sample.gpu_temperature, 47.0);
}

TEST(Metrics, LeavesOutWhatADeviceDoesNotTell) {
  wire::MetricsSample sample;
  parse_gpus("[N/A], [N/A], 81559, 41\n[Not Supported], 500, [N/A], [N/A]\n", sample);
  EXPECT_EQ(sample.gpu_utilization, std::nullopt);
  EXPECT_EQ(sample.gpu_memory_used_mb, 500.0);
  EXPECT_EQ(sample.gpu_memory_total_mb, 81559.0);
  EXPECT_EQ(sample.gpu_temperature, 41.0);
  wire::MetricsSample none;
  parse_gpus("Failed to initialize NVML\n", none);
  EXPECT_EQ(none, wire::MetricsSample{});
}

TEST(Metrics, ReadsDeviceNames) {
  EXPECT_EQ(parse_gpu_names("NVIDIA H100 80GB HBM3\r\nNVIDIA H100 80GB HBM3\n\n"),
            (std::vector<std::string>{"H100-80GB", "H100-80GB"}));
  EXPECT_TRUE(parse_gpu_names("").empty());
}

TEST(Devices, OfOtherMakers) {
  const std::string rocm =
      "======================= ROCm System Management Interface =======================\n"
      "GPU[0]\t\t: Card series: \t\tAMD Instinct MI300X OAM\n"
      "GPU[0]\t\t: Card model: \t\t0x74a1\n"
      "GPU[1]\t\t: Card Series: \t\tAMD Instinct MI300X OAM\n"
      "================================================================================\n";
  EXPECT_EQ(parse_rocm_names(rocm), (std::vector<std::string>{"MI300X", "MI300X"}));
  EXPECT_TRUE(parse_rocm_names("ERROR:root:Driver not initialized").empty());
  EXPECT_EQ(parse_habana_names("AIP 0: HL-225B (UUID: 01P0-HL2080A0-15)\nAIP 1: HL-225B (U)\n"),
            (std::vector<std::string>{"Gaudi2", "Gaudi2"}));
  EXPECT_EQ(parse_habana_names("HL-205 (x)\nHL-325L\n"),
            (std::vector<std::string>{"Gaudi", "Gaudi3"}));
  EXPECT_TRUE(parse_habana_names("no device").empty());
}

TEST(Metrics, SamplesThisMachine) {
  io::EventLoop loop;
  MetricsSampler metrics(loop);
  std::optional<wire::MetricsSample> sample;
  const auto timeout =
      loop.start_timer(io::EventLoop::now() + std::chrono::seconds(20), [&] { loop.stop(); });
  metrics.sample([&](wire::MetricsSample taken) {
    sample = taken;
    loop.stop();
  });
  if (!sample) loop.run();
  loop.cancel_timer(timeout);
  ASSERT_TRUE(sample);
  EXPECT_GT(sample->memory_total_mb, 0);
  EXPECT_GT(sample->memory_used_mb, 0);
  EXPECT_EQ(sample->cpu_percent, 0);  // the first reading has nothing to compare with
}

// A program in nvidia-smi's place, on which a sampler is let loose.
class NvidiaSmiTest : public testing::Test {
 protected:
  NvidiaSmiTest() : directory_(testing::TempDir() + "skyward-" + io::random_hex(8)) {
    EXPECT_TRUE(io::make_private_directory(directory_));
  }
  ~NvidiaSmiTest() override { EXPECT_TRUE(io::remove_tree(directory_)); }

  void SetUp() override {
    loop_.start_timer(io::EventLoop::now() + std::chrono::seconds(60), [this] {
      ADD_FAILURE() << "the test waited too long";
      loop_.stop();
    });
  }

  std::string path(const char* name) const { return directory_ + "/" + name; }
  MetricsSampler sampler_on(const std::string& script, Duration patience) {
    std::ofstream(path("nvidia-smi")) << "#!/bin/sh\n" << script;
    std::filesystem::permissions(path("nvidia-smi"), std::filesystem::perms::owner_all);
    return MetricsSampler(loop_, path("nvidia-smi"), patience);
  }

  const std::string directory_;
  io::EventLoop loop_;
  std::vector<FoundDevices> found_;
};

TEST_F(NvidiaSmiTest, SamplesCardsThatTheCatalogueDoesNotHave) {
  MetricsSampler metrics =
      sampler_on("case $1 in *=name) echo NVIDIA GB10 ;; *) echo '30, [N/A], [N/A], 41' ;; esac",
                 std::chrono::seconds(60));
  std::optional<wire::MetricsSample> sample;
  metrics.find_accelerators("", [&](const FoundDevices& found) {
    found_.push_back(found);
    metrics.sample([&](const wire::MetricsSample& taken) {
      sample = taken;
      loop_.stop();
    });
  });
  loop_.run();
  ASSERT_EQ(found_.size(), 1U);
  EXPECT_EQ(found_[0].names, std::vector<std::string>{"GB10"});
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->gpu_utilization, 30.0);
  EXPECT_EQ(sample->gpu_temperature, 41.0);
}

TEST_F(NvidiaSmiTest, AFailureIsTold) {
  MetricsSampler metrics =
      sampler_on("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18",
                 std::chrono::seconds(60));
  metrics.find_accelerators("", [&](const FoundDevices& found) {
    found_.push_back(found);
    loop_.stop();
  });
  loop_.run();
  ASSERT_EQ(found_.size(), 1U);
  EXPECT_FALSE(found_[0].by_nvidia_smi);
  EXPECT_EQ(found_[0].error, "Failed to initialize NVML: Driver/library version mismatch");
  EXPECT_EQ(found_[0].silent, "");
}

TEST_F(NvidiaSmiTest, AnAnswerThatComesLateCounts) {
  ASSERT_TRUE(
      io::run_command({.command = {"mkfifo", path("go")}}, std::chrono::seconds(60)).has_value());
  std::fstream go(path("go"), std::ios::in | std::ios::out);  // waits for no other end
  ASSERT_TRUE(go.is_open());
  MetricsSampler metrics =
      sampler_on("read word <'" + path("go") + "'; echo NVIDIA H200", Duration{});
  metrics.find_accelerators("", [&](const FoundDevices& found) {
    found_.push_back(found);
    if (found_.size() == 1) go << "now\n" << std::flush;
    if (found_.size() == 2) loop_.stop();
  });
  loop_.run();
  ASSERT_EQ(found_.size(), 2U);
  EXPECT_EQ(found_[0].silent, "nvidia-smi");
  EXPECT_TRUE(found_[0].names.empty());
  EXPECT_EQ(found_[1].silent, "");
  EXPECT_EQ(found_[1].names, std::vector<std::string>{"H200"});
}

TEST(GpuPauses, ADriverThatFailsIsAskedLessOften) {
  GpuPauses pauses;
  const auto samples_until_asked = [&pauses] {
    int samples = 1;
    while (!pauses.next()) ++samples;
    return samples;
  };
  EXPECT_EQ(samples_until_asked(), 1);
  pauses.on_answer(true);
  EXPECT_EQ(samples_until_asked(), 1);
  for (const int expected : {2, 4, 8, 16, 32, 64, 128, 256, 256}) {
    pauses.on_answer(false);
    EXPECT_EQ(samples_until_asked(), expected);
  }
  pauses.on_answer(true);
  EXPECT_EQ(samples_until_asked(), 1);
}

}  // namespace
}  // namespace skyward::agent

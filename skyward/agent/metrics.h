#pragma once

// How busy the node is: CPU and memory from /proc, memory within the limit of control groups, GPUs
// from nvidia-smi if it is on PATH. The parsing is pure; MetricsSampler does the reading, and never
// blocks the loop on nvidia-smi, which can take seconds.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/time.h"
#include "skyward/io/event_loop.h"
#include "skyward/wire/message.h"

namespace skyward::agent {

// CPU time since boot, in ticks.
struct CpuTimes {
  std::uint64_t busy = 0;
  std::uint64_t total = 0;
  bool operator==(const CpuTimes&) const = default;
};
// From /proc/stat.
std::optional<CpuTimes> parse_cpu_times(std::string_view text);
// Share of the time between two readings, 0 … 100; 0 if no time has passed.
double cpu_percent(const CpuTimes& before, const CpuTimes& after);

// From /proc/meminfo into the memory fields of a sample. Memory that the kernel could free at once
// does not count as used.
bool parse_memory(std::string_view text, wire::MetricsSample& sample);

// Where this process may use less than the machine has, as in a container: `limit` and what is left
// of it, in bytes (io/control_group.h).
void limit_memory(std::uint64_t limit, std::uint64_t room, wire::MetricsSample& sample);

// From the rows "utilization.gpu, memory.used, memory.total, temperature.gpu" of nvidia-smi into
// the GPU fields. A value that is not a number ("[N/A]") is left out; a field without any value
// stays empty.
void parse_gpus(std::string_view text, wire::MetricsSample& sample);

// One device a row, with the catalogue's name if it has one.
std::vector<std::string> parse_gpu_names(std::string_view text);

// From `rocm-smi --showproductname`: one row "GPU[0] : Card series: AMD Instinct MI300X" a device.
std::vector<std::string> parse_rocm_names(std::string_view text);
// From `hl-smi -L`: a paragraph a device, with its model ("HL-225") or its name in it.
std::vector<std::string> parse_habana_names(std::string_view text);

// Which samples ask for GPUs. A driver that has failed may hang for good, and each question then
// leaves a process that cannot be killed: after each failure in a row, twice as many samples go
// without. Pure.
class GpuPauses {
 public:
  // Whether the next sample asks.
  bool next() {
    if (left_ == 0) return true;
    --left_;
    return false;
  }
  void on_answer(bool answered) {
    constexpr int kMostDoublings = 8;
    failures_ = answered ? 0 : std::min(failures_ + 1, kMostDoublings);
    left_ = (1 << failures_) - 1;
  }

 private:
  int failures_ = 0;
  int left_ = 0;
};

struct FoundDevices {
  std::vector<std::string> names{};  // of models, one for each device
  std::string silent{};              // a program that was asked and did not answer in time
  std::string error{};               // what nvidia-smi says if it fails
  bool by_nvidia_smi = false;        // it has named them
};

class MetricsSampler {
 public:
  // `patience`: how long a node waits for the names of its devices.
  explicit MetricsSampler(io::EventLoop& loop, std::string nvidia_smi = "nvidia-smi",
                          Duration patience = std::chrono::seconds(5));
  ~MetricsSampler();
  MetricsSampler(const MetricsSampler&) = delete;
  MetricsSampler& operator=(const MetricsSampler&) = delete;

  // The node's devices: GPUs of NVIDIA (only those with these indices, joined by ',', when some are
  // given), else AWS's Neuron devices, AMD's or Habana's. `done` is called on the loop: once they
  // are known, and before that, without names, if they are not known in time. Samples contain
  // NVIDIA's from then on. Call it once.
  void find_accelerators(std::string gpus, std::function<void(FoundDevices)> done);

  // Takes a sample and calls `done` once, soon, on the loop. Does nothing while another sample is
  // being taken.
  void sample(std::function<void(wire::MetricsSample)> done);

 private:
  struct DeviceSearch;

  io::EventLoop& loop_;
  const std::string nvidia_smi_;
  const Duration patience_;
  std::shared_ptr<bool> alive_;  // shared with blocking work that may outlast this object
  std::stop_source stop_;        // of the search
  std::optional<CpuTimes> last_;
  bool has_gpus_ = false;
  std::string gpus_;
  GpuPauses pauses_;
  bool sampling_ = false;
};

}  // namespace skyward::agent

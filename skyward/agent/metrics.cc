#include "skyward/agent/metrics.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <utility>

#include "skyward/base/text.h"
#include "skyward/io/control_group.h"
#include "skyward/io/file.h"
#include "skyward/io/process.h"
#include "skyward/spec/accelerator.h"

namespace skyward::agent {
namespace {

constexpr Duration kSampleTimeout = std::chrono::seconds(5);
// nvidia-smi may take this long where it has to start the driver of several GPUs.
constexpr Duration kSearchTimeout = std::chrono::seconds(60);

// Cuts the part before `separator` off `text`.
std::string_view next_part(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return trimmed(part);
}

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string read_file(const char* path) { return io::read_file(path).value_or(std::string()); }

bool has_succeeded(const Result<io::CommandResult>& result) {
  return result && result->status.code == 0 && result->status.signal == 0;
}

std::vector<std::string> gpu_query(const std::string& nvidia_smi, const std::string& gpus,
                                   const std::string& fields) {
  std::vector<std::string> command = {nvidia_smi, "--query-gpu=" + fields,
                                      "--format=csv,noheader,nounits"};
  if (!gpus.empty()) command.insert(command.end(), {"-i", gpus});
  return command;
}

// AWS's driver has a folder for each device, and tells the machine type that they are of.
std::vector<std::string> neuron_devices() {
  namespace fs = std::filesystem;
  const fs::path root = "/sys/devices/virtual/neuron_device";
  std::error_code error;
  std::size_t count = 0;
  for (fs::directory_iterator entry(root, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    count += entry->path().filename().string().starts_with("neuron") ? 1 : 0;
  }
  const std::string model =
      lower(read_file((root / "neuron0/info/architecture/instance_type").c_str()));
  constexpr std::array<std::pair<std::string_view, const char*>, 4> kModels = {
      {{"trn3", "Trainium3"},
       {"trn2", "Trainium2"},
       {"inf2", "Inferentia2"},
       {"inf1", "Inferentia1"}}};
  const char* name = "Trainium1";
  for (const auto& [word, found] : kModels)
    if (model.contains(word)) name = found;
  return std::vector<std::string>(count, name);
}

}  // namespace

struct MetricsSampler::DeviceSearch {
  const std::string nvidia_smi;
  const std::string gpus;
  const std::stop_token stop;
  std::atomic<const char*> asked = "nvidia-smi";  // that has not answered yet
  FoundDevices found{};

  Result<io::CommandResult> ask(const char* name, std::vector<std::string> command) {
    asked = name;
    auto result = io::run_command({.command = std::move(command), .stop = stop}, kSearchTimeout);
    if (!result && result.error().kind == ErrorKind::timeout) found.silent = name;
    return result;
  }

  // Finds the first kind of device that is there. Blocks.
  void run() {
    std::vector<std::string>& names = found.names;
    const auto nvidia = ask("nvidia-smi", gpu_query(nvidia_smi, gpus, "name"));
    if (has_succeeded(nvidia)) {
      names = parse_gpu_names(nvidia->out);
    } else if (nvidia) {
      found.error = io::failure_text(*nvidia);
    }
    found.by_nvidia_smi = !names.empty();
    if (names.empty()) names = neuron_devices();
    if (!names.empty()) return;
    const auto rocm = ask("rocm-smi", {"rocm-smi", "--showproductname"});
    if (has_succeeded(rocm)) names = parse_rocm_names(rocm->out);
    if (!names.empty()) return;
    const auto habana = ask("hl-smi", {"hl-smi", "-L"});
    if (has_succeeded(habana)) names = parse_habana_names(habana->out);
  }
};

std::optional<CpuTimes> parse_cpu_times(std::string_view text) {
  std::string_view line = next_part(text, '\n');
  if (next_part(line, ' ') != "cpu") return std::nullopt;
  // user nice system idle iowait irq softirq steal; guest times are part of user and nice.
  CpuTimes times;
  int column = 0;
  while (!line.empty() && column < 8) {
    const std::string_view word = next_part(line, ' ');
    if (word.empty()) continue;
    const auto ticks = parse_number<std::uint64_t>(word);
    if (!ticks) return std::nullopt;
    times.total += *ticks;
    if (column != 3 && column != 4) times.busy += *ticks;
    ++column;
  }
  if (column < 4) return std::nullopt;
  return times;
}

double cpu_percent(const CpuTimes& before, const CpuTimes& after) {
  // iowait may run backwards on some kernels, so neither difference can be relied on.
  if (after.total <= before.total || after.busy <= before.busy) return 0;
  const double share = static_cast<double>(after.busy - before.busy) /
                       static_cast<double>(after.total - before.total);
  return std::min(100.0, 100.0 * share);
}

bool parse_memory(std::string_view text, wire::MetricsSample& sample) {
  std::optional<double> total;
  std::optional<double> available;
  while (!text.empty() && !(total && available)) {
    std::string_view line = next_part(text, '\n');
    const std::string_view name = next_part(line, ':');
    line = trimmed(line);
    const auto kib = parse_number<std::uint64_t>(next_part(line, ' '));
    if (!kib) continue;
    if (name == "MemTotal") total = static_cast<double>(*kib) / 1024.0;
    if (name == "MemAvailable") available = static_cast<double>(*kib) / 1024.0;
  }
  if (!total || !available || *total <= 0) return false;
  sample.memory_total_mb = *total;
  sample.memory_used_mb = std::max(0.0, *total - *available);
  sample.memory_percent = 100.0 * sample.memory_used_mb / *total;
  return true;
}

void limit_memory(std::uint64_t limit, std::uint64_t room, wire::MetricsSample& sample) {
  const auto mebibytes = [](std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  if (limit == 0 || mebibytes(limit) >= sample.memory_total_mb) return;
  sample.memory_total_mb = mebibytes(limit);
  sample.memory_used_mb = mebibytes(limit - std::min(limit, room));
  sample.memory_percent = 100.0 * sample.memory_used_mb / sample.memory_total_mb;
}

void parse_gpus(std::string_view text, wire::MetricsSample& sample) {
  double utilization_sum = 0;
  int utilization_count = 0;
  while (!text.empty()) {
    std::string_view line = next_part(text, '\n');
    std::array<std::optional<double>, 4> values;
    for (auto& value : values) value = parse_number<double>(next_part(line, ','));
    const auto [utilization, used, total, temperature] = values;
    if (utilization) {
      utilization_sum += *utilization;
      ++utilization_count;
    }
    if (used) sample.gpu_memory_used_mb = sample.gpu_memory_used_mb.value_or(0) + *used;
    if (total) sample.gpu_memory_total_mb = sample.gpu_memory_total_mb.value_or(0) + *total;
    if (temperature)
      sample.gpu_temperature =
          std::max(sample.gpu_temperature.value_or(*temperature), *temperature);
  }
  if (utilization_count > 0) sample.gpu_utilization = utilization_sum / utilization_count;
}

std::vector<std::string> parse_gpu_names(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const std::string_view name = next_part(text, '\n');
    if (!name.empty()) names.push_back(device_model_name(name));
  }
  return names;
}

std::vector<std::string> parse_rocm_names(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const std::string_view line = next_part(text, '\n');
    const bool names_card = line.contains("Card series:") || line.contains("Card Series:");
    const std::size_t end = line.find_last_of(':');
    if (!names_card || !line.starts_with("GPU[")) continue;
    names.push_back(device_model_name(trimmed(line.substr(end + 1))));
  }
  return names;
}

std::vector<std::string> parse_habana_names(std::string_view text) {
  // Cards of the first, second and third kind, by the numbers on their boards.
  constexpr std::array<std::pair<std::string_view, const char*>, 3> kBoards = {
      {{"HL-3", "Gaudi3"}, {"HL-22", "Gaudi2"}, {"HL-20", "Gaudi"}}};
  std::vector<std::string> names;
  while (!text.empty()) {
    const std::string_view line = next_part(text, '\n');
    for (const auto& [board, name] : kBoards) {
      if (!line.contains(board)) continue;
      names.emplace_back(name);
      break;
    }
  }
  return names;
}

MetricsSampler::MetricsSampler(io::EventLoop& loop, std::string nvidia_smi, Duration patience)
    : loop_(loop),
      nvidia_smi_(std::move(nvidia_smi)),
      patience_(patience),
      alive_(std::make_shared<bool>(true)) {}

MetricsSampler::~MetricsSampler() {
  *alive_ = false;
  stop_.request_stop();
}

void MetricsSampler::find_accelerators(std::string gpus, std::function<void(FoundDevices)> done) {
  gpus_ = std::move(gpus);
  // Its thread and this one share it.
  const std::shared_ptr<DeviceSearch> search(
      new DeviceSearch{.nvidia_smi = nvidia_smi_, .gpus = gpus_, .stop = stop_.get_token()});
  const auto late =
      loop_.start_timer(io::EventLoop::now() + patience_, [alive = alive_, search, done] {
        if (*alive) done({.silent = search->asked.load()});
      });
  loop_.run_blocking([search] { search->run(); },
                     [this, alive = alive_, search, late, done] {
                       if (!*alive) return;
                       loop_.cancel_timer(late);
                       has_gpus_ = search->found.by_nvidia_smi;
                       done(std::move(search->found));
                     });
}

void MetricsSampler::sample(std::function<void(wire::MetricsSample)> done) {
  if (sampling_) return;
  wire::MetricsSample sample;
  const auto times = parse_cpu_times(read_file("/proc/stat"));
  if (times && last_) sample.cpu_percent = cpu_percent(*last_, *times);
  last_ = times;
  parse_memory(read_file("/proc/meminfo"), sample);
  if (const auto limit = io::memory_limit()) {
    limit_memory(*limit, io::memory_room().value_or(*limit), sample);
  }
  if (!has_gpus_ || !pauses_.next()) return done(sample);
  sampling_ = true;
  auto text = std::make_shared<std::optional<std::string>>();  // work and done share it
  auto query =
      gpu_query(nvidia_smi_, gpus_, "utilization.gpu,memory.used,memory.total,temperature.gpu");
  loop_.run_blocking(
      [text, query = std::move(query)] {
        auto result = io::run_command({.command = query}, kSampleTimeout);
        if (has_succeeded(result)) *text = std::move(result->out);
      },
      [this, alive = alive_, text, sample, done = std::move(done)]() mutable {
        if (!*alive) return;
        sampling_ = false;
        pauses_.on_answer(text->has_value());
        if (*text) parse_gpus(**text, sample);
        done(sample);
      });
}

}  // namespace skyward::agent

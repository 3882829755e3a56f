#include "skyward/pool/pool_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "skyward/base/utc.h"
#include "skyward/display/display_text.h"

namespace skyward {

namespace {

namespace chr = std::chrono;
namespace fs = std::filesystem;

constexpr int kColumns = 100;
constexpr std::int64_t kRetryUs = 10'000'000;
constexpr std::int64_t kDayUs = 86'400'000'000;
constexpr std::string_view kPoolFile = "pool.log";
constexpr std::string_view kProvidersFile = "providers";
constexpr std::string_view kMetricsFile = "metrics.csv";
constexpr std::string_view kMetricsHead =
    "time,node,cpu_percent,memory_used_mb,memory_total_mb,gpu_utilization,gpu_memory_used_mb,"
    "gpu_memory_total_mb,gpu_temperature\n";

std::string cell(const std::optional<double>& value) {
  return value ? fmt::format("{:g}", *value) : std::string();
}

std::string metrics_line(const Metrics& m) {
  return fmt::format("{},{},{:g},{:g},{:g},{},{},{},{}\n", utc_text(to_wall_us(m.timestamp)),
                     m.node, m.cpu_percent, m.memory_used_mb, m.memory_total_mb,
                     cell(m.gpu_utilization), cell(m.gpu_memory_used_mb),
                     cell(m.gpu_memory_total_mb), cell(m.gpu_temperature));
}

// What is there of an earlier pool.
struct KeptRecord {
  fs::path path;
  bool is_local = true;  // it asked no cloud for machines, but for simulated ones
  std::uintmax_t bytes = 0;
  std::int64_t written_us = 0;  // last
};

bool is_local(const fs::path& pool) {
  std::ifstream providers(pool / kProvidersFile);
  for (std::string name; std::getline(providers, name);) {
    if (name != "local" && name != "fake") return false;
  }
  return true;
}

KeptRecord kept_record(const fs::path& pool) {
  KeptRecord out{.path = pool, .is_local = is_local(pool)};
  std::error_code error;
  for (fs::directory_iterator at(pool, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    const fs::file_time_type written = at->last_write_time(gone);
    const std::uintmax_t size = gone ? 0 : at->file_size(gone);
    if (gone) continue;
    const auto since = chr::file_clock::to_sys(written).time_since_epoch();
    out.bytes += size;
    out.written_us = std::max<std::int64_t>(out.written_us, since / chr::microseconds(1));
  }
  return out;
}

// Newest first. Nothing else that somebody may have put there.
std::vector<KeptRecord> kept_records(const fs::path& root) {
  std::vector<fs::path> pools;
  std::error_code error;
  for (fs::directory_iterator at(root, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    const bool is_pool = at->is_directory(ignored) && name.size() == 24 && name[8] == '-' &&
                         name[15] == '-' &&
                         name.find_first_not_of("0123456789abcdef-") == std::string::npos;
    if (is_pool) pools.push_back(at->path());
  }
  std::ranges::sort(pools, std::greater());
  std::vector<KeptRecord> out;
  for (const fs::path& pool : pools) out.push_back(kept_record(pool));
  return out;
}

}  // namespace

PoolRecord::PoolRecord(std::string root, std::string job_id)
    : root_(std::move(root)),
      job_id_(std::move(job_id)),
      display_(DisplayOptions{.width = kColumns, .dated = true}) {}

std::optional<std::string> PoolRecord::keep(std::span<const Event> events, std::int64_t wall_us) {
  if (events.empty()) return std::nullopt;
  if (wall_us < retry_us_ && retry_us_ - wall_us <= kRetryUs) {  // else the clock was set back
    missing_ += events.size();
    return std::nullopt;
  }
  if (directory_.empty() && !make_directory(wall_us)) {
    return failed(fmt::format("the pool's log files are not kept: cannot write below {}", root_),
                  events.size(), wall_us);
  }
  for (const Event& event : events) keep_one(event, wall_us);
  bool good = flush();
  if (good && missing_ > 0) {
    write(
        std::string(kPoolFile),
        fmt::format("{} pool     WARN    events and lines of output that are missing above: up to "
                    "{}, since the log files could not be written\n",
                    utc_text(wall_us), std::exchange(missing_, 0)));
    good = flush();
  }
  if (good) return std::nullopt;
  return failed(fmt::format("the pool's log files have a gap here: cannot write to {}", directory_),
                events.size(), wall_us);
}

bool PoolRecord::flush() {
  bool good = true;
  for (auto& [name, file] : files_) good = file.text.flush() && good;
  return good;
}

std::optional<std::string> PoolRecord::failed(std::string why, std::size_t events,
                                              std::int64_t wall_us) {
  retry_us_ = wall_us + kRetryUs;
  missing_ += events;
  for (auto& [name, file] : files_) file.text = {};  // opened again
  if (std::exchange(told_, true)) return std::nullopt;
  return why;
}

bool PoolRecord::make_directory(std::int64_t wall_us) {
  std::error_code error;
  fs::create_directories(root_, error);
  if (error) return false;
  fs::permissions(root_, fs::perms::owner_all, error);
  const std::string made =
      fmt::format("{}/{}-{}", root_, utc_moment(wall_us / 1'000'000, "%Y%m%d-%H%M%S"), job_id_);
  fs::create_directory(made, error);
  if (error) return false;
  fs::permissions(made, fs::perms::owner_all, error);
  if (error) return false;
  directory_ = made;
  lock_ = io::FileLock::try_lock(directory_ + "/lock");
  forget_old_pools(wall_us);
  return true;
}

void PoolRecord::forget_old_pools(std::int64_t wall_us) const {
  std::array<std::size_t, 2> pools{};  // others, local ones
  std::uintmax_t bytes = 0;
  for (const KeptRecord& one : kept_records(root_)) {
    const bool is_counted = ++pools[one.is_local ? 1 : 0] <= kPools;
    if (is_counted) bytes += one.bytes;
    const bool is_young = !one.is_local && one.written_us > wall_us - kDayUs;
    if ((is_counted && bytes <= kBytesOfAll) || is_young) continue;
    std::error_code ignored;  // it ended meanwhile, or is another user's
    if (!io::FileLock::holder(one.path / "lock")) fs::remove_all(one.path, ignored);
  }
}

void PoolRecord::write(const std::string& name, std::string_view text) {
  File& file = files_[name];
  const std::string path = fmt::format("{}/{}", directory_, name);
  if (file.text.is_open() && file.size + text.size() > kFileBytes) {
    file.text.flush();
    std::error_code error;
    fs::rename(path, path + ".1", error);
    file = {};
  }
  if (!file.text.is_open()) {
    file.text.open(path);
    std::string_view head = name == kMetricsFile ? kMetricsHead : "";
    if (file.size > 0) head = "\n";  // after a failed write, which may have written half a line
    file.text.write(head);
    file.size += head.size();
  }
  file.text.write(text);
  file.size += text.size();
}

// There may be millions. Those that the agent has read together have one time.
void PoolRecord::keep_line(const LogLine& line) {
  const auto read_us = to_wall_us(line.timestamp);
  if (std::exchange(read_us_, read_us) != read_us) read_text_ = utc_text(read_us);
  fmt::memory_buffer text;
  fmt::format_to(std::back_inserter(text), "{} task {} {} {}\n", read_text_, line.task, line.stream,
                 line.line);
  write(fmt::format("node-{}.log", line.node), {text.data(), text.size()});
}

void PoolRecord::keep_one(const Event& event, std::int64_t wall_us) {
  if (const auto* line = std::get_if<LogLine>(&event)) {
    keep_line(*line);
    return;
  }
  if (const auto* metrics = std::get_if<Metrics>(&event)) {
    write(std::string(kMetricsFile), metrics_line(*metrics));
    return;
  }
  if (const auto* launching = std::get_if<InstanceLaunching>(&event)) {
    write(std::string(kProvidersFile), launching->provider + "\n");
  }
  const std::string text = display_.render(event, wall_us);
  if (!text.empty()) write(std::string(kPoolFile), text);
}

}  // namespace skyward

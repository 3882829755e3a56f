// Partitions of NVIDIA GPUs: which profiles there are, and how many fit.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "skyward/spec/accelerator.h"
#include "skyward/spec/json_text.h"

namespace skyward {

namespace {

constexpr int kSlices = 7;  // compute slices of a GPU
constexpr double kLarge = 80;

constexpr std::array<MigProfile, 11> kProfiles = {{
    {"1g.10gb", 7, 1, 10, true, false},
    {"1g.20gb", 4, 1, 20, true, false},
    {"2g.20gb", 3, 2, 20, true, false},
    {"3g.40gb", 2, 3, 40, true, false},
    {"4g.40gb", 1, 4, 40, true, false},
    {"7g.80gb", 1, 7, 80, true, false},
    {"1g.5gb", 7, 1, 5, false, true},
    {"2g.10gb", 3, 2, 10, false, true},
    {"3g.20gb", 2, 3, 20, false, true},
    {"4g.20gb", 1, 4, 20, false, true},
    {"7g.40gb", 1, 7, 40, false, true},
}};

const MigProfile* find_profile(std::string_view name) {
  const auto found = std::ranges::find(kProfiles, name, &MigProfile::name);
  return found == kProfiles.end() ? nullptr : &*found;
}

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

bool can_split(const AcceleratorModel& model) {
  return model.name == "H100" || model.name == "A100";
}

}  // namespace

std::span<const MigProfile> mig_profiles() { return kProfiles; }

Status validate_mig(const Accelerator& accelerator) {
  const auto* one = std::get_if<std::string>(&accelerator.mig);
  const auto* several = std::get_if<std::vector<std::string>>(&accelerator.mig);
  if (one == nullptr && several == nullptr) return {};
  const auto name = parse_accelerator_name(accelerator.name);
  if (!name || !can_split(*name->model)) {
    return fail(
        ErrorKind::invalid,
        fmt::format("{}: mig: this model cannot be split into partitions", accelerator.name),
        "leave mig out, or take an H100 or an A100");
  }
  const double memory = device_memory_gb(accelerator);
  const bool large = memory >= kLarge;
  const std::vector<std::string> wanted = one != nullptr ? std::vector{*one} : *several;
  if (wanted.empty()) {
    return fail(ErrorKind::invalid, fmt::format("{}: mig=[] names no profile", accelerator.name),
                "leave mig out to use whole GPUs");
  }
  int slices = 0;
  for (const std::string& text : wanted) {
    const MigProfile* profile = find_profile(text);
    if (profile != nullptr && (large ? profile->on_80 : profile->on_40)) {
      slices += profile->slices;
      continue;
    }
    std::vector<std::string_view> valid;
    for (const MigProfile& other : kProfiles) {
      if (large ? other.on_80 : other.on_40) valid.push_back(other.name);
    }
    return fail(ErrorKind::invalid,
                fmt::format("{}: mig={} is not a profile of the model with {:g}GB",
                            accelerator.name, quoted(text), memory),
                fmt::format("choose one of {}", fmt::join(valid, ", ")));
  }
  if (several != nullptr && slices > kSlices) {
    return fail(ErrorKind::invalid,
                fmt::format("{}: mig=[{}] needs {} slices, and a GPU has {}", accelerator.name,
                            fmt::join(wanted, ", "), slices, kSlices),
                "ask for fewer or smaller partitions");
  }
  return {};
}

std::vector<std::string> mig_partitions(const Accelerator& accelerator) {
  if (const auto* several = std::get_if<std::vector<std::string>>(&accelerator.mig))
    return *several;
  const auto* one = std::get_if<std::string>(&accelerator.mig);
  const MigProfile* profile = one == nullptr ? nullptr : find_profile(*one);
  if (profile == nullptr) return {};
  return std::vector<std::string>(static_cast<std::size_t>(profile->most), *one);
}

int workers_per_node(const Accelerator& accelerator) {
  const auto partitions = static_cast<int>(mig_partitions(accelerator).size());
  if (partitions == 0) return 1;
  return partitions * static_cast<int>(std::lround(accelerator.count));
}

}  // namespace skyward

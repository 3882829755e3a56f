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
constexpr int kParts = 8;   // of its memory, which the profiles share out

constexpr std::array<MigProfile, 17> kProfiles = {{
    {"1g.10gb", 7, 1, 10, 80},
    {"1g.20gb", 4, 1, 20, 80},
    {"2g.20gb", 3, 2, 20, 80},
    {"3g.40gb", 2, 3, 40, 80},
    {"4g.40gb", 1, 4, 40, 80},
    {"7g.80gb", 1, 7, 80, 80},
    {"1g.5gb", 7, 1, 5, 40},
    {"2g.10gb", 3, 2, 10, 40},
    {"3g.20gb", 2, 3, 20, 40},
    {"4g.20gb", 1, 4, 20, 40},
    {"7g.40gb", 1, 7, 40, 40},
    {"1g.18gb", 7, 1, 18, 141},
    {"1g.35gb", 4, 1, 35, 141},
    {"2g.35gb", 3, 2, 35, 141},
    {"3g.71gb", 2, 3, 71, 141},
    {"4g.71gb", 1, 4, 71, 141},
    {"7g.141gb", 1, 7, 141, 141},
}};

// The profiles that a GPU has, by MigProfile::gpu_gb.
int gpu_of(double memory_gb) { return memory_gb >= 141 ? 141 : memory_gb >= 80 ? 80 : 40; }

const MigProfile* find_profile(std::string_view name) {
  const auto found = std::ranges::find(kProfiles, name, &MigProfile::name);
  return found == kProfiles.end() ? nullptr : &*found;
}

bool can_split(const AcceleratorModel& model) {
  return model.name == "H200" || model.name == "H100" || model.name == "A100";
}

// Why these do not fit on one GPU together; empty when they do.
std::string excess(const std::vector<const MigProfile*>& profiles, int gpu_gb) {
  int slices = 0;
  int needed_gb = 0;
  long parts = 0;
  for (const MigProfile* profile : profiles) {
    slices += profile->slices;
    needed_gb += profile->memory_gb;
    parts += std::lround(profile->memory_gb * kParts / static_cast<double>(gpu_gb));
  }
  if (slices > kSlices) return fmt::format("needs {} slices, but a GPU has {}", slices, kSlices);
  if (parts > kParts) {
    return fmt::format("needs {}GB of memory, but the partitions of a GPU share {}GB", needed_gb,
                       gpu_gb);
  }
  return {};
}

// Where the model with another memory has the profile: what to write for it.
std::string other_memory(const AcceleratorModel& model, const MigProfile* profile) {
  if (profile == nullptr) return {};
  const std::string memory = std::to_string(profile->gpu_gb);
  if (memory != model.memories && profile->gpu_gb != model.memory_gb) return {};
  return fmt::format("; or write memory=\"{}GB\", which has {}", memory, profile->name);
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
        "leave mig out, or use an H200, an H100 or an A100");
  }
  const double memory = device_memory_gb(accelerator);
  const int gpu_gb = gpu_of(memory);
  const std::vector<std::string> wanted = one != nullptr ? std::vector{*one} : *several;
  if (wanted.empty()) {
    return fail(ErrorKind::invalid, fmt::format("{}: mig=[] names no profile", accelerator.name),
                "leave mig out to use whole GPUs");
  }
  std::vector<const MigProfile*> profiles;
  for (const std::string& text : wanted) {
    const MigProfile* profile = find_profile(text);
    if (profile != nullptr && profile->gpu_gb == gpu_gb) {
      profiles.push_back(profile);
      continue;
    }
    std::vector<std::string_view> valid;
    for (const MigProfile& other : kProfiles) {
      if (other.gpu_gb == gpu_gb) valid.push_back(other.name);
    }
    return fail(ErrorKind::invalid,
                fmt::format("{}: mig={} is not a profile of the model with {:g}GB",
                            accelerator.name, json_string(text), memory),
                fmt::format("choose one of {}{}", fmt::join(valid, ", "),
                            other_memory(*name->model, profile)));
  }
  const std::string too_much = several != nullptr ? excess(profiles, gpu_gb) : "";
  if (too_much.empty()) return {};
  return fail(ErrorKind::invalid,
              fmt::format("{}: mig=[{}] {}", accelerator.name, fmt::join(wanted, ", "), too_much),
              "ask for fewer or smaller partitions");
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

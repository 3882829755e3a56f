#include "skyward/spec/provider_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "skyward/base/check.h"
#include "skyward/base/nearest.h"
#include "skyward/base/text.h"
#include "skyward/spec/json_text.h"
#include "skyward/spec/plain_text.h"
#include "skyward/spec/pool_spec.h"

namespace skyward {

namespace {

using enum SettingKind;

constexpr double kUnlimited = std::numeric_limits<double>::infinity();
constexpr int kMostWhole = std::numeric_limits<int>::max();

// Empty for text that is no number, or a negative one.
std::optional<double> read_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return std::isfinite(value) && value >= 0 ? std::optional(value) : std::nullopt;
}

}  // namespace

bool provider_rents(std::string_view name) {
  const ProviderSheet* sheet = find_provider_sheet(name);
  return sheet != nullptr && sheet->rents;
}

const ProviderSheet* find_provider_sheet(std::string_view name) {
  const auto sheets = provider_sheets();
  const auto found = std::ranges::find(sheets, name, &ProviderSheet::name);
  return found == sheets.end() ? nullptr : &*found;
}

std::string provider_label(const std::string& name) {
  const ProviderSheet* sheet = find_provider_sheet(name);
  return sheet == nullptr ? name : std::string(sheet->label);
}

const ProviderSetting* find_setting(const ProviderSheet& sheet, std::string_view name) {
  const auto found = std::ranges::find(sheet.settings, name, &ProviderSetting::name);
  return found == sheet.settings.end() || found->kind == internal ? nullptr : &*found;
}

std::string hint_of_settings(const ProviderSheet& sheet, std::string_view name) {
  std::vector<std::string_view> names;
  for (const ProviderSetting& one : sheet.settings) {
    if (one.kind != internal) names.push_back(one.name);
  }
  return fmt::format("{}it has {}", did_you_mean(name, names), fmt::join(names, ", "));
}

bool is_region(std::string_view name) {
  constexpr std::size_t kMostOfALabel = 63;  // of a host name
  return !name.empty() && name.size() <= kMostOfALabel && name.front() != '-' &&
         is_made_of(name, "-");
}

std::string unmet_requirement(const ProviderSetting& setting, const std::string& value) {
  const bool several = setting.kind == lines || setting.kind == SettingKind::host_keys;
  if (value.contains('\0') || (value.contains('\n') && !several)) return "text on one line";
  switch (setting.kind) {
    case SettingKind::region:
      return is_region(value) ? "" : "the name of a region: letters, digits and '-'";
    case text:
    case secret:
    case path:
    case list:
    case lines:
    case json:
    case SettingKind::host_keys:
      return value.empty() ? "text that is not empty" : "";
    case internal:
      return "";
    case flag:
      return value == "true" || value == "false" ? "" : "true or false";
    case whole:
      return std::ranges::all_of(value, is_digit) &&
                     read_number(value).value_or(kUnlimited) <= kMostWhole
                 ? ""
                 : fmt::format("a whole number from 0 to {}", kMostWhole);
    case number:
      return read_number(value) ? "" : "a number, not negative";
    case fraction:
      return read_number(value).value_or(kUnlimited) <= 1 ? "" : "a number from 0 to 1";
    case choice: {
      const auto choices = items_of(setting.choices, '|');
      if (std::ranges::find(choices, value) != choices.end()) return "";
      return fmt::format("one of {}", fmt::join(choices, ", "));
    }
  }
  return "";
}

double number_setting(const ProviderSpec& spec, std::string_view name) {
  const ProviderSheet* const sheet = find_provider_sheet(spec.name);
  const ProviderSetting* const setting = sheet == nullptr ? nullptr : find_setting(*sheet, name);
  SKYWARD_CHECK(setting != nullptr, "{} has no setting {}", spec.name, name);
  const std::string given = spec.setting(std::string(name));
  const auto value = read_number(given.empty() ? setting->standard : given);
  SKYWARD_CHECK(value, "{}: {}=\"{}\" was not validated", spec.name, name, given);
  return *value;
}

double least_cuda(const ProviderSpec& spec, const std::optional<Accelerator>& accelerator) {
  const double least = number_setting(spec, "min_cuda");
  if (!accelerator || !accelerator->custom) return least;
  return std::max(least, read_number(accelerator->cuda_min).value_or(0));
}

Status validate_settings(std::string_view provider,
                         const std::map<std::string, std::string>& settings) {
  const ProviderSheet* sheet = find_provider_sheet(provider);
  if (sheet == nullptr) return {};
  for (const auto& [name, value] : settings) {
    const auto setting = std::ranges::find(sheet->settings, name, &ProviderSetting::name);
    if (setting == sheet->settings.end()) {
      return fail(ErrorKind::invalid, fmt::format("{}() has no setting {}", sheet->title, name),
                  hint_of_settings(*sheet, name));
    }
    const std::string wanted = unmet_requirement(*setting, value);
    if (wanted.empty()) continue;
    std::string shown = "…";
    if (setting->kind != secret) {
      shown.clear();
      append_json_string(shown, value);
    }
    return fail(ErrorKind::invalid,
                fmt::format("{}({}={}) is not valid", sheet->title, name, shown),
                fmt::format("expected {}", wanted));
  }
  return {};
}

}  // namespace skyward

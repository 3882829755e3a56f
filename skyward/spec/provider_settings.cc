#include "skyward/spec/provider_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "skyward/base/nearest.h"
#include "skyward/spec/json_text.h"
#include "skyward/spec/plain_text.h"

namespace skyward {

namespace {

using enum SettingKind;

std::vector<std::string_view> choices_of(const ProviderSetting& setting) {
  std::vector<std::string_view> choices;
  for (std::string_view rest = setting.choices; !rest.empty();) {
    const std::size_t bar = std::min(rest.find('|'), rest.size());
    choices.push_back(rest.substr(0, bar));
    rest.remove_prefix(std::min(bar + 1, rest.size()));
  }
  return choices;
}

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

bool is_number(std::string_view text, bool whole, double most = kUnlimited) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(value) &&
         value >= 0 && value <= most && (!whole || value == std::floor(value));
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

std::vector<std::string> items_of(std::string_view value, char separator) {
  std::vector<std::string> items;
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t end = std::min(value.find(separator, begin), value.size());
    if (end > begin) items.emplace_back(value.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
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
      return is_number(value, true) ? "" : "a whole number, not negative";
    case number:
      return is_number(value, false) ? "" : "a number, not negative";
    case fraction:
      return is_number(value, false, 1) ? "" : "a number from 0 to 1";
    case choice: {
      const auto choices = choices_of(setting);
      if (std::ranges::find(choices, value) != choices.end()) return "";
      return fmt::format("one of {}", fmt::join(choices, ", "));
    }
  }
  return "";
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

#pragma once

// The settings of the clouds' constructors, as data: what each is called, what it takes, and what
// it is when nothing is said. Both faces check against this table, whether or not this build can
// rent there.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "skyward/base/error.h"

namespace skyward {

enum class SettingKind : std::uint8_t {
  text,
  flag,    // "true", "false"
  whole,   // not negative
  number,  // not negative
  list,    // joined by ','
  choice,  // one of `choices`
};

struct ProviderSetting {
  std::string_view name;
  SettingKind kind = SettingKind::text;
  std::string_view standard;  // what it is when it is not given; empty: none
  std::string_view choices;   // of a choice, joined by '|'
};

struct ProviderSheet {
  std::string_view name;   // as in ProviderSpec::name
  std::string_view title;  // the class in both faces
  std::string_view label;  // as events and people call it
  std::span<const ProviderSetting> settings;
};

std::span<const ProviderSheet> provider_sheets();
// Null when no cloud has this name.
const ProviderSheet* find_provider_sheet(std::string_view name);

// The cloud's name for people; the name itself without a sheet.
std::string provider_label(const std::string& name);

// Refuses settings that the cloud does not have, and values that do not fit. A provider without a
// sheet checks its own.
Status validate_settings(std::string_view provider,
                         const std::map<std::string, std::string>& settings);

}  // namespace skyward

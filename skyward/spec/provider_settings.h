#pragma once

// The settings of the providers' constructors, as data: what each is called, what it takes, and
// what it is when nothing is said. Both faces, files and variables are checked against this table,
// whether or not this build can rent there.
//
// The table is made from the sheets, provider/*/sheet.toml, like all else that repeats them
// (docs/decisions/0023-one-sheet-for-each-provider.md). To add a setting: an entry in the sheet of
// its provider, tools/providers.py, and its use, at Amazon in provider/aws/site.cc.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"

namespace skyward {

struct Accelerator;
struct ProviderSpec;

enum class SettingKind : std::uint8_t {
  text,
  region,     // becomes part of host names: letters, digits and '-'
  secret,     // text that is never shown
  path,       // of a file here; absolute, or relative to where the program runs
  flag,       // "true", "false"
  whole,      // digits, at most the largest int
  number,     // not negative
  fraction,   // from 0 to 1
  list,       // joined by ','; items_of() splits it
  lines,      // joined by '\n'
  choice,     // one of `choices`
  json,       // lists of texts, or lists of such lists; the provider checks them
  host_keys,  // '/…': path of a known_hosts file; '{…}': each host's key; else lines of such a file
  internal,   // said by a face for its own needs, never by users in files and variables
};

// Who may say it in a project's skyward.toml, which may be a stranger's. Endpoints are no settings:
// no such file, trusted or not, says where a cloud is.
enum class FromProject : std::uint8_t {
  trusted,  // runs commands, or decides whose machines, images, keys and accounts are used
  anybody,  // harmless: it chooses among what the user's own account or machines offer
};

struct ProviderSetting {
  std::string_view name;
  SettingKind kind = SettingKind::text;
  FromProject from_project = FromProject::trusted;
  std::string_view standard;  // what it is when it is not given; empty: none
  std::string_view choices;   // of a choice, joined by '|'
  bool names_image = false;   // what machines start from, instead of Skyward's choice
};

struct ProviderSheet {
  std::string_view name;   // as in ProviderSpec::name
  std::string_view title;  // the class in both faces
  std::string_view label;  // as events and people call it
  std::span<const ProviderSetting> settings;
  bool rents = true;  // its machines cost money; else one has them already
};

std::span<const ProviderSheet> provider_sheets();
// Null when no provider with settings has this name.
const ProviderSheet* find_provider_sheet(std::string_view name);
// Whether its machines cost money; false for a provider without a sheet.
bool provider_rents(std::string_view name);

// The provider's name for people; the name itself without a sheet.
std::string provider_label(const std::string& name);

// Null when the provider has none of this name that users may say.
const ProviderSetting* find_setting(const ProviderSheet& sheet, std::string_view name);
// The nearest that it has and all that it has, for whoever named another.
std::string hint_of_settings(const ProviderSheet& sheet, std::string_view name);

// What is expected instead of the value, in words; empty when it fits.
std::string unmet_requirement(const ProviderSetting& setting, const std::string& value);

// The value of a `whole`, a `number` or a `fraction`: the one that was given, and validated, or its
// standard.
double number_setting(const ProviderSpec& spec, std::string_view name);

// The CUDA version that the drivers of a cloud's machines must support: by the setting "min_cuda"
// and by the pool's own accelerator. Zero: any.
double least_cuda(const ProviderSpec& spec, const std::optional<Accelerator>& accelerator);

// Whether it can stand in a host name as the name of a region.
bool is_region(std::string_view name);

// Refuses settings that the provider does not have, and values that do not fit. A provider without
// a sheet checks its own.
Status validate_settings(std::string_view provider,
                         const std::map<std::string, std::string>& settings);

}  // namespace skyward

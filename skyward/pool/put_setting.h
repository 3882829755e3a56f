#pragma once

// How the values of the providers' structs become settings.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "skyward/spec/pool_spec.h"

namespace skyward {

inline void put(ProviderSpec& spec, const char* name, const std::string& value) {
  spec.settings[name] = value;
}
inline void put(ProviderSpec& spec, const char* name, bool value) {
  spec.settings[name] = value ? "true" : "false";
}
inline void put(ProviderSpec& spec, const char* name, int value) {
  spec.settings[name] = std::to_string(value);
}
inline void put(ProviderSpec& spec, const char* name, double value) {
  spec.settings[name] = fmt::format("{}", value);
}
// An empty list says nothing.
inline void put(ProviderSpec& spec, const char* name, const std::vector<std::string>& values) {
  if (!values.empty()) spec.settings[name] = fmt::format("{}", fmt::join(values, ","));
}
inline void put(ProviderSpec& spec, const char* name,
                const std::map<std::string, std::string>& pairs) {
  std::vector<std::string> texts;
  for (const auto& [key, value] : pairs) texts.push_back(key + "=" + value);
  put(spec, name, texts);
}
// What was not given is left to files, variables and defaults.
template <typename T>
void put(ProviderSpec& spec, const char* name, const std::optional<T>& value) {
  if (value) put(spec, name, *value);
}

// Nothing when there are none.
inline std::optional<std::string> joined(const std::vector<std::string>& values, char separator) {
  if (values.empty()) return {};
  return fmt::format("{}", fmt::join(values, std::string(1, separator)));
}
inline std::optional<std::string> joined(const std::optional<std::vector<std::string>>& values,
                                         char separator) {
  return values ? joined(*values, separator) : std::nullopt;
}

}  // namespace skyward

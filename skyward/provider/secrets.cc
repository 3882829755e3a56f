#include "skyward/provider/secrets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "skyward/base/text.h"
#include "skyward/provider/json_read.h"

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace skyward::provider {

namespace {

std::string_view unquoted(std::string_view text) {
  const bool quoted = text.size() >= 2 && text.front() == text.back() &&
                      (text.front() == '"' || text.front() == '\'');
  return quoted ? text.substr(1, text.size() - 2) : text;
}

std::optional<std::string> some(std::string_view text) {
  if (text.empty()) return std::nullopt;
  return std::string(text);
}

// A line "name = value" of an INI file or "name: value" of a YAML file, and the section above it.
struct Line {
  std::string_view section;
  std::string_view name;
  std::string_view value;
};

template <typename Visit>
void for_each_line(std::string_view text, SecretFormat format, Visit visit) {
  const bool yaml = format == SecretFormat::yaml;
  std::string_view section;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view raw = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view line = trimmed(raw);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (!yaml && line.front() == '[') {
      section = trimmed(line.substr(1, line.find(']') - 1));
      continue;
    }
    const std::size_t at = line.find(yaml ? ':' : '=');
    if (at == std::string_view::npos) continue;
    const std::string_view name = trimmed(line.substr(0, at));
    const std::string_view value = trimmed(line.substr(at + 1));
    const bool outside = kBlanks.find(raw.front()) == std::string_view::npos;
    if (yaml && outside) section = value.empty() ? name : std::string_view();
    if (!value.empty()) visit(Line{section, unquoted(name), unquoted(value)});
  }
}

std::optional<std::string> read_toml(std::string_view text, std::string_view key) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) return std::nullopt;
  std::string path(key);
  std::ranges::replace(path, '/', '.');
  return parsed.table().at_path(path).value<std::string>();
}

// A key goes into a header: nothing there may end it.
bool can_be_key(std::string_view value) {
  return std::ranges::all_of(value, [](char c) { return c > ' ' && c < '\x7f'; });
}

// A tool's file: where it is, and what people call it.
struct ToolFile {
  std::string path;
  std::string shown;
};

// `home_variable`: that of its directory; null without one.
ToolFile tool_file(const World& world, std::string_view path, const char* home_variable) {
  const std::string own =
      home_variable == nullptr ? "" : world.variable(home_variable).value_or("");
  if (!own.empty()) {
    const std::string_view rest = path.substr(path.find('/') + 1);
    return {fmt::format("{}/{}", own, rest), fmt::format("${}/{}", home_variable, rest)};
  }
  constexpr std::string_view kConfig = ".config/";
  const std::string config = world.variable("XDG_CONFIG_HOME").value_or("");
  if (path.starts_with(kConfig) && config.starts_with('/')) {
    const std::string_view rest = path.substr(kConfig.size());
    return {fmt::format("{}/{}", config, rest), fmt::format("$XDG_CONFIG_HOME/{}", rest)};
  }
  const std::string home = home_directory(world);
  return {home.empty() ? "" : fmt::format("{}/{}", home, path), fmt::format("~/{}", path)};
}

ToolFile tool_file(const World& world, const SecretFile& file) {
  if (file.variable != nullptr) {
    if (auto path = world.variable(file.variable)) {
      return {*std::move(path), fmt::format("${}", file.variable)};
    }
  }
  return tool_file(world, file.path, file.home);
}

// Where the tool itself would look in its file now.
std::string key_of(const World& world, const SecretFile& file) {
  const SecretProfile& profile = file.profile;
  if (profile.secret.empty()) return std::string(file.key);
  std::string name = world.variable(profile.variable.data()).value_or("");
  const std::string path = tool_file(world, profile.path, profile.home).path;
  if (name.empty() && !path.empty() && world.exists(path)) {
    const auto text = world.read_safely(path, true);
    if (text) name = read_secret(*text, profile.format, profile.key).value_or("");
  }
  if (name.empty() || name == "default") return std::string(file.key);
  std::string key(profile.secret);
  return key.replace(key.find("{}"), 2, name);
}

Error no_key(const SecretSheet& sheet, std::string_view why) {
  return {ErrorKind::denied, fmt::format("{}: {}", sheet.cloud, why), std::string(sheet.advice)};
}

}  // namespace

std::optional<std::string> read_secret(std::string_view text, SecretFormat format,
                                       std::string_view key) {
  switch (format) {
    case SecretFormat::plain:
      return some(trimmed(text));
    case SecretFormat::json:
      return some(json_text(read_json(text), key));
    case SecretFormat::toml:
      return read_toml(text, key);
    case SecretFormat::ini:
    case SecretFormat::yaml:
      break;
  }
  const std::size_t slash = key.find('/');
  const bool sectioned = slash != std::string_view::npos;
  const std::string_view section = sectioned ? key.substr(0, slash) : std::string_view();
  const std::string_view name = sectioned ? key.substr(slash + 1) : key;
  std::optional<std::string> found;
  for_each_line(text, format, [&](const Line& line) {
    if (line.section == section && line.name == name) found = std::string(line.value);
  });
  return found;
}

bool is_in_variables(const World& world, std::span<const char* const> variables) {
  return std::ranges::any_of(
      variables, [&](const char* variable) { return world.variable(variable).has_value(); });
}

Result<Secret> find_secret(const World& world, const ProviderSpec& spec, const SecretSheet& sheet) {
  std::vector<std::string> places = {fmt::format("the setting {}", sheet.setting)};
  Secret secret{.value = spec.setting(std::string(sheet.setting)), .origin = places.back()};
  for (const char* variable : sheet.variables) {
    places.push_back(fmt::format("${}", variable));
    if (secret.value.empty()) {
      secret = {.value = world.variable(variable).value_or(""), .origin = places.back()};
    }
  }
  const bool has_half = !spec.setting(std::string(sheet.other_half)).empty() ||
                        is_in_variables(world, sheet.other_variables);
  for (const SecretFile& file : has_half ? std::span<const SecretFile>() : sheet.files) {
    auto [path, shown] = tool_file(world, file);
    const bool listed = std::ranges::find(places, shown) != places.end();  // for another key
    if (!listed) places.push_back(shown);
    if (!secret.value.empty() || path.empty() || !world.exists(path)) continue;
    const auto text = world.read_safely(path, true);
    if (!text) return std::unexpected(no_key(sheet, text.error().message));
    const std::string key = key_of(world, file);
    if (key != file.key) {
      shown += fmt::format(" ({})", key);
      if (!listed) places.back() = shown;
    }
    secret = {.value = read_secret(*text, file.format, key).value_or(""),
              .origin = shown,
              .in_file = true};
  }
  if (secret.value.empty()) {
    const std::string left_out =
        has_half ? fmt::format(
                       "; since {} is set elsewhere, {} is not taken from a file: set both "
                       "in the same place",
                       sheet.other_half, sheet.setting)
                 : "";
    return std::unexpected(no_key(sheet, fmt::format("no {} found in {}{}", sheet.setting,
                                                     fmt::join(places, ", "), left_out)));
  }
  if (!can_be_key(secret.value)) {
    return std::unexpected(
        no_key(sheet, fmt::format("{} is not a valid {}: it contains blanks or invalid characters",
                                  secret.origin, sheet.setting)));
  }
  return secret;
}

}  // namespace skyward::provider

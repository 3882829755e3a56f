#include "skyward/provider/settings_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "skyward/base/nearest.h"
#include "skyward/spec/provider_settings.h"

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace skyward::provider {

namespace {

namespace fs = std::filesystem;

std::vector<std::string_view> provider_names() {
  std::vector<std::string_view> names = {"local"};
  for (const ProviderSheet& sheet : provider_sheets()) names.push_back(sheet.name);
  return names;
}

int line_of(const toml::source_region& source) { return static_cast<int>(source.begin.line); }

// Texts of an array, nested arrays too; discarded when there is anything else.
nlohmann::json to_json(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  const toml::array* array = node.as_array();
  if (array == nullptr) return nlohmann::json::value_t::discarded;
  nlohmann::json out = nlohmann::json::array();
  for (const toml::node& item : *array) {
    out.push_back(to_json(item));
    if (out.back().is_discarded()) return nlohmann::json::value_t::discarded;
  }
  return out;
}

// A text, or all texts of an array, joined; none when there is anything else, or a text that has
// the separator inside.
std::optional<std::string> joined(const toml::node& node, char separator) {
  const nlohmann::json texts = to_json(node);
  if (texts.is_string()) return texts.get<std::string>();
  if (!texts.is_array() || texts.empty()) return std::nullopt;
  std::string out;
  for (const nlohmann::json& item : texts) {
    if (!item.is_string()) return std::nullopt;
    const auto text = item.get<std::string>();
    if (text.empty() || text.contains(separator)) return std::nullopt;
    if (!out.empty()) out += separator;
    out += text;
  }
  return out;
}

std::optional<std::string> key_by_host(const toml::table& table) {
  nlohmann::ordered_json mapping = nlohmann::ordered_json::object();
  for (const auto& [host, key] : table) {
    const auto text = key.value_exact<std::string>();
    if (!text) return std::nullopt;
    mapping[std::string(host.str())] = *text;
  }
  return mapping.dump();
}

std::string wanted_words(SettingKind kind) {
  switch (kind) {
    case SettingKind::flag:
      return "true or false";
    case SettingKind::whole:
    case SettingKind::number:
    case SettingKind::fraction:
      return "a number";
    case SettingKind::list:
    case SettingKind::lines:
      return "a list of strings";
    case SettingKind::json:
      return "a list of strings, or of lists of strings";
    case SettingKind::host_keys:
      return "the path of a known_hosts file, a list of its lines, or a table with a key for each "
             "host";
    default:
      return "text";
  }
}

// The file may be a stranger's: what it says stays on one line, and is text for a terminal.
std::string one_line(std::string_view text) {
  std::string shown;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte < 0x20 || byte == 0x7f) {
      shown += byte == '\n' ? std::string("\\n") : fmt::format("\\x{:02x}", byte);
    } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {  // more control characters in UTF-8
      shown += fmt::format("\\x{:02x}", next);
      ++i;
    } else {
      shown += text[i];
    }
  }
  return shown;
}

// " = 3", for a message; empty for lists, tables and dates.
std::string shown_value(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return fmt::format(" = \"{}\"", *text);
  if (const auto flag = node.value_exact<bool>()) return fmt::format(" = {}", *flag);
  if (const auto whole = node.value_exact<std::int64_t>()) return fmt::format(" = {}", *whole);
  if (const auto number = node.value_exact<double>()) return fmt::format(" = {}", *number);
  return "";
}

// Whether the value in this line would be a string if it were quoted.
bool lacks_quotes(std::string_view text, int line) {
  for (int at = 1; at < line; ++at)
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  const std::string_view row = text.substr(0, text.find('\n'));
  const std::size_t equals = row.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string value(
      row.substr(std::min(row.find_first_not_of(" \t", equals + 1), row.size())));
  return !value.empty() && !std::string_view("\"'[{#").contains(value.front()) &&
         !toml::parse("value = " + value);
}

// As the setting's text; none when it is of another type.
std::optional<std::string> value_of(SettingKind kind, const toml::node& node,
                                    const std::string& folder, const std::string& home) {
  switch (kind) {
    case SettingKind::flag: {
      const auto value = node.value_exact<bool>();
      return value ? std::optional<std::string>(*value ? "true" : "false") : std::nullopt;
    }
    case SettingKind::whole:
    case SettingKind::number:
    case SettingKind::fraction:
      if (const auto whole = node.value_exact<std::int64_t>()) return std::to_string(*whole);
      if (const auto number = node.value_exact<double>()) return fmt::format("{}", *number);
      return std::nullopt;
    case SettingKind::list:
      return joined(node, ',');
    case SettingKind::lines:
      return joined(node, '\n');
    case SettingKind::json: {
      const nlohmann::json texts = to_json(node);
      return texts.is_array() ? std::optional(texts.dump()) : std::nullopt;
    }
    case SettingKind::host_keys: {
      if (const toml::table* table = node.as_table()) return key_by_host(*table);
      const auto text = node.value_exact<std::string>();
      const bool is_path = text && !text->empty() && !text->contains(' ');
      return is_path ? absolute_path(*text, folder, home) : joined(node, '\n');
    }
    case SettingKind::path: {
      const auto text = node.value_exact<std::string>();
      return text && !text->empty() ? absolute_path(*text, folder, home) : text;
    }
    default:
      return node.value_exact<std::string>();
  }
}

// Reads one file, whose name and home stand for all messages.
struct SettingsReader {
  SettingsFile file;
  std::string folder;
  std::string home;

  std::string at(int line) const { return fmt::format("{}:{}", file.path, line); }
  Status read(const toml::table& root);
  Status read_provider(const std::string& name, const toml::node& node, int line);
};

Status SettingsReader::read_provider(const std::string& name, const toml::node& node, int line) {
  if (Status known = check_provider_name(name, at(line)); !known) return known;
  const toml::table* table = node.as_table();
  if (table == nullptr) {
    return fail(ErrorKind::invalid, fmt::format("{}: providers.{} is not a table", at(line), name),
                fmt::format("write [providers.{}], and its settings below", name));
  }
  const ProviderSheet* sheet = find_provider_sheet(name);
  auto& values = file.providers[name];
  for (const auto& [key, value] : *table) {
    const int here = line_of(key.source());
    const ProviderSetting* setting = sheet == nullptr ? nullptr : find_setting(*sheet, key.str());
    if (setting == nullptr) {
      return fail(ErrorKind::invalid,
                  fmt::format("{}: [providers.{}] has no setting {}", at(here), name, key.str()),
                  sheet == nullptr ? "it has none" : hint_of_settings(*sheet, key.str()));
    }
    auto text = value_of(setting->kind, value, folder, home);
    const std::string wanted =
        text ? unmet_requirement(*setting, *text) : wanted_words(setting->kind);
    if (!wanted.empty()) {
      const bool hidden = setting->kind == SettingKind::secret;
      return fail(ErrorKind::invalid,
                  fmt::format("{}: [providers.{}] {}{} is not valid", at(here), name, key.str(),
                              hidden ? "" : shown_value(value)),
                  fmt::format("expected {}", wanted));
    }
    values[std::string(key.str())] = {*std::move(text), here};
  }
  return {};
}

Status SettingsReader::read(const toml::table& root) {
  constexpr std::array<std::string_view, 2> kKnown = {"provider", "providers"};
  for (const auto& [key, value] : root) {
    const int line = line_of(key.source());
    if (key.str() == "provider") {
      const auto name = value.value_exact<std::string>();
      if (!name) {
        return fail(ErrorKind::invalid,
                    fmt::format("{}: provider{} is not valid", at(line), shown_value(value)),
                    fmt::format("expected the name of a provider: \"{}\"",
                                fmt::join(provider_names(), "\", \"")));
      }
      if (Status known = check_provider_name(*name, at(line)); !known) return known;
      file.provider = FileValue{*name, line};
    } else if (key.str() == "providers" && value.is_table()) {
      for (const auto& [name, settings] : *value.as_table()) {
        Status status = read_provider(std::string(name.str()), settings, line_of(name.source()));
        if (!status) return status;
      }
    } else {
      return fail(ErrorKind::invalid,
                  fmt::format("{}: there is no setting or table {}", at(line), key.str()),
                  fmt::format("{}the known ones are provider = \"…\" and tables [providers.NAME]",
                              did_you_mean(key.str(), kKnown)));
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> files_named_in(const SettingsFile& file) {
  std::vector<std::string> files;
  for (const auto& [provider, values] : file.providers) {
    const ProviderSheet* sheet = find_provider_sheet(provider);
    if (sheet == nullptr) continue;
    for (const auto& [name, value] : values) {
      const ProviderSetting* setting = find_setting(*sheet, name);
      const bool is_file = setting != nullptr && (setting->kind == SettingKind::path ||
                                                  setting->kind == SettingKind::host_keys);
      if (is_file && value.value.starts_with('/')) files.push_back(value.value);
    }
  }
  return files;
}

std::string absolute_path(const std::string& said, const std::string& folder,
                          const std::string& home) {
  const bool at_home = !home.empty() && (said == "~" || said.starts_with("~/"));
  const fs::path path = at_home ? fs::path(home + said.substr(1)) : fs::path(folder) / said;
  return path.lexically_normal().string();
}

Status check_provider_name(std::string_view name, const std::string& where) {
  const std::vector<std::string_view> names = provider_names();
  if (std::ranges::find(names, name) != names.end()) return {};
  return fail(
      ErrorKind::invalid, fmt::format("{}: there is no provider \"{}\"", where, name),
      fmt::format("{}the known ones are {}", did_you_mean(name, names), fmt::join(names, ", ")));
}

Result<SettingsFile> parse_settings_file(std::string_view text, const std::string& path,
                                         const std::string& home) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const int line = line_of(parsed.error().source());
    return fail(
        ErrorKind::invalid,
        fmt::format("{}:{}: not valid TOML: {}", path, line,
                    one_line(parsed.error().description())),
        lacks_quotes(text, line) ? "quote strings: region = \"eu-west-1\"" : "correct that line");
  }
  SettingsReader reader;
  reader.file.path = path;
  reader.folder = fs::path(path).parent_path().string();
  reader.home = home;
  if (Status status = reader.read(parsed.table()); !status) {
    return fail(status.error().kind, one_line(status.error().message),
                one_line(status.error().hint));
  }
  return std::move(reader.file);
}

}  // namespace skyward::provider

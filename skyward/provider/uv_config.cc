#include "skyward/provider/uv_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "skyward/io/file.h"

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace skyward::provider {

namespace {

void add_word(std::string& list, const std::string& word, std::string_view separator) {
  if (word.empty()) return;
  if (!list.empty()) list += separator;
  list += word;
}

// A text, or all texts of an array.
std::string words_at(const toml::table& table, std::string_view key, std::string_view separator) {
  std::string words;
  if (const auto text = table[key].value_exact<std::string>()) return *text;
  if (const toml::array* array = table[key].as_array()) {
    for (const toml::node& item : *array) {
      add_word(words, item.value_exact<std::string>().value_or(""), separator);
    }
  }
  return words;
}

void add(UvConfig& config, const std::string& name, const std::string& value) {
  const std::string_view separator = uv_separator(name);
  if (value.empty()) return;
  if (separator.empty()) {
    config.variables.try_emplace(name, value);
  } else {
    add_word(config.variables[name], value, separator);
  }
}

void add_indexes(UvConfig& found, const toml::array& indexes) {
  for (const toml::node& node : indexes) {
    const toml::table* index = node.as_table();
    if (index == nullptr) continue;
    const bool is_default = (*index)["default"].value_or(false);
    if (!is_default && (*index)["explicit"].value_or(false)) continue;
    const std::string url = words_at(*index, "url", " ");
    if (url.empty()) continue;
    const std::string name = words_at(*index, "name", " ");
    add(found, is_default ? "UV_DEFAULT_INDEX" : "UV_INDEX", name.empty() ? url : name + "=" + url);
  }
}

// Of those for the whole computer, uv reads one.
std::string system_file(std::string_view folders) {
  if (folders.empty()) folders = "/etc/xdg";
  while (!folders.empty()) {
    const std::size_t end = std::min(folders.find(':'), folders.size());
    std::string path = std::string(folders.substr(0, end)) + "/uv/uv.toml";
    std::error_code error;
    if (std::filesystem::is_regular_file(path, error)) return path;
    folders.remove_prefix(std::min(end + 1, folders.size()));
  }
  return "/etc/uv/uv.toml";
}

void add_table(UvConfig& found, const toml::table& table) {
  constexpr std::array<std::pair<const char*, std::string_view>, 5> kVariables = {
      {{"UV_DEFAULT_INDEX", "index-url"},
       {"UV_EXTRA_INDEX_URL", "extra-index-url"},
       {"UV_FIND_LINKS", "find-links"},
       {"UV_INDEX_STRATEGY", "index-strategy"},
       {"UV_INSECURE_HOST", "allow-insecure-host"}}};
  for (const auto& [name, key] : kVariables) {
    const std::string_view separator = uv_separator(name);
    add(found, name, words_at(table, key, separator.empty() ? " " : separator));
  }
  if (!found.no_index) found.no_index = table["no-index"].value<bool>();
}

}  // namespace

std::string_view uv_separator(std::string_view variable) {
  if (variable == "UV_FIND_LINKS") return ",";
  return variable == "UV_INDEX" || variable == "UV_EXTRA_INDEX_URL" ? " " : "";
}

Result<UvConfig> parse_uv_config(std::string_view text, const std::string& path) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return fail(ErrorKind::invalid,
                fmt::format("the settings of uv in {} cannot be read: line {} is not TOML", path,
                            parsed.error().source().begin.line),
                "nodes install from the indexes that it names; correct it, or set UV_NO_CONFIG=1");
  }
  UvConfig found;
  const toml::table& config = parsed.table();
  if (const toml::array* indexes = config["index"].as_array()) add_indexes(found, *indexes);
  const toml::table* pip = config["pip"].as_table();  // which wins in `uv pip`
  if (pip != nullptr) add_table(found, *pip);
  add_table(found, config);
  return found;
}

std::vector<std::string> uv_config_files(
    const std::function<std::optional<std::string>(const char*)>& variable) {
  const std::string off = variable("UV_NO_CONFIG").value_or("");
  if (!off.empty() && off != "0" && off != "false") return {};
  if (const auto file = variable("UV_CONFIG_FILE")) return {*file};
  std::vector<std::string> files;
  const std::string home = variable("HOME").value_or("");
  const std::string folder = variable("XDG_CONFIG_HOME").value_or(home + "/.config");
  if (folder.starts_with('/')) files.push_back(folder + "/uv/uv.toml");
  files.push_back(system_file(variable("XDG_CONFIG_DIRS").value_or("")));
  return files;
}

Result<UvConfig> read_uv_config(const std::vector<std::string>& files) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
  UvConfig all;
  for (const std::string& path : files) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) continue;
    const Result<std::string> text = io::read_file(path, kMaxBytes);
    if (!text) return fail(text);
    const Result<UvConfig> found = parse_uv_config(*text, path);
    if (!found) return fail(found);
    for (const auto& [name, value] : found->variables) add(all, name, value);
    if (!all.no_index) all.no_index = found->no_index;
  }
  return all;
}

}  // namespace skyward::provider

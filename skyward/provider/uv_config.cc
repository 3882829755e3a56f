#include "skyward/provider/uv_config.h"

#include <fmt/format.h>

#include <filesystem>

#include "skyward/io/file.h"

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace skyward::provider {

namespace {

void add_word(std::string& list, const std::string& word) {
  if (!word.empty()) list += (list.empty() ? "" : " ") + word;
}

// A text, or all texts of an array with blanks between them.
std::string words_at(const toml::table& table, std::string_view key) {
  std::string words;
  if (const auto text = table[key].value_exact<std::string>()) return *text;
  if (const toml::array* array = table[key].as_array()) {
    for (const toml::node& item : *array) {
      add_word(words, item.value_exact<std::string>().value_or(""));
    }
  }
  return words;
}

void add_indexes(UvVariables& found, const toml::array& indexes) {
  for (const toml::node& node : indexes) {
    const toml::table* index = node.as_table();
    if (index == nullptr || (*index)["explicit"].value_or(false)) continue;
    const std::string url = words_at(*index, "url");
    if (url.empty()) continue;
    const std::string name = words_at(*index, "name");
    const std::string word = name.empty() ? url : name + "=" + url;
    if ((*index)["default"].value_or(false)) {
      found.try_emplace("UV_DEFAULT_INDEX", word);
    } else {
      add_word(found["UV_INDEX"], word);
    }
  }
}

}  // namespace

Result<UvVariables> parse_uv_config(std::string_view text, const std::string& path) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return fail(ErrorKind::invalid,
                fmt::format("the settings of uv in {} cannot be read: line {} is not TOML", path,
                            parsed.error().source().begin.line),
                "nodes install from the indexes that it names; correct it, or set UV_NO_CONFIG=1");
  }
  UvVariables found;
  const toml::table& config = parsed.table();
  if (const toml::array* indexes = config["index"].as_array()) add_indexes(found, *indexes);
  const toml::table* pip = config["pip"].as_table();  // which wins in `uv pip`
  const auto take = [&](const char* name, std::string_view key) {
    std::string value = pip == nullptr ? "" : words_at(*pip, key);
    if (value.empty()) value = words_at(config, key);
    if (!value.empty()) found.try_emplace(name, value);
  };
  take("UV_DEFAULT_INDEX", "index-url");
  take("UV_EXTRA_INDEX_URL", "extra-index-url");
  take("UV_INDEX_STRATEGY", "index-strategy");
  take("UV_INSECURE_HOST", "allow-insecure-host");
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
  files.emplace_back("/etc/uv/uv.toml");
  return files;
}

Result<UvVariables> read_uv_config(const std::vector<std::string>& files) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
  UvVariables all;
  for (const std::string& path : files) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) continue;
    const Result<std::string> text = io::read_file(path, kMaxBytes);
    if (!text) return fail(text);
    Result<UvVariables> found = parse_uv_config(*text, path);
    if (!found) return fail(found);
    for (const auto& [name, value] : *found) {
      const bool is_list = name == "UV_INDEX" || name == "UV_EXTRA_INDEX_URL";
      if (is_list) {
        add_word(all[name], value);
      } else {
        all.try_emplace(name, value);
      }
    }
  }
  return all;
}

}  // namespace skyward::provider

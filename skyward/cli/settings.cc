#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "skyward/cli/commands.h"
#include "skyward/provider/table.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::cli {

int show_settings(const Streams& streams, bool origin) {
  const provider::World world = provider::world_of_this_process();
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](std::string name, std::string value, std::string from) {
    if (streams.json) {
      nlohmann::ordered_json line = {{"name", name}, {"value", value}};
      if (origin) line["origin"] = from;
      streams.out << line.dump() << '\n';
    }
    rows.push_back({std::move(name), std::move(value)});
    if (origin) rows.back().push_back(std::move(from));
  };
  const auto directory = [&](const char* name, const std::string& path, const char* variable) {
    add(name, path.empty() ? "(none)" : path,
        world.variable(variable) ? fmt::format("${}", variable) : "default");
  };
  directory("state", provider::state_directory(world), "XDG_STATE_HOME");
  directory("cache", provider::cache_directory(world), "XDG_CACHE_HOME");
  for (const char* variable : {"SKYWARD_AGENT", "SKYWARD_PROVIDER"}) {
    if (const auto value = world.variable(variable)) {
      add(variable, *value, fmt::format("${}", variable));
    }
  }
  for (const provider::TableRow& row : provider::provider_table()) {
    std::map<std::string, std::pair<std::string, std::string>> values;
    if (const ProviderSheet* sheet = find_provider_sheet(row.name)) {
      for (const ProviderSetting& setting : sheet->settings) {
        if (setting.standard.empty()) continue;
        values[std::string(setting.name)] = {std::string(setting.standard), "default"};
      }
    }
    if (row.settings != nullptr) {
      for (provider::SettingOrigin& one : row.settings(world)) {
        values[one.name] = {std::move(one.value), std::move(one.origin)};
      }
    }
    for (auto& [name, value] : values) {
      add(fmt::format("{}.{}", row.name, name), value.first, value.second);
    }
  }
  if (streams.json) return 0;
  std::vector<std::string> heads = {"SETTING", "VALUE"};
  if (origin) heads.emplace_back("ORIGIN");
  print_table(streams.out, heads, rows);
  return 0;
}

}  // namespace skyward::cli

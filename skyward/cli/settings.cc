#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <span>

#include "skyward/base/nearest.h"
#include "skyward/base/text.h"
#include "skyward/cli/commands.h"
#include "skyward/cli/print_json.h"
#include "skyward/io/machine.h"
#include "skyward/provider/secrets.h"
#include "skyward/provider/settings.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::cli {

namespace {

using provider::SettingOrigin;
using provider::World;

SettingOrigin directory(const World& world, const char* name, const std::string& path,
                        const char* variable) {
  return {name, path.empty() ? "(none)" : path,
          world.variable(variable) ? fmt::format("${}", variable) : "default"};
}

std::string words_for(provider::Trust trust) {
  switch (trust) {
    case provider::Trust::none:
      return "not given";
    case provider::Trust::given:
      return "given";
    case provider::Trust::outdated:
      return "trusted with different content";
  }
  return "";
}

// Where things lie, and what is not of one provider.
Result<std::vector<SettingOrigin>> general(const World& world,
                                           const provider::SettingsFiles& files) {
  std::vector<SettingOrigin> out = {
      directory(world, "state", provider::state_directory(world), "XDG_STATE_HOME"),
      directory(world, "cache", provider::cache_directory(world), "XDG_CACHE_HOME")};
  if (files.user) {
    out.push_back(
        directory(world, "file.user", files.user->path,
                  world.variable("SKYWARD_CONFIG") ? "SKYWARD_CONFIG" : "XDG_CONFIG_HOME"));
  }
  if (files.project) {
    out.push_back({"file.project", files.project->path, "default"});
    out.push_back(
        {"file.project.trust", words_for(files.project->trust), "'skyward config trust'"});
  }
  if (const auto agent = world.variable("SKYWARD_AGENT")) {
    out.push_back({"agent", *agent, "$SKYWARD_AGENT"});
  }
  auto taken = provider::default_provider(world, files);
  if (!taken) return fail(taken);
  out.push_back(*std::move(taken));
  return out;
}

// Where a cloud's own variables or files have this.
std::optional<std::string> origin_of(const World& world, const ProviderSpec& others,
                                     const provider::SecretSheet& key) {
  const auto found = provider::find_secret(world, others, key);
  if (!found) return std::nullopt;
  return found->origin;
}

// Of one provider: what its table knows, and what its cloud's own tools are set to.
Result<std::vector<SettingOrigin>> settings_of(const World& world,
                                               const provider::SettingsFiles& files,
                                               std::string_view name) {
  auto settings = provider::settings_of(world, files, name, {});
  if (!settings) return settings;
  const ProviderSheet* sheet = find_provider_sheet(name);
  const provider::TableRow* row = provider::find_row(name);
  const auto keys = row != nullptr && row->secrets != nullptr
                        ? row->secrets()
                        : std::span<const provider::SecretSheet>();
  ProviderSpec set{.name = std::string(name)};
  for (const SettingOrigin& one : *settings) set.settings[one.name] = one.value;
  for (const ProviderSetting& setting : sheet->settings) {
    const bool secret = setting.kind == SettingKind::secret;
    const auto found = std::ranges::find(*settings, setting.name, &SettingOrigin::name);
    if (found != settings->end()) {
      if (secret) found->value = "(set)";
      continue;
    }
    const auto key = std::ranges::find(keys, setting.name, &provider::SecretSheet::setting);
    if (const auto origin = key == keys.end() ? std::nullopt : origin_of(world, set, *key)) {
      settings->push_back({std::string(setting.name), "(set)", *origin});
    } else if (secret) {
      settings->push_back({std::string(setting.name), "(not set)", "default"});
    }
  }
  if (row != nullptr && row->settings != nullptr) {
    for (SettingOrigin& one : row->settings(world)) {
      if (find_setting(*sheet, one.name) == nullptr) settings->push_back(std::move(one));
    }
  }
  for (SettingOrigin& one : *settings) one.name = fmt::format("{}.{}", name, one.name);
  return settings;
}

Result<std::vector<SettingOrigin>> all_settings(const World& world) {
  const auto files = provider::read_settings(world);
  if (!files) return fail(files);
  auto out = general(world, *files);
  if (!out) return out;
  for (const ProviderSheet& sheet : provider_sheets()) {
    auto settings = settings_of(world, *files, sheet.name);
    if (!settings) return settings;
    std::ranges::sort(*settings, {}, &SettingOrigin::name);
    std::ranges::move(*settings, std::back_inserter(*out));
  }
  return out;
}

}  // namespace

void warn_of_variables(const Streams& streams) {
  for (const ProviderSheet& sheet : provider_sheets()) {
    const std::string beginning = upper(fmt::format("SKYWARD_{}_", sheet.name));
    std::vector<std::string> known;
    for (const ProviderSetting& setting : sheet.settings) {
      if (setting.kind != SettingKind::internal) {
        known.push_back(beginning + upper(setting.name));
      }
    }
    for (const std::string& name : io::environment_names(beginning)) {
      if (std::ranges::find(known, name) != known.end()) continue;
      streams.err << fmt::format(
          "skyward: warning: unknown variable {}\n  hint: {}'skyward config show' lists the "
          "settings of {}\n",
          name, did_you_mean(name, std::vector<std::string_view>(known.begin(), known.end())),
          sheet.name);
    }
  }
}

int show_settings(const Streams& streams, bool origin) {
  warn_of_variables(streams);
  const auto settings = all_settings(provider::world_of_this_process());
  if (!settings) return complain(streams, settings.error());
  if (!std::ranges::all_of(*settings, &SettingOrigin::trusted)) {
    streams.err << "skyward: warning: pools refuse the settings of a project's file that is not "
                   "trusted\n  hint: read it, then run 'skyward config trust' with its path\n";
  }
  std::vector<std::vector<std::string>> rows;
  for (const SettingOrigin& one : *settings) {
    if (streams.json) {
      nlohmann::ordered_json line = {{"name", one.name}, {"value", one.value}};
      if (origin) line["origin"] = one.origin;
      print_json(streams, line);
    }
    // Lists of lines stand on one.
    std::string value = one.value;
    std::ranges::replace(value, '\n', ' ');
    rows.push_back({one.name, std::move(value)});
    if (origin) rows.back().push_back(one.origin);
  }
  if (streams.json) return 0;
  std::vector<std::string> heads = {"SETTING", "VALUE"};
  if (origin) heads.emplace_back("ORIGIN");
  print_table(streams.out, heads, rows);
  return 0;
}

}  // namespace skyward::cli

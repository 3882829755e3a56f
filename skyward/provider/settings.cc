#include "skyward/provider/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>

#include "skyward/base/text.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::provider {

namespace {

namespace fs = std::filesystem;

constexpr const char* kProviderVariable = "SKYWARD_PROVIDER";
constexpr const char* kFileVariable = "SKYWARD_CONFIG";

Result<std::optional<SettingsFile>> parse_user_file(const World& world, std::string_view text,
                                                    const std::string& path) {
  auto file = parse_settings_file(text, path, home_directory(world));
  if (!file) return fail(file);
  return *std::move(file);
}

// The file in $SKYWARD_CONFIG; empty if it names none.
std::string named_file(const World& world) {
  const auto named = world.variable(kFileVariable);
  return named ? absolute_path(*named, world.directory(), home_directory(world)) : "";
}

// The user's own file may be a link: people keep such files in a repository.
Result<std::optional<SettingsFile>> read_if_there(const World& world, const std::string& path) {
  auto text = world.read_safely(path, true);
  const bool none = !text && (text.error().kind == ErrorKind::invalid ||
                              text.error().kind == ErrorKind::unavailable);
  if (none) return std::nullopt;  // or HOME is another user's, as in containers
  if (!text && text.error().hint.empty()) {
    text.error().hint =
        "make it readable, or set HOME, XDG_CONFIG_HOME or SKYWARD_CONFIG to a place of your own";
  }
  if (!text) return std::unexpected(with_way_out(world, path, text.error()));
  return parse_user_file(world, *text, path);
}

Result<std::optional<SettingsFile>> read_user_file(const World& world) {
  if (const std::string named = named_file(world); !named.empty()) {
    const auto text = world.read_named(named);
    if (text) return parse_user_file(world, *text, named);
    if (text.error().kind != ErrorKind::invalid) return fail(text);
    return fail(ErrorKind::invalid,
                fmt::format("{}={}: there is no such file", kFileVariable, named),
                "give the path of a file, or unset the variable");
  }
  const auto base = world.variable("XDG_CONFIG_HOME");
  const std::string home = home_directory(world);
  if (base && base->starts_with('/')) return read_if_there(world, *base + "/skyward/config.toml");
  if (!home.starts_with('/')) return std::nullopt;
  return read_if_there(world, home + "/.config/skyward/config.toml");
}

Result<std::optional<SettingsFile>> read_project_file(const World& world) {
  auto found = find_project_file(world);
  if (!found) return fail(found);
  if (!*found) return std::nullopt;
  auto file = parse_settings_file((*found)->text, (*found)->path, home_directory(world));
  if (!file) return fail(file);
  file->trust = trust_in(world, (*found)->path, (*found)->text, files_named_in(*file));
  return *std::move(file);
}

std::string variable_of(std::string_view provider, std::string_view setting) {
  return upper(fmt::format("SKYWARD_{}_{}", provider, setting));
}

// What our own variable says of a setting.
Result<std::optional<SettingOrigin>> from_variable(const World& world, std::string_view provider,
                                                   const ProviderSetting& setting) {
  const std::string name = variable_of(provider, setting.name);
  auto value = world.variable(name.c_str());
  if (!value || setting.kind == SettingKind::internal) return std::nullopt;
  if (const std::string wanted = unmet_requirement(setting, *value); !wanted.empty()) {
    const bool hidden = setting.kind == SettingKind::secret;
    return fail(ErrorKind::invalid, fmt::format("{}={} is not valid", name, hidden ? "…" : *value),
                fmt::format("expected {}", wanted));
  }
  const bool is_path = setting.kind == SettingKind::path ||
                       (setting.kind == SettingKind::host_keys && !value->contains(' '));
  if (is_path) value = absolute_path(*value, world.directory(), home_directory(world));
  return SettingOrigin{std::string(setting.name), *std::move(value), "$" + name};
}

std::optional<SettingOrigin> from_file(const std::optional<SettingsFile>& file,
                                       std::string_view provider, const ProviderSetting& setting) {
  if (!file) return std::nullopt;
  const auto table = file->providers.find(provider);
  if (table == file->providers.end()) return std::nullopt;
  const auto found = table->second.find(std::string(setting.name));
  if (found == table->second.end()) return std::nullopt;
  SettingOrigin origin{std::string(setting.name), found->second.value,
                       fmt::format("{}:{}", file->path, found->second.line)};
  origin.trusted = file->trust == Trust::given || setting.from_project == FromProject::anybody;
  if (!origin.trusted) origin.origin += " (not trusted)";
  return origin;
}

// However it failed: the request can never work.
std::unexpected<Error> unreadable(Error error) {
  error.kind = ErrorKind::invalid;
  return std::unexpected(std::move(error));
}

// What to do about a value that is not valid, or that may not be used.
enum class Unfit : std::uint8_t { refused, skipped };

// Where the settings of one provider come from, but for the program itself.
class Sources {
 public:
  Sources(const World& world, const SettingsFiles& files, std::string_view provider,
          const std::map<std::string, std::string>& said = {})
      : world_(world), files_(files), provider_(provider), sheet_(find_provider_sheet(provider)) {
    const TableRow* row = find_row(provider);
    if (row != nullptr && row->settings != nullptr) of_the_clouds_tools_ = row->settings(world);
    if (row == nullptr || row->secrets == nullptr) return;
    keys_ = row->secrets();
    keys_are_said_ = std::ranges::any_of(keys_, [&](const SecretSheet& key) {
      return said.contains(std::string(key.setting)) ||
             world.variable(variable_of(provider, key.setting).c_str()) ||
             is_in_variables(world, key.variables);
    });
  }

  std::span<const ProviderSetting> settings() const {
    return sheet_ == nullptr ? std::span<const ProviderSetting>() : sheet_->settings;
  }
  // Fails only where unfit values are refused; one that is not trusted is returned and marked then.
  Result<std::optional<SettingOrigin>> value_of(const ProviderSetting& setting, Unfit unfit) const {
    auto value = from_variable(world_, provider_, setting);
    if (!value && unfit == Unfit::refused) return fail(value);
    if (value && *value) return value;
    if (auto found = of_the_clouds_tools(setting.name, true)) return found;
    if (keys_are_said_ && is_key(setting.name)) return std::nullopt;
    for (const auto* file : {&files_.project, &files_.user}) {
      auto found = from_file(*file, provider_, setting);
      if (found && (found->trusted || unfit == Unfit::refused)) return found;
    }
    if (auto found = of_the_clouds_tools(setting.name, false)) return found;
    if (setting.standard.empty()) return std::nullopt;
    return SettingOrigin{std::string(setting.name), std::string(setting.standard), "default"};
  }

 private:
  bool is_key(std::string_view name) const {
    return std::ranges::find(keys_, name, &SecretSheet::setting) != keys_.end();
  }
  std::optional<SettingOrigin> of_the_clouds_tools(std::string_view name, bool variable) const {
    const auto found = std::ranges::find_if(of_the_clouds_tools_, [&](const SettingOrigin& one) {
      return one.name == name && one.origin.starts_with('$') == variable;
    });
    return found == of_the_clouds_tools_.end() ? std::nullopt : std::optional(*found);
  }

  const World& world_;
  const SettingsFiles& files_;
  const std::string_view provider_;
  const ProviderSheet* const sheet_;
  std::vector<SettingOrigin> of_the_clouds_tools_{};
  std::span<const SecretSheet> keys_{};
  // By the program or by a variable, the cloud's own among them, which find_secret() reads: then no
  // file's key is used, nor one half of a pair of them.
  bool keys_are_said_ = false;
};

}  // namespace

Error with_way_out(const World& world, const std::string& path, Error error) {
  if (error.kind == ErrorKind::denied && world.read_named(path)) {
    error.hint += fmt::format("{}read it, then set {}={} to use it as your own",
                              error.hint.empty() ? "" : "; or ", kFileVariable, path);
  }
  return error;
}

Result<std::optional<FoundFile>> find_project_file(const World& world) {
  const std::string home = home_directory(world);
  const std::string named = named_file(world);
  for (fs::path folder = world.directory(); folder.is_absolute(); folder = folder.parent_path()) {
    const std::string path = (folder / "skyward.toml").string();
    if (path == named) return std::nullopt;
    auto text = world.read_safely(path, false);
    if (text) return FoundFile{path, *std::move(text)};
    // In a folder that may not be searched, nobody can tell what is there.
    const bool none =
        text.error().kind == ErrorKind::invalid || text.error().kind == ErrorKind::unavailable;
    if (!none) return std::unexpected(with_way_out(world, path, text.error()));
    const bool last =
        folder == home || folder == folder.root_path() || world.exists((folder / ".git").string());
    if (last) break;
  }
  return std::nullopt;
}

Result<SettingsFiles> read_settings(const World& world) {
  auto user = read_user_file(world);
  if (!user) return unreadable(user.error());
  auto project = read_project_file(world);
  if (!project) return unreadable(project.error());
  return SettingsFiles{*std::move(user), *std::move(project)};
}

Result<SettingOrigin> default_provider(const World& world, const SettingsFiles& files) {
  if (auto name = world.variable(kProviderVariable)) {
    if (Status known = check_provider_name(*name, kProviderVariable); !known) return fail(known);
    return SettingOrigin{"provider", *std::move(name), fmt::format("${}", kProviderVariable)};
  }
  for (const auto* file : {&files.project, &files.user}) {
    if (!*file || !(*file)->provider) continue;
    const FileValue& value = *(*file)->provider;
    return SettingOrigin{"provider", value.value, fmt::format("{}:{}", (*file)->path, value.line)};
  }
  return SettingOrigin{"provider", "local", "default"};
}

Result<std::vector<SettingOrigin>> settings_of(const World& world, const SettingsFiles& files,
                                               std::string_view provider,
                                               const std::map<std::string, std::string>& said) {
  std::vector<SettingOrigin> out;
  for (const auto& [name, value] : said) out.push_back({name, value, "code"});
  const Sources sources(world, files, provider, said);
  for (const ProviderSetting& setting : sources.settings()) {
    if (said.contains(std::string(setting.name))) continue;
    auto value = sources.value_of(setting, Unfit::refused);
    if (!value) return fail(value);
    if (*value) out.push_back(*std::move(*value));
  }
  std::ranges::sort(out, {}, &SettingOrigin::name);
  return out;
}

Status refuse_untrusted(const SettingsFiles& files, std::string_view provider,
                        const std::vector<SettingOrigin>& settings) {
  std::vector<std::string> names;
  for (const SettingOrigin& one : settings) {
    if (!one.trusted) names.push_back(one.name);
  }
  if (names.empty() || !files.project) return {};
  const SettingsFile& file = *files.project;
  return fail(
      ErrorKind::invalid,
      fmt::format(
          "{} sets {} in [providers.{}], but {}", file.path, fmt::join(names, ", "), provider,
          file.trust == Trust::outdated ? "it, or a file that it names, has changed since you "
                                          "trusted it"
                                        : "you have not trusted this file"),
      fmt::format("such settings decide what runs on this computer, or which machines and accounts "
                  "get your programs: read the file, then run 'skyward config trust {}'",
                  file.path));
}

Result<ProviderSpec> with_settings(const World& world, const ProviderSpec& said) {
  const auto files = read_settings(world);
  if (!files) return fail(files);
  auto settings = settings_of(world, *files, said.name, said.settings);
  if (!settings) return fail(settings);
  if (Status trusted = refuse_untrusted(*files, said.name, *settings); !trusted) {
    return fail(trusted);
  }
  ProviderSpec out{.name = said.name};
  for (SettingOrigin& one : *settings) out.settings[one.name] = std::move(one.value);
  return out;
}

ProviderSpec with_readable_settings(const World& world, std::string_view provider) {
  const auto user = read_user_file(world);
  const auto project = read_project_file(world);
  const SettingsFiles files{.user = user.value_or(std::nullopt),
                            .project = project.value_or(std::nullopt)};
  ProviderSpec out{.name = std::string(provider)};
  const Sources sources(world, files, provider);
  for (const ProviderSetting& setting : sources.settings()) {
    const auto value = sources.value_of(setting, Unfit::skipped);
    if (value && *value) out.settings[(*value)->name] = (*value)->value;
  }
  return out;
}

Result<std::string> provider_to_take(const World& world, const std::string& named) {
  if (named.empty()) {
    const auto files = read_settings(world);
    if (!files) return fail(files);
    auto found = default_provider(world, *files);
    if (!found) return fail(found);
    return std::move(found->value);
  }
  return provider_rents(named) && world.variable(kProviderVariable) == "local" ? "local" : named;
}

}  // namespace skyward::provider

#pragma once

// Settings, and where their values come from. Each source overrides those before it: the default,
// the files of the cloud's own tools, the user's file, the project's file, the environment, the
// program.
//
//   user's file      $SKYWARD_CONFIG, else $XDG_CONFIG_HOME/skyward/config.toml (~/.config)
//   project's file   the nearest skyward.toml from the working directory upward, to the root of the
//                    repository or to the home directory
//   environment      SKYWARD_AWS_REGION for the region of aws, and the cloud's own (AWS_REGION)

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/provider/provider.h"
#include "skyward/provider/settings_file.h"
#include "skyward/provider/table.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

// The two files as they are now; either may be missing.
struct SettingsFiles {
  std::optional<SettingsFile> user{};
  std::optional<SettingsFile> project{};
};

// Fails with `invalid` for an error in a file, and for a file that may not be read, or that
// somebody else may have written: it could direct programs to their machines.
Result<SettingsFiles> read_settings(const World& world);
// The project's file alone, as its text and where it was found; none if $SKYWARD_CONFIG names that
// file: it is the user's then.
struct FoundFile {
  std::string path{};
  std::string text{};
};
Result<std::optional<FoundFile>> find_project_file(const World& world);

// The error of a file that was refused, with the hint to name it in $SKYWARD_CONFIG where that
// helps.
Error with_way_out(const World& world, const std::string& path, Error error);

// The provider of pools that name none: $SKYWARD_PROVIDER, else a file's, else "local".
Result<SettingOrigin> default_provider(const World& world, const SettingsFiles& files);

// All settings of a provider that have a value, by name, including those that the program `said`
// (origin "code"). Values from files and variables are checked. Values from a project's file that
// is not trusted are included and marked.
Result<std::vector<SettingOrigin>> settings_of(const World& world, const SettingsFiles& files,
                                               std::string_view provider,
                                               const std::map<std::string, std::string>& said);

// Fails with `invalid` when one of these comes from a project's file that must be trusted for it.
Status refuse_untrusted(const SettingsFiles& files, std::string_view provider,
                        const std::vector<SettingOrigin>& settings);

// The spec with all settings filled in; reads the files and refuses what is not trusted.
Result<ProviderSpec> with_settings(const World& world, const ProviderSpec& said);
// The same, but without files that cannot be read, values that are not valid, and values that are
// not trusted: a typo must not keep machines running.
ProviderSpec with_readable_settings(const World& world, std::string_view provider);

// The name of the provider that a program gets if it names this one, or none (""). With
// $SKYWARD_PROVIDER=local, this machine replaces every cloud. Reads the files.
Result<std::string> provider_to_take(const World& world, const std::string& named);

}  // namespace skyward::provider

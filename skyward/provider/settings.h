#pragma once

// What holds where a program says nothing, and where that comes from. Of each setting counts, from
// the last to the first: its default, what the cloud's own tools have in their files, the user's
// file, the project's file, the environment, the program.
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

// The two files as they are now; none of them must exist.
struct SettingsFiles {
  std::optional<SettingsFile> user{};
  std::optional<SettingsFile> project{};
};

// Fails with `invalid` for what is wrong in a file, `denied` for a file that may not be read or
// that somebody else may have written: it could send programs to machines of theirs.
Result<SettingsFiles> read_settings(const World& world);
// The project's file alone, as its text and where it was found.
struct FoundFile {
  std::string path{};
  std::string text{};
};
Result<std::optional<FoundFile>> find_project_file(const World& world);

// The provider of pools that name none: $SKYWARD_PROVIDER, else a file's, else "local".
Result<SettingOrigin> default_provider(const World& world, const SettingsFiles& files);

// All settings of a provider that have a value, by name, `said` by the program ("code") among them.
// Values of files and variables fit. What a project's file says without being trusted is among
// them, marked.
Result<std::vector<SettingOrigin>> settings_of(const World& world, const SettingsFiles& files,
                                               std::string_view provider,
                                               const std::map<std::string, std::string>& said);

// Fails with `invalid` when one of these comes from a project's file that must be trusted for it.
Status refuse_untrusted(const SettingsFiles& files, std::string_view provider,
                        const std::vector<SettingOrigin>& settings);

// With these settings; reads the files and refuses what is not trusted.
Result<ProviderSpec> with_settings(const World& world, const ProviderSpec& said);

// The name of the provider that a program gets if it names this one, or none (""). With
// $SKYWARD_PROVIDER=local, this machine replaces every cloud. Reads the files.
Result<std::string> provider_to_take(const World& world, const std::string& named);

}  // namespace skyward::provider

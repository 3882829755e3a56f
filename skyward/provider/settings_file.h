#pragma once

// A settings file, skyward.toml or the user's config.toml: text in, values out. Unknown names,
// invalid values and malformed TOML are refused with their line.
//
//   provider = "aws"            # of pools that name none
//   [providers.aws]
//   region = "eu-west-1"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/provider/trust.h"

namespace skyward::provider {

struct FileValue {
  std::string value{};  // as in ProviderSpec::settings
  int line = 0;         // 1 is the first
};

struct SettingsFile {
  std::string path{};
  Trust trust = Trust::given;  // of the project's file, which may come from a stranger
  std::optional<FileValue> provider{};
  std::map<std::string, std::map<std::string, FileValue>, std::less<>> providers{};  // by name
};

// Paths in the text are relative to the file's folder; "~/" is `home`. Fails with `invalid`.
Result<SettingsFile> parse_settings_file(std::string_view text, const std::string& path,
                                         const std::string& home);

// The files that its settings name, in a fixed order.
std::vector<std::string> files_named_in(const SettingsFile& file);

// Makes a path from a file or a variable absolute: "~/" is `home`, a relative path is below
// `folder`.
std::string absolute_path(const std::string& said, const std::string& folder,
                          const std::string& home);

// Refuses an unknown provider: "WHERE: there is no provider …".
Status check_provider_name(std::string_view name, const std::string& where);

}  // namespace skyward::provider

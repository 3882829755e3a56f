#pragma once

// Where a cloud's key comes from: the program's setting, else the cloud's own variables, else the
// file of the cloud's own tool. (Settings from Skyward's files are not used where one of these
// variables is set: settings.cc.) The origin is shown to people; the value never is.

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "skyward/base/error.h"
#include "skyward/provider/world.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider {

enum class SecretFormat : std::uint8_t { plain, ini, json, toml, yaml };

// Which of several accounts a tool uses: one has a name, in a variable or in a file.
struct SecretProfile {
  std::string_view variable{};  // "DIGITALOCEAN_CONTEXT"
  std::string_view path{};      // as in SecretFile
  SecretFormat format = SecretFormat::plain;
  std::string_view key{};
  // Where the secret of one that is not called "default" is, in the SecretFile: "{}" is its name.
  std::string_view secret{};
  const char* home = nullptr;  // as in SecretFile
};

// A file that another tool keeps.
struct SecretFile {
  // Below the home directory: ".runpod/config.toml". ".config/" is $XDG_CONFIG_HOME where that is
  // set.
  std::string_view path;
  SecretFormat format = SecretFormat::plain;
  std::string_view key{};  // "section/name"; "name" outside every section; empty: the whole text
  SecretProfile profile{};
  const char* variable = nullptr;  // names another file
  const char* home = nullptr;      // ... another directory than the first of the path
};

struct SecretSheet {
  std::string_view cloud;    // as people call it
  std::string_view setting;  // "token"
  std::span<const char* const> variables;
  std::span<const SecretFile> files;
  std::string_view advice;  // how a user gets one
  // The setting and the variables of the other half of a pair, such as an id and its secret. Where
  // that is given in one of these, this one is not read from `files`: it may be of another account.
  std::string_view other_half{};
  std::span<const char* const> other_variables{};
};

struct Secret {
  std::string value{};
  std::string origin{};  // "the setting token", "$VERDA_CLIENT_ID", "~/.runpod/config.toml"
  bool in_file = false;  // another tool's
};

// Whether one of them is set.
bool is_in_variables(const World& world, std::span<const char* const> variables);

// Fails with `denied` if there is none (naming all places), if the value cannot be a key, or if
// others may have written its file.
Result<Secret> find_secret(const World& world, const ProviderSpec& spec, const SecretSheet& sheet);

// The value of a key in a file of that format; empty if it is missing or the file is malformed.
std::optional<std::string> read_secret(std::string_view text, SecretFormat format,
                                       std::string_view key);

}  // namespace skyward::provider

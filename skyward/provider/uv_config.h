#pragma once

// What a user's uv.toml says about package indexes, as the variables that say the same to uv: a
// node has no such file.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"

namespace skyward::provider {

struct UvConfig {
  std::map<std::string, std::string> variables;  // UV_DEFAULT_INDEX, UV_INDEX, …
  std::optional<bool> no_index;                  // uv has no variable for it
};

// Fails with `invalid` for what is not TOML; `path` is for the error. Indexes marked `explicit`
// are left out, as they serve only what a project's own file assigns to them; but for the default,
// which keeps a node off the public index.
Result<UvConfig> parse_uv_config(std::string_view text, const std::string& path);

// The files that uv reads here, the strongest first; some may not exist. The user's and the first
// of this computer's only: a project's file may come from a stranger, and it would decide which
// packages run on the nodes.
std::vector<std::string> uv_config_files(
    const std::function<std::optional<std::string>(const char*)>& variable);

// What stands between the items of a variable that is a list, whose values in several places uv
// joins. Empty for others: the first place that has a value wins.
std::string_view uv_separator(std::string_view variable);

// What these files say together.
Result<UvConfig> read_uv_config(const std::vector<std::string>& files);

}  // namespace skyward::provider

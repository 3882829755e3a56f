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

using UvVariables = std::map<std::string, std::string>;  // UV_DEFAULT_INDEX, UV_INDEX, …

// Fails with `invalid` for what is not TOML; `path` is for the error. Indexes marked `explicit`
// are left out: they serve only what a project's own file assigns to them.
Result<UvVariables> parse_uv_config(std::string_view text, const std::string& path);

// The files that uv reads here, the strongest first; some may not exist. The user's and this
// computer's only: a project's file may come from a stranger, and it would decide which packages
// run on the nodes.
std::vector<std::string> uv_config_files(
    const std::function<std::optional<std::string>(const char*)>& variable);

// What these files say together.
Result<UvVariables> read_uv_config(const std::vector<std::string>& files);

}  // namespace skyward::provider

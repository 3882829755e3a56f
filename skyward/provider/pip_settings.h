#pragma once

// uv and its settings, and pip's, for installing an image's packages: those of this computer, and
// the pool's own.

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider {

// The settings that pip itself reports; empty without pip. `python`: absolute path of an
// interpreter. Runs pip for at most ten seconds. Fails with `unsupported` where this program loses
// the exit codes of its children.
Result<std::map<std::string, std::string>> pip_config(const std::string& python);

// The path of uv for machines of another architecture, fetched from where this computer's packages
// come from; empty where there is none to have. `python` as above, with the package skyward. Fails
// as above.
Result<std::string> fetch_uv(const std::string& python, const std::string& architecture);

// Whether a proxy listens on this computer alone: "http://localhost:3128", "127.0.0.1:3128".
bool is_own_proxy(std::string_view address);

// Those of the pool's own variables whose names are wanted; ComputePool(env=) before Image(env=).
std::map<std::string, std::string> variables_of(const PoolSpec& spec,
                                                bool (*is_wanted)(std::string_view name));
// The ones that uv and pip read: UV_…, PIP_….
std::map<std::string, std::string> steering_variables(const PoolSpec& spec);

// What bootstraps have in their environment so that the image's packages are built with the image's
// variables (spec/pip_index.h), except those that `environment` sets.
void add_image_variables(std::vector<std::pair<std::string, std::string>>& environment,
                         const Image& image);

}  // namespace skyward::provider

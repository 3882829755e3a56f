#pragma once

// Which project files the user trusts. A project file is found from the working directory upward,
// so it may be anybody's: it came with a repository, or lies in a folder above. The table of
// settings says which of them need no trust (spec/provider_settings.h).
//
// A trusted file is remembered by its absolute path and the hash of its content, in
// $STATE/trusted/, one file for each: an edited file must be trusted again. So must one that names
// another file, such as an ssh_config, when that has changed: wherever it is but in ~/.ssh, since a
// path may lead back to the project in many ways.

#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

enum class Trust { none, given, outdated };  // outdated: the content has changed since

// `text`: the content that was read from `path`. `named`: from files_named_in().
Trust trust_in(const World& world, const std::string& path, std::string_view text,
               const std::vector<std::string>& named);
Status trust_file(const World& world, const std::string& path, std::string_view text,
                  const std::vector<std::string>& named);

// Where trusted files are recorded; empty if there is no home directory.
std::string trust_directory(const World& world);
std::string trust_record(const World& world, const std::string& path);
// The path in a record; empty if it is damaged.
std::string path_in_trust_record(std::string_view record);

}  // namespace skyward::provider

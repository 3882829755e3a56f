#pragma once

// Small files, read and written whole: configuration, caches, tokens.

#include <cstddef>
#include <string>
#include <string_view>

#include "skyward/base/error.h"

namespace skyward::io {

// Fails with `invalid` when there is no such file, `denied` when it may not be read, `exhausted`
// when it is larger than `max_bytes`.
Result<std::string> read_file(const std::string& path,
                              std::size_t max_bytes = std::size_t{64} << 20);

// Replaces the file by `text`, at once or not at all, readable for this user alone. Directories
// above it are made when missing, private too.
Status write_private_file(const std::string& path, std::string_view text);

// Where relative paths begin; empty when that directory is gone.
std::string working_directory();

// Whether the file belongs to the user that this process acts as, or to root. False when there is
// none.
bool is_own_file(const std::string& path);

}  // namespace skyward::io

#pragma once

// Small files, read and written whole: configuration, caches, tokens.

#include <cstddef>
#include <cstdint>
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

// A file whose text decides what this process does. Opening it never blocks. Fails with `invalid`
// when there is none, `unavailable` when its folder may not be searched, and `denied` when somebody
// else may have written it: it is not a regular file, belongs to neither this user nor root, or
// others may write to it. `follow_link`: a symbolic link counts as the file that it leads to; else
// it is refused.
Result<std::string> read_safely(const std::string& path, bool follow_link,
                                std::size_t max_bytes = std::size_t{1} << 20);

// Makes the file's last change now; makes the file when it is missing. Follows no link at its end.
Status touch(const std::string& path);

// Whether the file system at this path is of another machine, or may be: NFS, SMB, FUSE and the
// like, which keep no memory that processes of several machines share.
bool is_on_network(const std::string& path);
// The same by the number that statfs() has for it.
bool is_network_file_system(std::uint64_t type);

// Whether anything has this path, a dangling link too. Opens nothing.
bool exists(const std::string& path);

// Where relative paths begin; empty when that directory is gone.
std::string working_directory();

// The absolute path of a file without links, "." and ".." in its folder's part. Fails with
// `invalid` when there is no such folder.
Result<std::string> resolved_path(const std::string& path);

}  // namespace skyward::io

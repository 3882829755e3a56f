#pragma once

// Small files, read and written whole: configuration, caches, tokens.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "skyward/base/error.h"
#include "skyward/io/file_descriptor.h"

namespace skyward::io {

// Fails with `invalid` when there is no such file, `denied` when it may not be read, `exhausted`
// when it is larger than `max_bytes`.
Result<std::string> read_file(const std::string& path,
                              std::size_t max_bytes = std::size_t{64} << 20);

// An open file, which stays readable when its name is removed. Fails as read_file() does.
Result<FileDescriptor> open_file(const std::string& path);
// All of a regular file that is open; any thread. `path`: its name in errors.
Result<std::string> read_file(const FileDescriptor& file, const std::string& path,
                              std::size_t max_bytes = std::size_t{64} << 20);

// Replaces the file by `text` atomically, readable for this user alone. Creates missing directories
// above it, private too.
Status write_private_file(const std::string& path, std::string_view text);

// Reads a file that must be trusted, since its text decides what this process does. Opening it
// never blocks. Fails with `invalid` when there is none, `unavailable` when its folder may not be
// searched, and `denied` when somebody else may have written it: it is not a regular file, belongs
// to neither this user nor root, or others may write to it. `follow_link`: follow a symbolic link;
// otherwise it is refused.
Result<std::string> read_safely(const std::string& path, bool follow_link,
                                std::size_t max_bytes = std::size_t{1} << 20);
// The same for a file that the user named: links are followed, and it may belong to any user, as
// long as nobody but that one, this user and root can write to it or to the folders above it.
Result<std::string> read_named(const std::string& path,
                               std::size_t max_bytes = std::size_t{1} << 20);

// Sets the file's modification time to now; creates the file if missing. Does not follow a symbolic
// link.
Status touch(const std::string& path);

// Whether anything is at this path, even a dangling link. Opens nothing.
bool exists(const std::string& path);

// The inode number of the file at this path: a copy has another one. 0: there is none.
std::uint64_t file_number(const std::string& path);

// Where relative paths begin; empty when that directory is gone.
std::string working_directory();

// The absolute path of a file, with links, "." and ".." in its folder resolved. Fails with
// `invalid` when there is no such folder.
Result<std::string> resolved_path(const std::string& path);

}  // namespace skyward::io

#pragma once

// Directories that belong to this user alone, and their removal. Other users share /tmp: nothing
// here trusts what it finds there, and nothing follows a symbolic link out of the tree that it
// removes.

#include <string>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/io/file_descriptor.h"

namespace skyward::io {

// Creates `path`, whose parent exists, with mode 0700. Fails with `invalid` when anything is there
// already.
Status make_private_directory(const std::string& path);

// The same, or accepts an existing directory of this user that others cannot write to (and sets its
// mode to 0700), or this user's link to one. Fails with `denied` otherwise.
Status ensure_private_directory(const std::string& path);

// The same for a whole path: creates missing directories with mode 0700; existing ones above them
// may belong to anybody. Fails with `denied`.
Status ensure_private_path(const std::string& path);

// True for a directory itself, not for a link to one.
bool is_directory(const std::string& path);
// The same, and it is this user's.
bool is_own_directory(const std::string& path);

// True if the directory exists and no entry was added to it or removed for this long.
bool is_untouched_directory(const std::string& path, Duration duration);

// True for a directory, or a link to one, in which this process may create files.
bool is_writable_directory(const std::string& path);

// The first of these directories that is a disk's, and not memory (tmpfs), and in which this
// process may create files. Without one, the first that is memory; the first of all if none is
// writable.
std::string first_on_disk(const std::vector<std::string>& directories);

// Whether no other computer sees this directory: its file system is one for disks or memory of this
// computer. False for one over a network, for one that is not known, and if there is none.
bool is_on_local_disk(const std::string& path);

// A shared lock on the directory, as long as the descriptor is open: systemd-tmpfiles, which
// removes old files below /tmp and /var/tmp, passes locked directories by. Empty when it cannot be
// locked.
FileDescriptor lock_directory(const std::string& path);

// The names in a directory, sorted; none when it cannot be read.
std::vector<std::string> list_directory(const std::string& path);

// Removes `path` and everything in it, even if it is read-only. Links are removed, not followed. A
// missing path is no error. Fails where another file system is mounted in there: what that holds is
// somebody's data, and stays; and removes nothing where the kernel's list, `mounts`, cannot be
// read. Where there is no list (no /proc), looks for mounts itself.
Status remove_tree(const std::string& path, const std::string& mounts = "/proc/self/mountinfo");

}  // namespace skyward::io

#pragma once

// Daemons: programs that outlive the process that started them, without its terminal, session and
// streams, and the locks by which others find them.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/io/file_descriptor.h"

namespace skyward::io {

// Splits this process in two. True in the daemon: a session of its own, `directory` as working
// directory, standard input empty, both outputs appended to the file `log` there, no other
// descriptors but those of `keep`. False in the caller, which goes on as it was. From a process of
// one thread.
Result<bool> split_daemon(const std::string& directory, const std::vector<int>& keep);

// Locks the file at the path, made if missing; waits up to `patience` for another holder. Empty
// when that is not enough, or when the file cannot be opened.
std::optional<FileDescriptor> lock_file(const std::string& path, Duration patience);
// Writes this process's number into a file that it has locked, and in which namespace it has that.
void note_holder(int lock);
// The process number that the holder of this open file's lock wrote; 0 if it wrote none, if it has
// that number in another container, or if the file system does not say whether there is a holder.
// Empty when nobody holds it.
std::optional<pid_t> noted_holder(int file);
// The same for a path, if there is a number. Empty when nobody holds the lock, or when the file
// belongs to another user, who may have written anything.
std::optional<pid_t> holder_of(const std::string& path);

}  // namespace skyward::io

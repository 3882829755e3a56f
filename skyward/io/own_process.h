#pragma once

// What a program of ours does to its own process when it starts.

#include <cstdint>
#include <string>

#include "skyward/base/error.h"
#include "skyward/io/file_descriptor.h"

namespace skyward::io {

// The standard streams of a program that speaks frames on them, moved to other numbers and
// non-blocking. Nothing that anybody prints can get among the frames: standard input is empty
// afterwards, and standard output goes where errors go.
struct StandardStreams {
  FileDescriptor read;
  FileDescriptor write;  // empty: standard input is a socket, for both ways
};
Result<StandardStreams> take_standard_streams();

// Writing to a pipe without a reader is an error from now on, not the end of this process. Not for
// processes of which other people's code is a part.
void ignore_broken_pipes();

// No process started from here on leaves a core file.
void forbid_core_files();

// Allows this process as many open files as the system lets it. Those that it starts get what it
// was started with: more descriptors than select() can hold surprise programs.
void allow_many_files();

std::string host_name();
// Of the system that runs now, the same in all its containers; another after each start. Empty when
// it is not told.
std::string boot_id();
std::uint64_t process_id();

}  // namespace skyward::io

#pragma once

// What our programs set up in their own process when they start.

#include <cstdint>
#include <string>

#include "skyward/base/error.h"
#include "skyward/io/file_descriptor.h"

namespace skyward::io {

// The standard streams of a program that speaks frames on them, moved to other numbers and
// non-blocking. Printed text cannot get between the frames: standard input is empty afterwards, and
// standard output goes to standard error.
struct StandardStreams {
  FileDescriptor read;
  FileDescriptor write;  // empty: one socket is for both ways
};
Result<StandardStreams> take_standard_streams();

// From now on, writing to a pipe without a reader, or beyond the limit of file sizes (ulimit -f),
// fails instead of killing this process. Not for processes that run other people's code.
void ignore_write_signals();

// From now on, this process gets the exit codes of its children, even if the program that started
// it ignored SIGCHLD. Not for processes that run other people's code.
void keep_exit_codes();

// No process started from here on leaves a core file.
void forbid_core_files();

// Raises this process's limit of open files by so many, as far as the system's maximum. Children
// that start_child() starts keep the limit that it was started with: programs that use select()
// fail with more descriptors than that can hold. Any thread.
void allow_many_files(std::uint64_t more = UINT64_MAX);
// Raises it as far as it takes to open so many more than are open now, with some to spare. Fails
// with `exhausted` if the system's maximum is too low. Any thread.
Status allow_more_files(std::uint64_t files);

// Returns to the system what this process has freed, and the C library kept for what comes next.
// Takes a while when that is much. Any thread.
void return_free_memory();

// Whether other processes of this user may read what /proc has of this one.
bool lets_others_look();

// $HOME; where it is not set, as in some services, what the user database says. Empty: none.
std::string home_directory();

std::string host_name();
// The id of the running system, the same in all its containers and different after each boot. Empty
// when it is not known.
std::string boot_id();
// The id of the installed system, from /etc/machine-id: the same after each boot, and in clones of
// a virtual machine. Secret (machine-id(5)). Empty when it is not known, as in most containers.
std::string machine_id();
std::uint64_t process_id();
// Of the process that started this one, while that lives; then another one's.
std::uint64_t parent_process_id();

}  // namespace skyward::io

#pragma once

// A program that goes on after the one who started it: without its terminal, its session, its
// streams. And the search for what such a program has left behind.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/io/file_descriptor.h"

namespace skyward::io {

// Signals, numbered alike on every Linux.
inline constexpr int kKill = 9;
inline constexpr int kTerminate = 15;

// Splits this process in two. True in the daemon: a session of its own, `directory` as working
// directory, standard input empty, both outputs appended to the file `log` there, no other
// descriptors but those of `keep`. False in the caller, which goes on as it was. From a process of
// one thread.
Result<bool> split_daemon(const std::string& directory, const std::vector<int>& keep);

// Takes the lock of the file and notes this process as its holder; waits up to `patience` for one
// who holds it. Nothing when that is not enough.
std::optional<FileDescriptor> lock_file(const std::string& path, Duration patience);
// Writes this process's number into a file that it has locked.
void note_holder(int lock);
// The number that the holder of the lock on this open file wrote, 0 if it wrote none. Nothing when
// nobody holds it.
std::optional<pid_t> noted_holder(int file);
// The same of a path, where there is a number. Nothing when nobody holds it, or when the file is
// not this user's own: anybody may have written that.
std::optional<pid_t> holder_of(const std::string& path);

// Sends the signal and waits up to `patience` for the end of the process. True when it has ended.
bool end_process(pid_t process, int signal, Duration patience);

// Kills (SIGKILL) every process of this machine that was started with an environment variable
// `name` whose value begins with one of these, and that this user may end, except this one and
// those above it; repeated until none is left or `timeout` is over. Returns how many were killed.
int kill_marked(const std::string& name, const std::vector<std::string>& prefixes,
                Duration timeout);

// Sets a variable of this process's environment, for those that it will start.
void set_variable(const std::string& name, const std::string& value);

}  // namespace skyward::io

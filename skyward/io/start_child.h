#pragma once

// fork and exec in one step: the child borrows this process's memory until it runs the new program
// (clone with CLONE_VM and CLONE_VFORK, as posix_spawn does), so it costs the same from a small
// agent and from a Python program that holds gigabytes. Unlike posix_spawn, it can make the child
// die with its parent, close all other descriptors, and report which step failed.

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <optional>

#include "skyward/base/time.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/other_processes.h"
#include "skyward/io/process.h"

namespace skyward::io {

struct StartedChild {
  pid_t pid = -1;
  FileDescriptor pidfd;  // empty where the kernel has none
};
Result<StartedChild> start_child(const SpawnOptions& options);

// How a child exited, if it has. The child stays a zombie until reap(), so that its pid is not
// reused. A child that somebody else reaped counts as exited with code -1.
std::optional<ExitStatus> peek_exit(pid_t pid);
// Of a child that has exited, or is exiting.
void reap(pid_t pid);

// How long to wait for a killed child. One that waits inside the kernel (for a silent file server,
// for a driver) exits only when that wait is over, which may be never.
inline constexpr Duration kReapPatience = std::chrono::seconds(2);
// Waits until `deadline` to reap a killed child; then leaves it to reap_orphans().
void reap_killed(const StartedChild& child, Time deadline);

// Sets how many files each child may open from now on. The first call counts. Any thread.
void set_files_of_children(rlim_t files);

// Whether a child with this pid was started here and not reaped yet. Any thread.
bool is_own_child(pid_t pid);

// Sends a signal to a child that was not reaped yet.
void signal_child(const StartedChild& child, int number);

}  // namespace skyward::io

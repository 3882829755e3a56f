#pragma once

// fork and exec as one step, at the price of neither: the child borrows this process's memory until
// it runs the new program (clone with CLONE_VM and CLONE_VFORK, as posix_spawn does), so it costs
// the same from a small agent and from a Python program that holds gigabytes. What posix_spawn
// cannot do is why this exists: die with the parent, close all other descriptors, and say which
// step failed.

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <optional>

#include "skyward/base/time.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/process.h"

namespace skyward::io {

struct StartedChild {
  pid_t pid = -1;
  FileDescriptor pidfd;  // empty where the kernel has none
};
Result<StartedChild> start_child(const SpawnOptions& options);

// How a child ended, if it has. The child stays a zombie, its pid therefore its own, until reap().
// A child that somebody else reaped has ended with code -1.
std::optional<ExitStatus> peek_exit(pid_t pid);
// Of a child that has ended, or is just doing so.
void reap(pid_t pid);

// How long a killed child is waited for. The kernel lets one that waits inside it (for a file
// server that has gone silent, for a driver) end when that is over, which may be never.
inline constexpr Duration kReapPatience = std::chrono::seconds(2);
// Reaps a killed child as soon as it has ended, until `deadline`; then leaves it to reap_orphans().
void reap_killed(const StartedChild& child, Time deadline);

// The limit of open files of all children from now on. Before there are threads.
void set_files_of_children(const rlimit& limit);

// Whether a child with this pid was started here and not reaped yet. Any thread.
bool is_own_child(pid_t pid);

// Sends a signal to a child that was not reaped yet.
void signal_child(const StartedChild& child, int number);

}  // namespace skyward::io

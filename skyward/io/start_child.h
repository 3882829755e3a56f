#pragma once

// fork and exec as one step, at the price of neither: the child borrows this process's memory until
// it runs the new program (clone with CLONE_VM and CLONE_VFORK, as posix_spawn does), so it costs
// the same from a small agent and from a Python program that holds gigabytes. What posix_spawn
// cannot do is why this exists: die with the parent, close all other descriptors, and say which
// step failed.

#include <sys/resource.h>
#include <sys/types.h>

#include <optional>

#include "skyward/io/file_descriptor.h"
#include "skyward/io/process.h"

namespace skyward::io {

struct StartedChild {
  pid_t pid = -1;
  FileDescriptor pidfd;  // empty where the kernel has none
};
Result<StartedChild> start_child(const SpawnOptions& options);

// How a child ended, if it has. The child stays a zombie, its pid therefore its own, until reap().
// A child that somebody else reaped has ended with code -1. `wait` waits for the end.
std::optional<ExitStatus> peek_exit(pid_t pid, bool wait);
void reap(pid_t pid);

// Whether a child with this pid was started here and not reaped yet. Any thread.
bool is_own_child(pid_t pid);

// Sends a signal to a child that was not reaped yet.
void signal_child(const StartedChild& child, int number);

}  // namespace skyward::io

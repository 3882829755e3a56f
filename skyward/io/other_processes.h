#pragma once

// Processes that are not children of this one, or no longer: finding them, and ending them. A
// number that the kernel has given to another process since does no harm.

#include <sys/types.h>

#include <string>
#include <vector>

#include "skyward/base/time.h"

namespace skyward::io {

// Sends the signal and waits up to `patience` for the process to exit. True when it has exited.
bool end_process(pid_t process, int signal, Duration patience);

// Kills (SIGKILL) every process of this machine that was started with an environment variable
// `name` whose value begins with one of `prefixes`, and that this user may kill, except this
// process and its ancestors. Repeats until none is left or `timeout` is over. Returns how many were
// killed.
int kill_marked(const std::string& name, const std::vector<std::string>& prefixes,
                Duration timeout);

// Makes this process the parent of descendants whose own parent exits (a subreaper). For an agent,
// so that nothing escapes it.
void adopt_orphans();
// Reaps adopted orphans that have exited and would otherwise stay zombies; call it now and then.
// Leaves the children of Process and run_command alone: orphans behind one of those that has exited
// wait for the next call. Costs one system call when there is nothing to reap. Returns how many.
int reap_orphans();
// Kills (SIGKILL) every live descendant of this process, repeatedly until none is left or `timeout`
// is over. For an agent that exits. Returns how many were killed. Spares processes whose
// command is `spared` (its program without the folder), and their descendants.
int kill_descendants(Duration timeout, const std::vector<std::string>& spared = {});
// Kills (SIGKILL) a process by its number if `directory` is its working directory: a recycled
// number does no harm. Returns whether it did.
bool kill_process_in(int process, const std::string& directory);

// Names a process for good, as text for another process of this machine; empty if there is none.
std::string process_stamp(pid_t process);
// Sends a signal to the process group that this process leads. False when it is gone: a recycled
// number does no harm.
bool signal_group_of(const std::string& stamp, int number);

}  // namespace skyward::io

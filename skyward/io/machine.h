#pragma once

// Facts about the machine and the process, read once at the edge and then passed on as values.

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"

namespace skyward::io {

// A variable of this process's environment; empty values count as not set.
std::optional<std::string> environment_variable(const char* name);
// The names of those that begin so.
std::vector<std::string> environment_names(std::string_view beginning);
// Sets one, for the processes that this one will start. Not while other threads read the
// environment.
void set_variable(const std::string& name, const std::string& value);

// CPUs that this process may run on (its affinity, not the board's sockets). At least 1.
int cpu_count();
// As many of them as a control group's quota lets it keep busy. At least 1.
int usable_cpus();

// The core on which the calling thread is running, until the kernel moves it. No system call.
int current_core();

// Memory that this process may use: the machine's, or what a control group leaves of it.
std::uint64_t memory_bytes();
double memory_gib();
// Memory that programs can still get on this machine, swap included, as the kernel estimates it,
// and no more than a control group allows in all; empty if the kernel does not say.
std::optional<std::uint64_t> available_memory();

// A TCP port of 127.0.0.1 that was free a moment ago. Somebody else may take it before it is used;
// that is rare, since it is below the kernel's ephemeral ports. Fails with `exhausted`.
Result<int> free_tcp_port();

// The address at which other machines reach a host, of those that the system's resolver finds for
// its name (best_address); an address is returned as it is. Empty when there is none. May block for
// as long as the resolver does.
std::optional<std::string> address_of_name(const std::string& name);
// The first of IPv4, else of IPv6, that is not the own machine's loopback; else the first of all.
std::optional<std::string> best_address(const std::vector<std::string>& found);

// `digits` random lower-case hex digits, from the kernel.
std::string random_hex(int digits);

// Blocks the calling thread for so long, or until `stop` is requested. For blocking threads between
// two attempts, never for a loop thread.
void pause_thread(Duration duration, const std::stop_token& stop = {});

// The time of a clock that goes on while this machine sleeps, as a cloud's bill does. Not
// comparable with the event loop's clock.
Time time_with_sleep();

// True for a file, or a link to one, that this process may run.
bool is_program(const std::string& path);

// The paths that may be the program `name` by `path`, the variable PATH, the first one first. An
// empty part of it is the current directory. A name with '/' is a path already.
std::vector<std::string> program_paths(const std::string& name,
                                       const std::optional<std::string>& path);
// The first of them that is a program. Empty when none is.
std::optional<std::string> find_program(const std::string& name,
                                        const std::optional<std::string>& path);

// The number of the user that this process acts as.
unsigned user_id();

}  // namespace skyward::io

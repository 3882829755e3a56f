#include "skyward/io/start_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "skyward/io/close_descriptors.h"
#include "skyward/io/forks.h"
#include "skyward/io/machine.h"
#include "skyward/io/polling.h"
#include "skyward/io/process_entry.h"

#if defined(__SANITIZE_THREAD__)
// The same function by libc's other name: the sanitizer takes clone() for a fork, and what it then
// sets right in the child's memory is here its own.
extern "C" int __clone(int (*)(void*), void*, int, void*, ...);
#define SKYWARD_CLONE ::__clone
#else
#define SKYWARD_CLONE ::clone
#endif

namespace skyward::io {

namespace {

constexpr std::size_t kChildStackBytes = std::size_t{64} << 10;
constexpr int kLastSignal = 64;

enum class Step { start, parent, session, descriptor, directory, program };

struct Mapping {
  int from = -1;
  int to = -1;
};

// What the child reads, made by the parent: the child may not allocate, lock or call anything but
// the kernel.
struct Plan {
  const char* const* programs = nullptr;  // paths to try in order, then null
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  const char* directory = nullptr;  // null: stay
  Mapping* mappings = nullptr;      // sorted by `to`; 0, 1 and 2 are among them
  std::size_t mapping_count = 0;
  bool new_session = false;
  bool die_with_parent = false;
  bool ignore_ending_signals = false;
  pid_t parent = 0;
  const rlimit* files = nullptr;  // null: ours

  // The child's answer: memory is shared until the exec.
  Step failed = Step::start;
  int error = 0;
};

// The kernel's struct sigaction, all zero: default action, nothing masked. (libc's functions are
// kept out of the child: under a sanitizer they are not the plain system calls they seem.)
struct KernelSigaction {
  void (*action)(int) = SIG_DFL;
  unsigned long flags = 0;
  void* restorer = nullptr;
  unsigned long mask = 0;
};

SKYWARD_IN_CHILD void reset_signals(const Plan& plan) {
  const KernelSigaction defaults;
  const KernelSigaction ignored{.action = SIG_IGN};
  for (int number = 1; number <= kLastSignal; ++number) {
    const bool ignore = plan.ignore_ending_signals && (number == SIGTERM || number == SIGHUP);
    syscall(SYS_rt_sigaction, number, ignore ? &ignored : &defaults, nullptr,
            sizeof(unsigned long));
  }
}

// Numbers may overlap in any way: first everything moves out of the way, then to its place.
SKYWARD_IN_CHILD bool place_descriptors(Plan& plan) {
  Mapping* const mappings = plan.mappings;
  const int above = mappings[plan.mapping_count - 1].to + 1;
  for (std::size_t i = 0; i < plan.mapping_count; ++i) {
    long moved = -1;
    if (mappings[i].from < 0) {
      const long null = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0);
      if (null < 0) return false;
      moved = syscall(SYS_fcntl, null, F_DUPFD_CLOEXEC, above);
      syscall(SYS_close, null);
    } else {
      moved = syscall(SYS_fcntl, mappings[i].from, F_DUPFD_CLOEXEC, above);
    }
    if (moved < 0) return false;
    mappings[i].from = static_cast<int>(moved);
  }
  for (std::size_t i = 0; i < plan.mapping_count; ++i) {
    if (syscall(SYS_dup3, mappings[i].from, mappings[i].to, 0) < 0) return false;
  }
  unsigned next = 0;
  for (std::size_t i = 0; i < plan.mapping_count; ++i) {
    const auto to = static_cast<unsigned>(mappings[i].to);
    if (to > next) close_descriptors(next, to - 1);
    next = to + 1;
  }
  close_descriptors(next, kLastDescriptor);
  return true;
}

// Tries each path; the answer is the most telling error.
SKYWARD_IN_CHILD void run_program(Plan& plan) {
  long error = ENOENT;
  for (const char* const* program = plan.programs; *program != nullptr; ++program) {
    syscall(SYS_execve, *program, plan.arguments, plan.environment);
    if (errno != ENOENT && errno != ENOTDIR) error = errno;
  }
  errno = static_cast<int>(error);
}

// Everything up to the exec. Comes back only on failure, with errno set and the step noted.
SKYWARD_IN_CHILD void become_program(Plan& plan) {
  reset_signals(plan);
  if (plan.die_with_parent) {
    plan.failed = Step::parent;
    if (syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) return;
    // The parent may have gone before the kernel knew of our wish.
    if (syscall(SYS_getppid) != plan.parent) {
      errno = ESRCH;
      return;
    }
  }
  plan.failed = Step::session;
  if (plan.new_session && syscall(SYS_setsid) < 0) return;
  plan.failed = Step::descriptor;
  if (!place_descriptors(plan)) return;
  plan.failed = Step::directory;
  if (plan.files != nullptr) syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, plan.files, nullptr);
  if (plan.directory != nullptr && syscall(SYS_chdir, plan.directory) < 0) return;
  plan.failed = Step::program;
  const unsigned long none = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof none);
  run_program(plan);
}

SKYWARD_IN_CHILD int run_child(void* argument) {
  Plan& plan = *static_cast<Plan*>(argument);
  become_program(plan);
  plan.error = errno;
  syscall(SYS_exit_group, 127);
  __builtin_unreachable();
}

// The environment of this moment, in which a program may have renewed what commands need. Its
// threads must not change it meanwhile (docs/guide/environments.md); no lock of ours could help.
std::vector<std::string> environment_of(const SpawnOptions& options) {
  std::map<std::string, std::string> values;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    values.try_emplace(std::string(text.substr(0, equals)), text.substr(equals + 1));
  }
  for (const std::string& name : options.unset) values.erase(name);
  for (const auto& [name, value] : options.environment) values[name] = value;
  std::vector<std::string> entries;
  for (const auto& [name, value] : values) entries.push_back(name + "=" + value);
  return entries;
}

std::optional<std::string> path_of(const std::vector<std::string>& environment) {
  constexpr std::string_view kName = "PATH=";
  for (const std::string& entry : environment) {
    if (entry.starts_with(kName)) return entry.substr(kName.size());
  }
  return std::nullopt;
}

std::vector<Mapping> mappings_of(const SpawnOptions& options) {
  std::vector<Mapping> mappings;
  for (const auto& [ours, number] : options.descriptors) {
    mappings.push_back({.from = ours, .to = number});
  }
  for (int number = 0; number <= 2; ++number) {
    const auto named = [number](const Mapping& mapping) { return mapping.to == number; };
    if (std::ranges::none_of(mappings, named)) mappings.push_back({.from = -1, .to = number});
  }
  std::ranges::sort(mappings, {}, &Mapping::to);
  return mappings;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Whether the file system of the program that a path names forbids to execute anything.
bool is_noexec(const SpawnOptions& options) {
  const std::string& name = options.command.front();
  if (!name.contains('/')) return false;
  const bool is_relative = !name.starts_with('/') && !options.directory.empty();
  const std::string path = is_relative ? options.directory + "/" + name : name;
  struct statvfs facts{};
  return ::statvfs(path.c_str(), &facts) == 0 && (facts.f_flag & ST_NOEXEC) != 0;
}

std::unexpected<Error> explain(const SpawnOptions& options, Step step, int error) {
  const std::string& name = options.command.front();
  const std::string what = fmt::format("cannot start '{}'", name);
  const bool short_of_something = is_shortage(error);
  const ErrorKind other = short_of_something ? ErrorKind::exhausted : ErrorKind::unavailable;
  switch (step) {
    case Step::start:
      return fail(other, fmt::format("{}: cannot create a process: {}", what, errno_text(error)),
                  "raise the limits of processes (ulimit -u) and memory, or run fewer workers");
    case Step::parent:
      return fail(ErrorKind::unavailable,
                  fmt::format("{}: the parent has ended: {}", what, errno_text(error)));
    case Step::session:
      return fail(other, fmt::format("{}: cannot create a session: {}", what, errno_text(error)));
    case Step::descriptor:
      return fail(short_of_something ? ErrorKind::exhausted : ErrorKind::invalid,
                  fmt::format("{}: cannot pass on its descriptors: {}", what, errno_text(error)),
                  "check that each is open, and the limit of open files (ulimit -n)");
    case Step::directory:
      return fail(ErrorKind::invalid,
                  fmt::format("{}: cannot enter the directory '{}': {}", what, options.directory,
                              errno_text(error)),
                  "create the directory or name another");
    case Step::program:
      break;
  }
  if (error == ENOENT && name.find('/') == std::string::npos) {
    return fail(ErrorKind::invalid,
                fmt::format("{}: there is no such program on PATH: {}", what, errno_text(error)),
                "install it, or give its full path");
  }
  if (short_of_something) {
    return fail(ErrorKind::exhausted, fmt::format("{}: {}", what, errno_text(error)),
                "free memory, or run fewer workers");
  }
  if (error == EACCES && is_noexec(options)) {
    return fail(ErrorKind::invalid, fmt::format("{}: {}", what, errno_text(error)),
                fmt::format("its file system is mounted noexec: run a script through its "
                            "interpreter ('sh {}'), or put the program on another file system",
                            name));
  }
  return fail(ErrorKind::invalid, fmt::format("{}: {}", what, errno_text(error)),
              error == EACCES || error == ENOEXEC
                  ? "make sure that it is a program and executable (chmod +x)"
                  : "check the path, and the interpreter that its first line names");
}

// Children of this process are known to all its threads, whatever object here holds them: hence one
// set for all. A forked child has no children yet.
struct OwnChildren {
  std::mutex mutex;
  std::set<pid_t> pids;
};
OwnChildren& own_children() { return of_this_process<OwnChildren>(); }

// 0: as many as this process.
std::atomic<rlim_t> files_of_children{0};

void disown(pid_t pid) {
  OwnChildren& children = own_children();
  const std::lock_guard lock(children.mutex);
  children.pids.erase(pid);
}

// Runs the plan in a new process and comes back once it has become the program or failed.
pid_t run_plan(Plan& plan) {
  void* const stack = ::mmap(nullptr, kChildStackBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) {
    plan.error = errno;
    return -1;
  }
  // No handler of this program may run in the child while memory is shared.
  const unsigned long all = ~0UL;
  unsigned long previous = 0;
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &previous, sizeof all);
  pid_t pid = -1;
  {
    // Held over the start, so that the new child is not reaped as an orphan.
    OwnChildren& children = own_children();
    const std::lock_guard lock(children.mutex);
    pid = SKYWARD_CLONE(run_child, static_cast<std::byte*>(stack) + kChildStackBytes,
                        CLONE_VM | CLONE_VFORK | SIGCHLD, &plan);
    if (pid < 0) plan.error = errno;
    if (pid > 0) children.pids.insert(pid);
  }
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &previous, nullptr, sizeof previous);
  ::munmap(stack, kChildStackBytes);
  return pid;
}

}  // namespace

Result<StartedChild> start_child(const SpawnOptions& options) {
  if (options.command.empty() || options.command.front().empty()) {
    return fail(ErrorKind::invalid, "cannot start a command without a name",
                "give the program as the first word of the command");
  }
  const std::vector<std::string> environment = environment_of(options);
  const std::vector<std::string> programs =
      program_paths(options.command.front(), path_of(environment));
  std::vector<Mapping> mappings = mappings_of(options);
  const std::vector<char*> program_pointers = pointers_to(programs);
  const std::vector<char*> argument_pointers = pointers_to(options.command);
  const std::vector<char*> environment_pointers = pointers_to(environment);

  Plan plan;
  plan.programs = program_pointers.data();
  plan.arguments = argument_pointers.data();
  plan.environment = environment_pointers.data();
  plan.directory = options.directory.empty() ? nullptr : options.directory.c_str();
  plan.mappings = mappings.data();
  plan.mapping_count = mappings.size();
  plan.new_session = options.new_session;
  plan.die_with_parent = options.die_with_parent;
  plan.ignore_ending_signals = options.ignore_ending_signals;
  plan.parent = ::getpid();
  rlimit files{};
  if (files_of_children != 0 && ::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = std::min<rlim_t>(files_of_children, files.rlim_max);
    plan.files = &files;
  }
  const pid_t pid = run_plan(plan);
  if (pid < 0) return explain(options, Step::start, plan.error);
  if (plan.error != 0) {
    reap(pid);
    return explain(options, plan.failed, plan.error);
  }
  return StartedChild{.pid = pid, .pidfd = open_process(pid)};
}

void set_files_of_children(rlim_t files) {
  rlim_t unset = 0;
  files_of_children.compare_exchange_strong(unset, files);
}

std::optional<ExitStatus> peek_exit(pid_t pid) {
  siginfo_t info{};
  rusage usage{};
  const int options = WEXITED | WNOWAIT | WNOHANG;
  long answer = -1;
  do {
    // The system call itself: libc's waitid leaves out the resource usage.
    answer = ::syscall(SYS_waitid, P_PID, pid, &info, options, &usage);
  } while (answer < 0 && errno == EINTR);
  if (answer < 0) return ExitStatus{.code = -1};
  if (info.si_pid == 0) return std::nullopt;
  // For a child that replaced a larger program, the kernel counts the memory that it borrowed at
  // its start too.
  ExitStatus status{.max_rss_bytes = std::int64_t{usage.ru_maxrss} * 1024};
  (info.si_code == CLD_EXITED ? status.code : status.signal) = info.si_status;
  return status;
}

void reap(pid_t pid) {
  disown(pid);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void reap_killed(const StartedChild& child, Time deadline) {
  while (!peek_exit(child.pid)) {
    const Duration left = deadline - EventLoop::now();
    if (left <= Duration{}) return disown(child.pid);
    // A debugger may hold it back though it has ended: the descriptor alone does not tell.
    pollfd ended{.fd = child.pidfd.get(), .events = POLLIN, .revents = 0};
    const auto look_again =
        std::chrono::ceil<std::chrono::milliseconds>(std::min(left, kKernelPollInterval));
    if (::poll(&ended, 1, static_cast<int>(look_again.count())) > 0 && !peek_exit(child.pid)) {
      ::poll(nullptr, 0, static_cast<int>(look_again.count()));
    }
  }
  reap(child.pid);
}

bool is_own_child(pid_t pid) {
  OwnChildren& children = own_children();
  const std::lock_guard lock(children.mutex);
  return children.pids.contains(pid);
}

void signal_child(const StartedChild& child, int number) {
  if (child.pidfd && (signal_process(child.pidfd, number) || errno == ESRCH)) {
    return;  // ESRCH: somebody else has reaped it, and its number may be another's
  }
  ::kill(child.pid, number);
}

}  // namespace skyward::io

#include "skyward/io/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <thread>
#include <utility>

#include "skyward/io/close_descriptors.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/file.h"
#include "skyward/io/polling.h"
#include "skyward/io/process_entry.h"

namespace skyward::io {

namespace {

constexpr std::size_t kMaxDigits = 20;

void close_others(std::vector<int> keep) {
  std::ranges::sort(keep);
  unsigned first = 3;
  for (const int number : keep) {
    const auto next = static_cast<unsigned>(number);
    if (next > first) close_descriptors(first, next - 1);
    first = std::max(first, next + 1);
  }
  close_descriptors(first, kLastDescriptor);
}

// What end_process() does where the kernel has no descriptors of processes (Linux before 5.3).
bool end_by_number(pid_t process, int signal, Time deadline) {
  const auto begun = read_process_entry(process);
  if (!begun) return ::kill(process, 0) != 0 && errno == ESRCH;  // else /proc cannot be read
  ::kill(process, signal);
  while (true) {
    const auto now = read_process_entry(process);
    if (!now || now->is_dead() || now->started != begun->started) return true;
    if (EventLoop::now() >= deadline) return false;
    std::this_thread::sleep_for(kPollInterval);  // the kernel tells only its parent
  }
}

void leave(const std::string& directory, const FileDescriptor& log, const std::vector<int>& keep) {
  const FileDescriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ::dup2(nothing.get(), STDIN_FILENO);
  ::dup2(log.get(), STDOUT_FILENO);
  ::dup2(log.get(), STDERR_FILENO);
  if (::chdir(directory.c_str()) != 0) ::_exit(1);
  close_others(keep);
}

std::vector<pid_t> family_above() {
  std::vector<pid_t> family;
  for (auto process = read_process_entry(::getpid()); process;
       process = read_process_entry(process->parent)) {
    family.push_back(process->pid);
  }
  return family;
}

// Whether the path still leads to the open file.
bool is_at(int file, const std::string& path) {
  struct stat open{};
  struct stat there{};
  return ::fstat(file, &open) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         open.st_dev == there.st_dev && open.st_ino == there.st_ino;
}

struct Marked {
  std::vector<pid_t> processes;
  std::vector<pid_t> blank;  // without any environment, as one is for a moment inside exec()
};

// Processes whose environment at their start held what begins so.
Marked marked_processes(const std::vector<std::string>& prefixes) {
  Marked found;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc", error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    pid_t process = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), process);
    if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size()) continue;
    const auto environment = read_file(at->path() / "environ");
    if (!environment) continue;
    // A process that has ended, and a thread of the kernel, run no program.
    if (environment->empty() && std::filesystem::exists(at->path() / "exe", error)) {
      found.blank.push_back(process);
    }
    error.clear();
    for (std::string_view rest = *environment; !rest.empty();) {
      const std::string_view variable = rest.substr(0, rest.find('\0'));
      rest.remove_prefix(std::min(variable.size() + 1, rest.size()));
      const auto fits = [&](const std::string& prefix) { return variable.starts_with(prefix); };
      if (std::ranges::none_of(prefixes, fits)) continue;
      found.processes.push_back(process);
      break;
    }
  }
  return found;
}

}  // namespace

Result<bool> split_daemon(const std::string& directory, const std::vector<int>& keep) {
  const std::string log = directory + "/log";
  const FileDescriptor file(
      ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) {
    return fail(ErrorKind::unavailable, "cannot write " + log + ": " + errno_text(errno),
                "check the permissions and free space there");
  }
  const pid_t child = ::fork();
  if (child < 0) {
    return fail(ErrorKind::exhausted, "cannot start a process: " + errno_text(errno),
                "close other programs, or raise the limit of processes (ulimit -u)");
  }
  if (child > 0) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (status == 0) return false;
    return fail(ErrorKind::exhausted, "cannot start a process in the background",
                "close other programs, or raise the limit of processes (ulimit -u)");
  }
  // The one in between leads a session and goes; its child can never get a terminal.
  ::setsid();
  const pid_t daemon = ::fork();
  if (daemon != 0) ::_exit(daemon < 0 ? 1 : 0);
  ::signal(SIGHUP, SIG_IGN);
  leave(directory, file, keep);
  return true;
}

std::optional<FileDescriptor> lock_file(const std::string& path, Duration patience) {
  const Time deadline = EventLoop::now() + patience;
  while (true) {
    FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return std::nullopt;
    while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK || EventLoop::now() >= deadline) return std::nullopt;
      std::this_thread::sleep_for(kPollInterval);  // the kernel tells nobody of a lock let go
    }
    if (is_at(file.get(), path)) return file;  // else its holder has removed it meanwhile
  }
}

void note_holder(int lock) {
  const std::string text = std::to_string(::getpid()) + "\n";
  if (::ftruncate(lock, 0) != 0) return;  // an empty note means: unknown
  (void)!::pwrite(lock, text.data(), text.size(), 0);
}

std::optional<pid_t> noted_holder(int file) {
  if (::flock(file, LOCK_SH | LOCK_NB) == 0) {
    ::flock(file, LOCK_UN);
    return std::nullopt;
  }
  if (errno == ENOSYS || errno == EOPNOTSUPP) return std::nullopt;  // there are no locks
  if (errno != EWOULDBLOCK) return 0;
  char text[kMaxDigits] = {};
  const ssize_t size = ::pread(file, text, sizeof text, 0);
  pid_t process = 0;
  if (size > 0) std::from_chars(text, text + size, process);
  return process;
}

std::optional<pid_t> holder_of(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat facts{};
  if (!file || ::fstat(file.get(), &facts) != 0) return std::nullopt;
  if (facts.st_uid != ::geteuid() || (facts.st_mode & 022) != 0) return std::nullopt;
  const auto process = noted_holder(file.get());
  return process && *process > 1 ? process : std::nullopt;
}

bool end_process(pid_t process, int signal, Duration patience) {
  const Time deadline = EventLoop::now() + patience;
  const FileDescriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (!handle && errno == ESRCH) return true;
  if (!handle) return end_by_number(process, signal, deadline);
  ::syscall(SYS_pidfd_send_signal, handle.get(), signal, nullptr, 0);
  while (true) {
    const Duration left = std::max(deadline - EventLoop::now(), Duration{});
    pollfd ended{.fd = handle.get(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(
        &ended, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

int kill_marked(const std::string& name, const std::vector<std::string>& prefixes,
                Duration timeout) {
  std::vector<std::string> entries;
  for (const std::string& prefix : prefixes) entries.push_back(name + "=" + prefix);
  const std::vector<pid_t> spared = family_above();
  const Time deadline = EventLoop::now() + timeout;
  int killed = 0;
  for (std::vector<pid_t> blank;;) {
    Marked marked = marked_processes(entries);
    bool any = false;
    for (const pid_t process : marked.processes) {
      if (std::ranges::find(spared, process) != spared.end()) continue;
      any = true;
      if (end_process(process, SIGKILL, std::max(deadline - EventLoop::now(), Duration{}))) {
        ++killed;
      }
    }
    const bool look_again = !std::ranges::includes(blank, marked.blank);
    if ((!any && !look_again) || EventLoop::now() >= deadline) return killed;
    if (!any) std::this_thread::sleep_for(kPollInterval);
    std::swap(blank, marked.blank);
  }
}

void set_variable(const std::string& name, const std::string& value) {
  ::setenv(name.c_str(), value.c_str(), 1);
}

}  // namespace skyward::io

#include "skyward/io/daemon.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <string_view>
#include <thread>
#include <utility>

#include "skyward/io/close_descriptors.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/polling.h"

namespace skyward::io {

namespace {

constexpr std::size_t kLongestNote = 64;

// Tells the process numbers of a container from those outside it; 0: not known.
std::uint64_t process_namespace() {
  struct stat found{};
  return ::stat("/proc/self/ns/pid", &found) == 0 ? found.st_ino : 0;
}

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

void leave(const std::string& directory, const FileDescriptor& log, const std::vector<int>& keep) {
  const FileDescriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ::dup2(nothing.get(), STDIN_FILENO);
  ::dup2(log.get(), STDOUT_FILENO);
  ::dup2(log.get(), STDERR_FILENO);
  if (::chdir(directory.c_str()) != 0) ::_exit(1);
  close_others(keep);
}

// Whether the path still leads to the open file.
bool is_at(int file, const std::string& path) {
  struct stat open{};
  struct stat there{};
  return ::fstat(file, &open) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         open.st_dev == there.st_dev && open.st_ino == there.st_ino;
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
      std::this_thread::sleep_for(kKernelPollInterval);  // the kernel tells nobody of a lock let go
    }
    if (is_at(file.get(), path)) return file;  // else its holder has removed it meanwhile
  }
}

void note_holder(int lock) {
  const std::string text =
      std::to_string(::getpid()) + " " + std::to_string(process_namespace()) + "\n";
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
  char text[kLongestNote] = {};
  const ssize_t size = ::pread(file, text, sizeof text, 0);
  if (size <= 0) return 0;
  const char* const end = text + size;
  pid_t process = 0;
  std::uint64_t its_namespace = 0;
  const auto number = std::from_chars(text, end, process);
  if (number.ptr != end) std::from_chars(number.ptr + 1, end, its_namespace);
  const std::uint64_t own = process_namespace();
  return its_namespace == 0 || own == 0 || its_namespace == own ? process : 0;
}

std::optional<pid_t> holder_of(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat facts{};
  if (!file || ::fstat(file.get(), &facts) != 0) return std::nullopt;
  if (facts.st_uid != ::geteuid() || (facts.st_mode & 022) != 0) return std::nullopt;
  const auto process = noted_holder(file.get());
  return process && *process > 1 ? process : std::nullopt;
}

}  // namespace skyward::io

#include "skyward/io/own_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "skyward/io/file.h"
#include "skyward/io/private_directory.h"
#include "skyward/io/start_child.h"

namespace skyward::io {

namespace {

std::mutex raising;  // the limit of open files

// Raises this process's limit, and not that of the children that start_child() starts.
void raise_files(rlimit limit, rlim_t files) {
  const rlim_t own = std::exchange(limit.rlim_cur, files);
  if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) set_files_of_children(own);
}

bool are_one_socket(int left, int right) {
  struct stat first{};
  struct stat second{};
  return ::fstat(left, &first) == 0 && ::fstat(right, &second) == 0 && S_ISSOCK(first.st_mode) &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace

Result<StandardStreams> take_standard_streams() {
  StandardStreams streams;
  auto read = duplicate(STDIN_FILENO);
  if (!read) return fail(read);
  streams.read = std::move(*read);
  if (!are_one_socket(STDIN_FILENO, STDOUT_FILENO)) {
    auto write = duplicate(STDOUT_FILENO);
    if (!write) return fail(write);
    streams.write = std::move(*write);
  }
  for (const FileDescriptor* end : {&streams.read, &streams.write}) {
    if (!*end) continue;
    const Status changed = set_non_blocking(end->get(), true);
    if (!changed) return fail(changed);
  }
  const FileDescriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (nothing) ::dup2(nothing.get(), STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return streams;
}

void ignore_write_signals() {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

void keep_exit_codes() { ::signal(SIGCHLD, SIG_DFL); }

void forbid_core_files() {
  const rlimit none{.rlim_cur = 0, .rlim_max = 0};
  ::setrlimit(RLIMIT_CORE, &none);
}

void allow_many_files(std::uint64_t more) {
  const std::lock_guard lock(raising);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  const rlim_t missing = limit.rlim_max - limit.rlim_cur;
  raise_files(limit, limit.rlim_cur + std::min<rlim_t>(more, missing));
}

Status allow_more_files(std::uint64_t files) {
  const std::lock_guard lock(raising);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  const std::uint64_t open = list_directory("/proc/self/fd").size();
  if (open + files > limit.rlim_max) {
    return fail(
        ErrorKind::exhausted,
        fmt::format("up to {} files have to be open at the same time; {} are open, and this "
                    "process may not open more than {}",
                    files, open, limit.rlim_max),
        fmt::format("use fewer nodes, or have your hard limit of open files raised to {} "
                    "(ulimit -Hn; nofile in limits.conf, LimitNOFILE of a service)",
                    open + files));
  }
  // Twice as many: nobody knows what others are about to open.
  const rlim_t wanted = std::min<rlim_t>(open + 2 * files, limit.rlim_max);
  if (wanted > limit.rlim_cur) raise_files(limit, wanted);
  return {};
}

void return_free_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

std::string home_directory() {
  if (const char* home = std::getenv("HOME")) return home;
  constexpr std::size_t kMostText = std::size_t{64} << 10;
  std::vector<char> text(kMostText);
  passwd entry{};
  passwd* found = nullptr;
  const int failed = ::getpwuid_r(::geteuid(), &entry, text.data(), text.size(), &found);
  return failed == 0 && found != nullptr && found->pw_dir != nullptr ? found->pw_dir : "";
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "";
  return name.data();
}

bool lets_others_look() { return ::prctl(PR_GET_DUMPABLE) == 1; }

std::string boot_id() {
  const Result<std::string> text = read_file("/proc/sys/kernel/random/boot_id");
  return text ? text->substr(0, text->find('\n')) : std::string();
}

std::string machine_id() {
  const Result<std::string> text = read_file("/etc/machine-id");
  const std::string id = text ? text->substr(0, text->find('\n')) : std::string();
  const bool is_set =
      id.size() == 32 && id.find_first_not_of("0123456789abcdef") == std::string::npos;
  return is_set ? id : std::string();
}

std::uint64_t process_id() { return static_cast<std::uint64_t>(::getpid()); }

std::uint64_t parent_process_id() { return static_cast<std::uint64_t>(::getppid()); }

}  // namespace skyward::io

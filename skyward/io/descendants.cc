// The family of this process as /proc shows it: for an agent that must leave nothing behind.

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "skyward/io/file_descriptor.h"
#include "skyward/io/process.h"
#include "skyward/io/process_entry.h"
#include "skyward/io/start_child.h"

namespace skyward::io {

namespace {

std::vector<ProcessEntry> all_processes() {
  std::vector<ProcessEntry> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc", error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    pid_t pid = 0;
    const auto [stop, bad] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (bad != std::errc() || stop != name.data() + name.size()) continue;
    if (auto entry = read_process_entry(pid)) entries.push_back(*entry);
  }
  return entries;
}

std::vector<ProcessEntry> descendants() {
  const std::vector<ProcessEntry> all = all_processes();
  std::unordered_multimap<pid_t, const ProcessEntry*> children;
  for (const ProcessEntry& entry : all) children.emplace(entry.parent, &entry);
  std::vector<ProcessEntry> found;
  std::vector<pid_t> ancestors{::getpid()};
  while (!ancestors.empty()) {
    const auto [first, last] = children.equal_range(ancestors.back());
    ancestors.pop_back();
    for (auto child = first; child != last; ++child) {
      found.push_back(*child->second);
      ancestors.push_back(child->second->pid);
    }
  }
  return found;
}

// Kills exactly the process of the entry, never a later one with its number; nothing if it has
// gone. The descriptor, if the kernel has such, tells when it is dead.
std::optional<FileDescriptor> kill_exactly(const ProcessEntry& victim) {
  FileDescriptor pidfd(static_cast<int>(::syscall(SYS_pidfd_open, victim.pid, 0)));
  const auto present = read_process_entry(victim.pid);
  if (!present || present->started != victim.started) return std::nullopt;
  if (!pidfd) {
    ::kill(victim.pid, SIGKILL);
  } else {
    ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
  }
  return pidfd;
}

// False if it is no dead child of this process, or if it has an owner here.
bool reap_orphan(pid_t pid) {
  return !is_own_child(pid) && ::waitpid(pid, nullptr, WNOHANG) == pid;
}

}  // namespace

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

int reap_orphans() {
  int reaped = 0;
  while (true) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return reaped;
    // Until its owner has reaped it, the kernel names the same one again.
    if (info.si_pid == 0 || is_own_child(info.si_pid)) return reaped;
    if (reap_orphan(info.si_pid)) ++reaped;
  }
}

int kill_descendants(Duration timeout) {
  using namespace std::chrono_literals;
  const Time deadline = EventLoop::now() + timeout;
  std::set<std::pair<pid_t, std::uint64_t>> killed;
  while (true) {
    std::vector<FileDescriptor> dying;
    bool any = false;
    for (const ProcessEntry& entry : descendants()) {
      if (entry.is_dead()) {
        reap_orphan(entry.pid);
        continue;
      }
      any = true;
      auto pidfd = kill_exactly(entry);
      if (!pidfd) continue;
      killed.emplace(entry.pid, entry.started);
      if (*pidfd) dying.push_back(*std::move(pidfd));
    }
    if (!any) break;
    // Until these are dead; then once more, for what they started meanwhile.
    for (const FileDescriptor& pidfd : dying) {
      const Duration left = deadline - EventLoop::now();
      if (left <= Duration{0}) break;
      pollfd watched{.fd = pidfd.get(), .events = POLLIN, .revents = 0};
      ::poll(&watched, 1,
             static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
    }
    if (dying.empty()) ::poll(nullptr, 0, 1);
    if (EventLoop::now() >= deadline) break;
  }
  return static_cast<int>(killed.size());
}

bool kill_process_in(int process, const std::string& directory) {
  // The descriptor names the process for good; only then is it looked at.
  const FileDescriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (handle.get() < 0) return false;
  std::error_code error;
  const auto stands_in = std::filesystem::read_symlink(fmt::format("/proc/{}/cwd", process), error);
  if (error || stands_in != std::filesystem::canonical(directory, error) || error) return false;
  return ::syscall(SYS_pidfd_send_signal, handle.get(), SIGKILL, nullptr, 0) == 0;
}

std::string process_stamp(pid_t process) {
  const auto entry = read_process_entry(process);
  return entry ? fmt::format("{} {}", entry->pid, entry->started) : "";
}

bool signal_group_of(const std::string& stamp, int number) {
  pid_t process = 0;
  const auto parsed = std::from_chars(stamp.data(), stamp.data() + stamp.size(), process);
  if (parsed.ec != std::errc() || process <= 1 || process_stamp(process) != stamp) return false;
  return ::kill(-process, number) == 0;
}

}  // namespace skyward::io

#include "skyward/io/other_processes.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>

#include "skyward/io/event_loop.h"
#include "skyward/io/file.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/polling.h"
#include "skyward/io/process_entry.h"
#include "skyward/io/start_child.h"

namespace skyward::io {

namespace {

std::vector<ProcessEntry> all_processes() {
  std::vector<ProcessEntry> entries;
  for (const pid_t process : process_ids()) {
    if (auto entry = read_process_entry(process)) entries.push_back(*entry);
  }
  return entries;
}

// The program without its folder, and its arguments.
std::vector<std::string> command_of(pid_t process) {
  const std::string text = read_file(fmt::format("/proc/{}/cmdline", process)).value_or("");
  std::vector<std::string> words;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find('\0'));
    words.emplace_back(words.empty() ? word.substr(word.rfind('/') + 1) : word);
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  }
  return words;
}

// Without those whose command is `spared`, and theirs.
std::vector<ProcessEntry> descendants(const std::vector<std::string>& spared) {
  const std::vector<ProcessEntry> all = all_processes();
  std::unordered_multimap<pid_t, const ProcessEntry*> children;
  for (const ProcessEntry& entry : all) children.emplace(entry.parent, &entry);
  std::vector<ProcessEntry> found;
  std::vector<pid_t> ancestors{::getpid()};
  while (!ancestors.empty()) {
    const auto [first, last] = children.equal_range(ancestors.back());
    ancestors.pop_back();
    for (auto child = first; child != last; ++child) {
      if (!spared.empty() && command_of(child->second->pid) == spared) continue;
      found.push_back(*child->second);
      ancestors.push_back(child->second->pid);
    }
  }
  return found;
}

// Kills exactly the process of the entry, never a later one with its number; nothing if it has
// gone. The descriptor, if the kernel has such, tells when it is dead.
std::optional<FileDescriptor> kill_exactly(const ProcessEntry& victim) {
  FileDescriptor process = open_process(victim.pid);
  const auto present = read_process_entry(victim.pid);
  if (!present || present->started != victim.started) return std::nullopt;
  if (!process) {
    ::kill(victim.pid, SIGKILL);
  } else {
    signal_process(process, SIGKILL);
  }
  return process;
}

// Whether the process exits in time. `handle` is empty where the kernel has no descriptors of
// processes (Linux before 5.3).
bool wait_for_end(const ProcessEntry& process, const FileDescriptor& handle, Time deadline) {
  if (handle) return poll_until(handle.get(), POLLIN, deadline) > 0;
  while (true) {
    const auto now = read_process_entry(process.pid);
    if (!now || now->is_dead() || now->started != process.started) return true;
    if (EventLoop::now() >= deadline) return false;
    std::this_thread::sleep_for(kKernelPollInterval);  // the kernel tells only its parent
  }
}

// What end_process() does there.
bool end_by_number(pid_t process, int signal, Time deadline) {
  const auto begun = read_process_entry(process);
  if (!begun) return ::kill(process, 0) != 0 && errno == ESRCH;  // else /proc cannot be read
  ::kill(process, signal);
  return wait_for_end(*begun, {}, deadline);
}

std::vector<pid_t> family_above() {
  std::vector<pid_t> family;
  for (auto process = read_process_entry(::getpid()); process;
       process = read_process_entry(process->parent)) {
    family.push_back(process->pid);
  }
  return family;
}

struct Marked {
  std::vector<ProcessEntry> processes;
  std::vector<pid_t> blank;  // without any environment, as one is for a moment inside exec()
};

// Processes whose environment at their start held what begins so.
Marked marked_processes(const std::vector<std::string>& prefixes) {
  Marked found;
  // Entries first: only a process that has both that start and the mark is killed.
  for (const ProcessEntry& entry : all_processes()) {
    const std::string folder = fmt::format("/proc/{}", entry.pid);
    const auto environment = read_file(folder + "/environ");
    if (!environment) continue;
    // A process that has ended, and a thread of the kernel, run no program.
    std::error_code error;
    if (environment->empty() && std::filesystem::exists(folder + "/exe", error)) {
      found.blank.push_back(entry.pid);
    }
    for (std::string_view rest = *environment; !rest.empty();) {
      const std::string_view variable = rest.substr(0, rest.find('\0'));
      rest.remove_prefix(std::min(variable.size() + 1, rest.size()));
      const auto fits = [&](const std::string& prefix) { return variable.starts_with(prefix); };
      if (std::ranges::none_of(prefixes, fits)) continue;
      found.processes.push_back(entry);
      break;
    }
  }
  return found;
}

// False if it is no dead child of this process, or if it has an owner here.
bool reap_orphan(pid_t pid) {
  return !is_own_child(pid) && ::waitpid(pid, nullptr, WNOHANG) == pid;
}

}  // namespace

bool end_process(pid_t process, int signal, Duration patience) {
  const Time deadline = EventLoop::now() + patience;
  const FileDescriptor handle = open_process(process);
  if (!handle && errno == ESRCH) return true;
  if (!handle) return end_by_number(process, signal, deadline);
  if (!signal_process(handle, signal) && errno == EPERM) return false;  // another user's
  return poll_until(handle.get(), POLLIN, deadline) > 0;
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
    bool ended = false;
    for (const ProcessEntry& process : marked.processes) {
      if (std::ranges::find(spared, process.pid) != spared.end()) continue;
      any = true;
      const auto handle = kill_exactly(process);
      if (!handle || !wait_for_end(process, *handle, deadline)) continue;
      ended = true;
      ++killed;
    }
    const bool look_again = !std::ranges::includes(blank, marked.blank);
    if ((!any && !look_again) || EventLoop::now() >= deadline) return killed;
    if (!ended) std::this_thread::sleep_for(kKernelPollInterval);
    std::swap(blank, marked.blank);
  }
}

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

int kill_descendants(Duration timeout, const std::vector<std::string>& spared) {
  using namespace std::chrono_literals;
  const Time deadline = EventLoop::now() + timeout;
  std::set<std::pair<pid_t, std::uint64_t>> killed;
  while (true) {
    std::vector<FileDescriptor> dying;
    bool any = false;
    for (const ProcessEntry& entry : descendants(spared)) {
      if (entry.is_dead()) {
        reap_orphan(entry.pid);
        continue;
      }
      any = true;
      auto process = kill_exactly(entry);
      if (!process) continue;
      killed.emplace(entry.pid, entry.started);
      if (*process) dying.push_back(*std::move(process));
    }
    if (!any) break;
    // Until these are dead; then once more, for what they started meanwhile.
    for (const FileDescriptor& process : dying) poll_until(process.get(), POLLIN, deadline);
    if (dying.empty()) ::poll(nullptr, 0, 1);
    if (EventLoop::now() >= deadline) break;
  }
  return static_cast<int>(killed.size());
}

bool kill_process_in(int process, const std::string& directory) {
  // The descriptor names the process for good; only then is it looked at.
  const FileDescriptor handle = open_process(process);
  if (!handle) return false;
  std::error_code error;
  const auto stands_in = std::filesystem::read_symlink(fmt::format("/proc/{}/cwd", process), error);
  if (error || stands_in != std::filesystem::canonical(directory, error) || error) return false;
  return signal_process(handle, SIGKILL);
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

#include "skyward/io/process_entry.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <string>
#include <system_error>

#include "skyward/io/file.h"

namespace skyward::io {

// "1234 (name, which may hold anything) S 1 …": state, parent; field 20 is the number of
// threads, 22 the start time.
std::optional<ProcessEntry> read_process_entry(pid_t pid) {
  const std::string text =
      read_file("/proc/" + std::to_string(pid) + "/stat").value_or(std::string());
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return std::nullopt;
  ProcessEntry entry{.pid = pid, .state = text[name_end + 2]};
  const char* at = text.data() + name_end + 3;
  const char* const end = text.data() + text.size();
  for (int field = 4; field <= 22 && at < end; ++field) {
    while (at < end && *at == ' ') ++at;
    if (field == 4) std::from_chars(at, end, entry.parent);
    if (field == 20) std::from_chars(at, end, entry.threads);
    if (field == 22) std::from_chars(at, end, entry.started);
    while (at < end && *at != ' ') ++at;
  }
  return entry;
}

std::vector<pid_t> process_ids() {
  std::vector<pid_t> ids;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc", error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    pid_t id = 0;
    const auto [stop, bad] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (bad == std::errc() && stop == name.data() + name.size()) ids.push_back(id);
  }
  return ids;
}

FileDescriptor open_process(pid_t pid) {
  return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

bool signal_process(const FileDescriptor& process, int signal) {
  return ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0) == 0;
}

}  // namespace skyward::io

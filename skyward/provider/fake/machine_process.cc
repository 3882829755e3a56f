#include "skyward/provider/fake/machine_process.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>

#include "skyward/io/file.h"
#include "skyward/io/other_processes.h"
#include "skyward/io/private_directory.h"
#include "skyward/io/process.h"

namespace skyward::provider::fake {

namespace {

constexpr std::string_view kPidFile = "/.skyward-pid";
constexpr std::string_view kOffFile = "/.skyward-off";
constexpr std::string_view kNotice = "/.skyward-notice";

// Writes its pid before it checks the power, and power_off() cuts the power before it reads the
// pid: one of the two sees the other.
constexpr const char* kStart = R"sh(
echo $$ >.skyward-pid
if [ -e .skyward-off ]; then
  echo 'the fake cloud has taken this machine back' >&2
  exit 1
fi
exec "$@"
)sh";

}  // namespace

std::vector<std::string> MachineProcess::command(const std::vector<std::string>& command) const {
  std::vector<std::string> out = {"/bin/sh", "-c", kStart, "machine"};
  out.insert(out.end(), command.begin(), command.end());
  return out;
}

void MachineProcess::announce_end(Duration left, std::string_view reason) const {
  const auto left_ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
  if (!io::is_directory(directory_)) return;  // the machine is gone
  (void)io::write_private_file(directory_ + std::string(kNotice),
                               fmt::format("{} {}\n", left_ms, reason));
}

void MachineProcess::power_off() const {
  if (!io::is_directory(directory_)) return;
  if (!io::write_private_file(directory_ + std::string(kOffFile), "")) return;
  const auto text = io::read_file(directory_ + std::string(kPidFile));
  if (!text) return;
  int pid = 0;
  std::from_chars(text->data(), text->data() + text->size(), pid);
  if (pid > 1) io::kill_process_in(pid, directory_);
}

}  // namespace skyward::provider::fake

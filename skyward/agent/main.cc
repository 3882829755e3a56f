// skyward-agent: the daemon of one node. `skyward-agent run` speaks frames (wire/codec.h) on its standard input and output, which may
// be one Unix socket or two pipes; `skyward-agent --version` says what it is.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string_view>

#include "skyward/agent/loop.h"
#include "skyward/spec/limits.h"

namespace {

using skyward::io::FileDescriptor;

bool is_socket(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode);
}

FileDescriptor move_away(int descriptor) {
  return FileDescriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 3));
}

// The standard streams carry frames, and nothing that anybody prints may get among them: they move to other numbers, and input
// becomes empty, output goes where errors go.
int run() {
  const bool socket = is_socket(STDIN_FILENO);
  FileDescriptor read = move_away(STDIN_FILENO);
  FileDescriptor write = socket ? FileDescriptor() : move_away(STDOUT_FILENO);
  const FileDescriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!read || (!socket && !write) || !nothing) {
    fmt::print(stderr, "skyward-agent: standard input and output are not open\n");
    return 2;
  }
  ::dup2(nothing.get(), STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  for (const FileDescriptor* end : {&read, &write})
    if (*end) skyward::io::set_non_blocking(end->get(), true);
  ::signal(SIGPIPE, SIG_IGN);
  // A crashed function must not fill the disk; its stack is in the task's output.
  const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  return skyward::agent::Loop(std::move(read), std::move(write)).run();
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view command = count == 2 ? arguments[1] : "";
  if (command == "run") return run();
  if (command == "--version") {
    fmt::print("skyward-agent {} protocol {}\n", SKYWARD_VERSION, skyward::kProtocolVersion);
    return 0;
  }
  fmt::print(stderr,
             "usage: skyward-agent run | --version\n"
             "Started by Skyward on each node; speaks its protocol on standard input and output.\n");
  return 2;
}

#include "skyward/agent/connect.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/agent/loop.h"
#include "skyward/agent/node_directory.h"
#include "skyward/base/error.h"
#include "skyward/base/stderr_line.h"
#include "skyward/io/daemon.h"
#include "skyward/io/ending_signals.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/file_lock.h"
#include "skyward/io/machine.h"
#include "skyward/io/other_processes.h"
#include "skyward/io/own_process.h"
#include "skyward/io/private_directory.h"
#include "skyward/io/unix_socket.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/link_limits.h"

namespace skyward::agent {
namespace {

// Other processes that start daemons here need milliseconds.
constexpr Duration kStartLockTimeout = std::chrono::seconds(10);
// A daemon kills its processes before it exits.
constexpr Duration kFormerPatience = std::chrono::seconds(5);
// A daemon that was stopped (SIGSTOP) takes no connections.
constexpr Duration kAnswerPatience = std::chrono::seconds(5);

std::string nodes_of(const std::string& root) { return root + "/nodes"; }
std::string directory_of(const std::string& root, const DaemonId& daemon) {
  return fmt::format("{}/{}", nodes_of(root), daemon.name());
}

void say(std::string_view words) {
  std::fputs(fmt::format("{}{}\n", kEntryWord, words).c_str(), stdout);
  std::fflush(stdout);
}

// One line: the engine parses its first word, people read the rest.
int say_error(const Error& error) {
  const bool passing = error.kind == ErrorKind::unavailable || error.kind == ErrorKind::exhausted;
  say((passing ? "busy " : "error ") + error.message +
      (error.hint.empty() ? "" : " (" + error.hint + ")"));
  return 1;
}

// Runs before anything else looks there: anybody may write to /tmp, and another user who made the
// directory first could pose as the daemon.
Status make_roots(const std::string& root) {
  Status made = io::ensure_private_directory(root);
  if (made) made = io::ensure_private_directory(nodes_of(root));
  if (!made) made.error().hint = "its owner or root can remove it";
  return made;
}

// Failures go to stderr, because the log is removed with the directory.
void remove_directory(const std::string& path) {
  const Status removed = io::remove_tree(path);
  if (!removed) write_stderr_line("skyward-agent: " + removed.error().message);
}

// A daemon holds its directory, too: what cleans up /tmp may have removed its lock file.
bool is_held(const std::string& path) {
  return !io::FileLock::try_lock_directory(path) && errno == EWOULDBLOCK;
}

bool has_daemon(const std::string& path) {
  return io::FileLock::holder(path + "/lock") || is_held(path);
}

// A daemon whose locks are free is dead: ends and removes what it has left. The caller holds the
// lock of all starts, so that no other process is between making its directory and locking it.
void remove_abandoned(const std::string& nodes, const std::string& except) {
  for (const std::string& name : io::list_directory(nodes)) {
    const std::string path = nodes + "/" + name;
    if (path == except || !io::is_directory(path)) continue;
    if (has_daemon(path)) continue;
    const auto lock = io::FileLock::try_lock(path + "/lock");
    if (!lock) continue;
    end_left_behind(path);
    remove_directory(path);
  }
}

// Ends the daemon in this directory, if there is one, and every process below it. False if the
// daemon survives, as when its number is nowhere to be found; then it keeps its directory.
bool end_daemon(const std::string& path) {
  if (const auto daemon = io::holder_of(path + "/lock")) {
    const Duration patience = kEndPatience + (has_end_script(path) ? kUnmountTimeout : Duration{});
    if (!io::end_process(*daemon, io::kTerminateSignal, patience)) {
      (void)io::end_process(*daemon, io::kKillSignal, kKillTimeout);
    }
  }
  if (has_daemon(path)) return false;
  if (io::is_directory(path)) end_left_behind(path);
  remove_directory(path);
  return true;
}

// What a new daemon inherits from the process that starts it.
struct NewDaemon {
  std::string directory;
  io::FileDescriptor lock;
  io::FileDescriptor listener;
};

Result<NewDaemon> prepare_daemon(const std::string& root, const DaemonId& daemon,
                                 const std::vector<DaemonId>& former) {
  NewDaemon prepared;
  prepared.directory = directory_of(root, daemon);
  // They occupy the machine's memory and devices, and nobody waits for their results.
  for (const DaemonId& one : former) (void)end_daemon(directory_of(root, one));
  remove_abandoned(nodes_of(root), prepared.directory);
  if (const Status made = io::ensure_private_directory(prepared.directory); !made)
    return fail(made);
  auto lock = io::lock_file(prepared.directory + "/lock", kFormerPatience);
  if (!lock || is_held(prepared.directory)) {
    return fail(ErrorKind::unavailable, "the previous agent of this node is still shutting down",
                "Skyward retries");
  }
  prepared.lock = *std::move(lock);
  end_left_behind(prepared.directory);
  auto listener = io::listen_at(prepared.directory + "/socket");
  if (!listener) return fail(listener);
  prepared.listener = *std::move(listener);
  return prepared;
}

int serve(const DaemonId& daemon, NewDaemon prepared) {
  const io::FileDescriptor kept = io::lock_directory(prepared.directory);
  io::note_holder(prepared.lock.get());
  io::set_variable(kNodeVariable, daemon.name());
  io::set_variable(kDirectoryVariable, prepared.directory);
  io::ignore_write_signals();
  io::forbid_core_files();
  io::allow_many_files();
  const int code = AgentLoop(std::move(prepared.listener), prepared.directory).run();
  remove_directory(prepared.directory);
  return code;
}

// The daemon gets the command's streams themselves: no byte passes through this process. What runs
// the command takes it for alive until this process ends, which is when the daemon lets go.
int pass_on(io::FileDescriptor socket) {
  say("connected");
  auto streams = io::take_standard_streams();
  if (!streams) return 2;
  std::vector<int> ends{streams->read.get()};
  if (streams->write) ends.push_back(streams->write.get());
  const bool passed = io::pass_descriptors(socket.get(), ends);
  streams = io::StandardStreams{};  // so that they end when the daemon closes its own
  if (passed) io::await_close(socket.get());
  return passed ? 0 : 2;
}

std::optional<io::FileDescriptor> find_daemon(const std::string& root, const DaemonId& daemon) {
  return io::connect_to(directory_of(root, daemon) + "/socket", kAnswerPatience);
}

}  // namespace

std::string DaemonId::name() const { return fmt::format("{}.{}.{}.", pool, node.value, life); }

std::string user_root() {
  return fmt::format("{}/skyward-{}", io::first_on_disk({"/tmp", "/var/tmp"}), io::user_id());
}

int connect(const std::string& root, const DaemonId& daemon, bool start,
            const std::vector<DaemonId>& former) {
  if (const Status made = make_roots(root); !made) return say_error(made.error());
  if (auto socket = find_daemon(root, daemon)) return pass_on(*std::move(socket));
  if (!start) {
    if (has_daemon(directory_of(root, daemon))) {
      return say_error({ErrorKind::unavailable, "its agent does not take connections there", {}});
    }
    say("gone");
    return 1;
  }
  std::optional<io::FileDescriptor> starting = io::lock_file(root + "/start", kStartLockTimeout);
  if (!starting) {
    return say_error(
        {ErrorKind::unavailable, "another process holds the lock " + root + "/start", {}});
  }
  if (auto socket = find_daemon(root, daemon)) {  // another process was faster
    starting.reset();
    return pass_on(*std::move(socket));
  }
  auto prepared = prepare_daemon(root, daemon, former);
  if (!prepared) return say_error(prepared.error());
  const auto split =
      io::split_daemon(prepared->directory, {prepared->lock.get(), prepared->listener.get()});
  if (!split) return say_error(split.error());
  if (*split) {
    starting->release();  // closed with all others
    return serve(daemon, *std::move(prepared));
  }
  prepared->lock.reset();
  prepared->listener.reset();
  starting.reset();
  auto socket = find_daemon(root, daemon);
  if (!socket) {
    return say_error(
        {ErrorKind::unavailable,
         "the agent exited right after it started; see " + prepared->directory + "/log",
         {}});
  }
  return pass_on(*std::move(socket));
}

int end_daemons(const std::string& root, const std::string& prefix) {
  const Status made = make_roots(root);
  if (!made) write_stderr_line("skyward-agent: " + made.error().message);
  bool all = made.has_value();
  const std::string nodes = nodes_of(root);
  for (const std::string& name : made ? io::list_directory(nodes) : std::vector<std::string>()) {
    if (!name.starts_with(prefix)) continue;
    all = end_daemon(nodes + "/" + name) && all;
  }
  io::kill_marked(kNodeVariable, {prefix}, kKillTimeout);
  return all ? 0 : 1;
}

}  // namespace skyward::agent

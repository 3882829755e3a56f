#pragma once

// Child processes. A child starts with exactly the descriptors it is given (all others are
// close-on-exec), default signals and an empty signal mask; it is reaped by a pidfd on the loop, so
// no SIGCHLD handler touches the user's program.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/io/event_loop.h"

namespace skyward::io {

struct SpawnOptions {
  std::vector<std::string> command{};                              // argv; [0] is looked up on PATH
  std::vector<std::pair<std::string, std::string>> environment{};  // set over the parent's
  std::vector<std::string> unset{};  // names removed from the parent's
  std::string directory{};           // working directory; empty: the parent's
  std::vector<std::pair<int, int>>
      descriptors{};                   // (ours, number in the child); 0–2 default to /dev/null
  bool new_session = false;            // setsid: out of reach of the terminal's Ctrl-C
  bool die_with_parent = false;        // SIGKILL when the spawning thread ends (PR_SET_PDEATHSIG)
  bool ignore_ending_signals = false;  // SIGTERM and SIGHUP, until the child handles them
  // Of run_command(): ends it early, with SIGTERM.
  std::stop_token stop{};
  // Of run_command(): the bytes that it may print, both outputs together.
  std::size_t max_output = std::size_t{64} << 20;
};

struct ExitStatus {
  int code = 0;                    // exit code, if `signal` is 0
  int signal = 0;                  // the signal that ended it
  std::int64_t max_rss_bytes = 0;  // peak resident memory

  // "exit code 3", "killed by signal 11 (SIGSEGV)".
  std::string describe() const;
};

class Process {
 public:
  // Starts the command; from the loop thread. `on_exit` is called once on the loop thread, when the
  // child is dead; kill_group() still reaches what it left behind until on_exit returns. on_exit
  // may destroy the Process. Fails with `invalid` when the program does not exist or the directory
  // cannot be entered.
  static Result<std::unique_ptr<Process>> spawn(EventLoop& loop, const SpawnOptions& options,
                                                std::function<void(ExitStatus)> on_exit);
  // Kills (SIGKILL) and reaps a child that still runs. Gives up two seconds after the first kill if
  // the kernel does not let it exit.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const;
  // To the child itself; does nothing when it has exited (never signals a recycled pid).
  void signal(int number);
  void interrupt();  // SIGINT to the child itself
  void notify();     // SIGURG to the child itself, which ignores it unless it handles it
  // SIGKILL to its whole session or process group, when new_session was set.
  void kill_group();

 private:
  struct Impl;
  explicit Process(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  // shared with on_exit in progress, which may destroy this
};

// Runs a command to its end on the calling thread (a blocking one, never the loop) and returns what
// it printed. Fails with `cancelled` when it is stopped, and with `unsupported` when something else
// in this process took its exit code. After `timeout`, or more than `max_output` bytes, it is
// killed; if even that does not make it exit, it is left behind.
struct CommandResult {
  ExitStatus status;
  std::string out;
  std::string err;
};
Result<CommandResult> run_command(const SpawnOptions& options, Duration timeout,
                                  std::string_view input = {});

// Why a command failed, in its own words: the last two lines that it wrote (on stdout if it wrote
// there, else on stderr), or else how it ended.
std::string failure_text(const CommandResult& result);

}  // namespace skyward::io

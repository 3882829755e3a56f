#pragma once

// What one node of a run sends, read on a thread of its own: output goes to this program's streams,
// files to a directory.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "skyward/cli/run_policy.h"
#include "skyward/cli/run_results.h"
#include "skyward/pool/handle.h"
#include "skyward/run/order.h"

namespace skyward::cli {

// Standard output and standard error of this program, for several threads.
class RunTerminal {
 public:
  // Writes all of it, waiting for a slow reader. False when that is not possible any more.
  bool write(int stream, std::string_view bytes);
  // "skyward: …" on standard error.
  void tell(const std::string& line);
  // The same, but drops the line where it would have to wait for a reader.
  void tell_now(const std::string& line);
  bool is_broken() const { return broken_; }

 private:
  std::mutex out_mutex_;
  std::mutex err_mutex_;
  std::atomic<bool> broken_{false};  // standard output
};

// How the command on a node stands.
struct CommandState {
  bool begun = false;                // the command runs, or has run
  std::optional<int> code{};         // its exit code
  std::optional<std::string> why{};  // what Skyward failed at
  bool incomplete = false;           // something that the command wrote did not come back
  bool done = false;                 // nothing more comes
};

// What all nodes of a run share.
struct RunShared {
  RunTerminal terminal{};
  std::mutex mutex{};  // of the states, and of `first_code`
  std::condition_variable changed{};
  int first_code = 0;         // of the first command that failed, or kRunFailed
  bool failed_first = false;  // … which is Skyward's: a node failed before any command did
};

class RunNode {
 public:
  // `prefix`: of its lines; empty: its output is passed on as it is. `output`: empty, or an
  // existing directory.
  RunNode(RunShared& shared, Handle handle, std::string prefix, std::string output);

  // Until nothing more comes. Does not throw.
  void read();
  CommandState state() const;
  // While the command has not begun, and afterwards when nobody waits for it any more.
  void cancel() {
    cancelled_ = true;
    handle_.cancel();
  }

 private:
  void take(const run::Piece& piece);
  void pass_on(int stream, std::string_view bytes);
  void take_end(const run::Piece& piece);
  void tell(const std::string& line);
  void read_all();
  void update(const std::function<void(CommandState&)>& change);

  RunShared& shared_;
  Handle handle_;
  const std::string prefix_;
  RunResults results_;
  PrefixedLines out_;
  PrefixedLines err_;
  std::atomic<bool> cancelled_{false};
  CommandState state_;
};

}  // namespace skyward::cli

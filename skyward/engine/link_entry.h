#pragma once

// The exchange with a node that is reached through a shell, before the first frame: it checks that
// the agent is there, uploads it if not, and starts it. The command's last argument is a line for
// the node's shell, which answers with lines that begin with "skyward-agent: ". Other output of
// login shells is skipped.
//
//   machine <system> <machine>   what it is
//   need <hash> <how>            send this file: its size in digits, a line feed, and that many
//                                bytes, packed (gzip) or plain
//   connected                    frames from here on
//   gone                         the daemon has exited (when the engine has been connected to it
//                                before)
//   busy <text>                  not now: retry
//   error <text>                 impossible, and why

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "skyward/base/bytes.h"
#include "skyward/base/error.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/spec/id.h"

namespace skyward::engine {

// A file that the node must have before its agent starts.
struct EntryFile {
  std::string path;        // here
  std::string hash;        // SHA-256, hex
  std::string place;       // there, below the user's cache directory for skyward
  std::string machine{};   // of an agent: what it runs on, as `uname -m` says it
  std::string unless{};    // not sent where this command succeeds; empty: always sent
  std::uint64_t size = 0;  // one of another size there is damaged, and replaced
  // Open, if there: read even when its name is gone.
  std::shared_ptr<const io::FileDescriptor> file{};
};

// Identifies an agent program, once for each path in this process: later, the same file is used,
// even if there is another one at that path. Blocks; any thread. Fails with `invalid`.
Result<EntryFile> inspect_agent(const std::string& path);

// Which daemon of the node.
struct EntryPlace {
  std::string pool;
  NodeId node;
  std::uint32_t life = 1;  // counts the machines that have been this node
};

// One line for any shell (POSIX, csh, fish): puts the agent for the node's machine and the files
// into the user's cache on the node and becomes its `skyward-agent connect`. Unless it resumes with
// a running daemon, it ends the `former` ones that it finds (engine/lost_agents.h). Where no agent
// is for the machine, it asks for the first one; whoever reads its answers hangs up before that.
std::string entry_line(std::span<const EntryFile> agents, std::span<const EntryFile> files,
                       const EntryPlace& place, bool resume, const std::string& former = {});
// One line that ends the daemon and everything below it, even if the daemon itself was killed.
std::string sweep_line(std::span<const EntryFile> agents, const EntryPlace& place);

// Reads the answers. Pure.
class EntryReader {
 public:
  struct Word {
    enum class Kind : std::uint8_t { machine, need, connected, gone, busy, error } kind;
    std::string text;     // the machine, the hash, or what is wrong
    bool packed = false;  // need
  };

  void feed(ByteView bytes) { pending_ += as_text(bytes); }
  // The next answer, if it is complete. Fails with `invalid` after too much other output.
  Result<std::optional<Word>> next();
  // Bytes that follow the last answer.
  std::size_t left() const { return pending_.size(); }
  // The last lines that were not answers: other output of the shell.
  const std::string& noise() const { return noise_; }

 private:
  std::string pending_;
  std::string noise_;
  std::size_t passed_over_ = 0;
};

}  // namespace skyward::engine

#pragma once

// The first words with a node that is reached through a shell, before any frame: is the agent
// there, take it, start. A line for the shell of the node goes with the command; it answers with
// lines that begin with "skyward-agent: ". What login shells print besides is passed over.
//
//   machine <system> <machine>   what it is
//   need <hash> <how>            send this file: its size in digits, a line feed, and so many
//                                bytes, packed (gzip) or plain
//   connected                    frames from here on
//   gone                         the daemon is no more (asked for when the engine has spoken with
//                                it before)
//   busy <text>                  not now
//   error <text>                 it cannot be; in the words of the node

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "skyward/base/bytes.h"
#include "skyward/base/error.h"
#include "skyward/spec/id.h"

namespace skyward::engine {

// A file that the node must have before its agent starts.
struct EntryFile {
  std::string path;   // here
  std::string hash;   // SHA-256, hex
  std::string place;  // there, below the user's cache directory for skyward
};

// What an agent program is; once for each file in the life of this process. Blocks; any thread.
// Fails with `invalid`.
struct AgentProgram {
  std::string hash;
  std::string machine;  // as `uname -m` says it
};
Result<AgentProgram> inspect_agent(const std::string& path);

// The file as it is sent, packed or plain, kept for the next node. Blocks; any thread. Fails with
// `invalid`.
Result<SharedBytes> load_upload(const std::string& path, bool packed);

// Which daemon of the node.
struct EntryPlace {
  std::string pool;
  NodeId node;
  std::uint32_t life = 1;  // counts the machines that have stood in the node's place
};

// One line for any shell (POSIX, csh, fish): brings the files into the user's cache on the node,
// the agent first, and becomes its `skyward-agent connect`. Unless it goes on with a daemon that is
// there, it ends the `former` ones that it finds (engine/lost_agents.h).
std::string entry_line(std::span<const EntryFile> files, const EntryPlace& place, bool resume,
                       const std::string& former = {});
// One line that ends the daemon and everything below it, also what it left when it was killed.
std::string sweep_line(const EntryFile& agent, const EntryPlace& place);

// Reads the answers. Pure.
class EntryReader {
 public:
  struct Word {
    enum class Kind : std::uint8_t { machine, need, connected, gone, busy, error } kind;
    std::string text;     // the machine, the hash, or what is wrong
    bool packed = false;  // need
  };

  void feed(ByteView bytes) { pending_ += as_text(bytes); }
  // The next answer, if it is whole. Fails with `invalid` when too much came that is no answer.
  Result<std::optional<Word>> next();
  // Bytes that follow the last answer.
  std::size_t left() const { return pending_.size(); }
  // The last lines that were no answers: what the shell had to say.
  const std::string& noise() const { return noise_; }

 private:
  std::string pending_;
  std::string noise_;
  std::size_t passed_over_ = 0;
};

}  // namespace skyward::engine

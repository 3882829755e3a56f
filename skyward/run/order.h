#pragma once

// What `skyward run` sends to a node, and what comes back while the command runs. Driver and agent
// are of one version; these structs travel as they are (call/plain_struct.h).

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "skyward/io/file_tree.h"

namespace skyward::run {

// The first word of a command: stands for the interpreter of the node's image.
inline constexpr const char* kPython = "{python}";

// What is in a tree: the content of the files follows, in this order, back to back.
struct SentEntry {
  io::EntryKind kind = io::EntryKind::file;
  std::string path;
  std::uint32_t mode = 0;
  std::uint64_t size = 0;
  std::string target;
};

struct RunOrder {
  std::string id;  // of this run, hexadecimal: names its directory on the node
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;  // set over the worker's
  std::vector<SentEntry> entries;
  std::string output;  // a directory below the working directory; empty: nothing comes back
};

enum class PieceKind : std::uint8_t {
  begun,      // the command runs
  out,        // bytes that it wrote to standard output
  err,        // … to standard error
  ended,      // code and signal, or in `bytes` why it could not be started
  directory,  // what comes back: path and mode
  link,       // path and, in `bytes`, the target
  file,       // path and mode; its bytes follow
  data,       // of that file
  note,       // in `bytes`, why this path, or the rest of this file, does not come back
  left_out,   // in `bytes`, why this path never comes back
};

inline constexpr std::size_t kDataBytes = std::size_t{1} << 20;  // of a piece, at most

struct Piece {
  PieceKind kind = PieceKind::begun;
  std::string path;
  std::uint32_t mode = 0;
  int code = 0;
  int signal = 0;
  std::string bytes;
};

// As shells say it: a program that is not there, and one that cannot be run.
inline constexpr int kNotFound = 127;
inline constexpr int kNotRunnable = 126;

}  // namespace skyward::run

#pragma once

// Trees of files that travel between machines: listed and read here, written there. Paths are
// relative to the root, with '/' between names. Links are kept as links and never followed, so
// that no path, whoever wrote it, leads out of the root.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/io/file_descriptor.h"

namespace skyward::io {

enum class EntryKind : std::uint8_t { directory, file, link, other };

struct TreeEntry {
  EntryKind kind = EntryKind::file;
  std::string path{};
  std::uint32_t mode = 0;  // permissions alone
  std::uint64_t size = 0;  // of a file, in bytes
  std::string target{};    // of a link
};

// Whether a path is relative, not empty, and made of names only: no "..", ".", or empty name.
bool is_inner_path(std::string_view path);
// Whether a link at this inner path with this target leads to a place below the root, whatever else
// is there: ".." only at its beginning, and not too many.
bool is_inner_link(std::string_view path, std::string_view target);

// What is at a path below the root; empty when there is nothing.
std::optional<TreeEntry> entry_at(const std::string& root, const std::string& path);

// Everything below the root, sorted by path, so that a directory comes before what it holds.
// `enters`: whether to list what is in that directory, or is that file. Fails when a directory
// cannot be read.
Result<std::vector<TreeEntry>> list_tree(
    const std::string& root, const std::function<bool(std::string_view path)>& wanted = {});

// Reads a regular file at an inner path in pieces; not through links.
class TreeFile {
 public:
  static Result<TreeFile> open(const std::string& root, const std::string& path);
  // 0 at the end.
  Result<std::size_t> read(std::span<std::byte> to);

 private:
  TreeFile(FileDescriptor file, std::string name) : file_(std::move(file)), name_(name) {}
  FileDescriptor file_;
  std::string name_;
};

// Writes a tree below an existing directory. What is in the way is replaced, except a directory.
// Refuses paths that are not inner ones, links that lead out of the root, and paths through links.
class TreeWriter {
 public:
  static Result<TreeWriter> open(const std::string& root);

  Status make_directory(const std::string& path, std::uint32_t mode);
  Status make_link(const std::string& path, const std::string& target);
  // A new file, to which write() appends from now on.
  Status begin_file(const std::string& path, std::uint32_t mode);
  Status write(std::span<const std::byte> bytes);
  // Of the last file; reports what writing it came to.
  Status end_file();

 private:
  TreeWriter(FileDescriptor root, std::string name) : root_(std::move(root)), name_(name) {}
  // The directory that holds the path, created where it is missing.
  Result<FileDescriptor> folder_of(const std::string& path) const;
  std::unexpected<Error> failed(const char* what, const std::string& path, int error) const;

  FileDescriptor root_;
  std::string name_;
  FileDescriptor file_;
  std::string file_path_;
};

}  // namespace skyward::io

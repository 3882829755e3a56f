#pragma once

// Trees of files that travel between machines: listed and read here, written there. Paths are
// relative to the root, with '/' between names. Links are kept as links and never followed, so
// that no path, whoever wrote it, leads out of the root.

#include <cstdint>
#include <functional>
#include <memory>
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
  std::uint32_t mode = 0;        // permissions alone
  std::uint64_t size = 0;        // of a file, in bytes
  std::int64_t modified_ns = 0;  // of a file, since 1970
  std::string target{};          // of a link
};

// Whether a path is relative, not empty, and made of names only: no "..", ".", or empty name.
bool is_inner_path(std::string_view path);
// Whether a link at this inner path with this target leads to a place below the root, whatever else
// is there: ".." only at its beginning, and not too many.
bool is_inner_link(std::string_view path, std::string_view target);

// What is at a path below the root; empty when there is nothing, or a link is on the way there.
std::optional<TreeEntry> entry_at(const std::string& root, const std::string& path);

// Everything below the root, sorted by path, so that a directory comes before what it holds.
// `wanted`: whether to list a file, or a directory with its contents. `unreadable` is called with
// each path that cannot be read. Without it, or if the root cannot be read, the call fails.
Result<std::vector<TreeEntry>> list_tree(
    const std::string& root, const std::function<bool(std::string_view path)>& wanted = {},
    const std::function<void(const std::string& path, const Error& why)>& unreadable = {});

// Free space of the file system that holds the path. Empty when that is not known.
struct DiskSpace {
  std::uint64_t free = 0;  // bytes
  std::uint64_t total = 0;
  std::uint64_t free_files = 0;
  std::uint64_t total_files = 0;  // 0: there is no limit
};
std::optional<DiskSpace> disk_space(const std::string& path);
inline constexpr std::uint64_t kDiskReserve = std::uint64_t{512} << 20;
// Pure: whether storing `bytes` and so many new files leaves a reserve for others: 1 % of the disk,
// at most `most` bytes, and 1 % of the files that it can hold.
bool leaves_reserve(const DiskSpace& space, std::uint64_t bytes, std::uint64_t files = 0,
                    std::uint64_t most = kDiskReserve);

// Reads a regular file at an inner path in pieces; not through links, in the last name or before.
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
// Fails with `exhausted` when the disk is full.
class TreeWriter {
 public:
  static Result<TreeWriter> open(const std::string& root);

  Status make_directory(const std::string& path, std::uint32_t mode);
  Status make_link(const std::string& path, const std::string& target);
  // A new file, to which write() appends from now on. Its name is a temporary one until end_file().
  Status begin_file(const std::string& path, std::uint32_t mode);
  Status write(std::span<const std::byte> bytes);
  // The last file is whole: it takes the place of what has its name.
  Status end_file();
  // Waits until all that was written is on the disk, and not only in memory.
  Status sync() const;
  // The last file will not be whole: removes what there is of it.
  void drop_file() { begun_.reset(); }

 private:
  // A file that is being written. Removes it unless it got its name.
  struct BegunFile {
    FileDescriptor folder{};
    FileDescriptor file{};
    std::string path{};
    std::string name{};
    std::string temporary{};

    BegunFile() = default;
    ~BegunFile();
    BegunFile(const BegunFile&) = delete;
    BegunFile& operator=(const BegunFile&) = delete;
  };

  TreeWriter(FileDescriptor root, std::string name) : root_(std::move(root)), name_(name) {}
  // The directory that holds the path, created where it is missing.
  Result<FileDescriptor> folder_of(const std::string& path) const;
  std::unexpected<Error> failed(const char* what, const std::string& path, int error) const;

  FileDescriptor root_;
  std::string name_;
  std::unique_ptr<BegunFile> begun_;
};

}  // namespace skyward::io

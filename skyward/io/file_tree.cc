#include "skyward/io/file_tree.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "skyward/io/machine.h"

namespace skyward::io {

namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kModeBits = 0777;
// A directory that this process must still be able to fill.
constexpr std::uint32_t kOwnerAll = 0700;

// Cuts the first name off a path.
std::string_view take_name(std::string_view& path) {
  const std::size_t slash = path.find('/');
  const std::string_view name = path.substr(0, slash);
  path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
  return name;
}

std::string last_name(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

// The directory that holds an inner path, entered name by name and never through a link. `missing`:
// the rights of directories that are made on the way; without it none is. Empty: errno says why.
FileDescriptor enter_folder(int root, std::string_view path,
                            std::optional<mode_t> missing = std::nullopt) {
  constexpr int kFolder = O_RDONLY | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW;
  FileDescriptor folder(::fcntl(root, F_DUPFD_CLOEXEC, 3));
  while (folder) {
    const std::string name(take_name(path));
    if (path.empty()) break;
    if (missing && ::mkdirat(folder.get(), name.c_str(), *missing) != 0 && errno != EEXIST) {
      const int error = errno;
      folder.reset();
      errno = error;
      break;
    }
    folder = FileDescriptor(::openat(folder.get(), name.c_str(), kFolder));
  }
  return folder;
}

FileDescriptor open_root(const std::string& root) {
  return FileDescriptor(::open(root.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY));
}

std::string target_of(int folder, const std::string& name) {
  std::string target(4096, '\0');  // PATH_MAX
  const ssize_t size = ::readlinkat(folder, name.c_str(), target.data(), target.size());
  target.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return target;
}

// What has this name in the directory. `path`: as the entry has it. Empty: errno says why.
std::optional<TreeEntry> entry_in(int folder, const std::string& name, const std::string& path) {
  struct stat status{};
  if (::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  TreeEntry entry{.kind = EntryKind::other, .path = path, .mode = status.st_mode & kModeBits};
  if (S_ISDIR(status.st_mode)) entry.kind = EntryKind::directory;
  if (S_ISREG(status.st_mode)) {
    entry.kind = EntryKind::file;
    entry.size = static_cast<std::uint64_t>(status.st_size);
    entry.modified_ns =
        std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  }
  if (S_ISLNK(status.st_mode)) {
    entry.kind = EntryKind::link;
    entry.target = target_of(folder, name);
  }
  return entry;
}

// Makes room for something that is not a directory, or is one. False: errno says what is there.
bool remove_file(int folder, const std::string& name) {
  return ::unlinkat(folder, name.c_str(), 0) == 0 || errno == ENOENT;
}

std::size_t names_in(std::string_view path) {
  return static_cast<std::size_t>(std::ranges::count(path, '/')) + 1;
}

Error explain(const std::string& what, int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return {ErrorKind::exhausted, fmt::format("{}: {}", what, errno_text(error)),
              "the disk is full: free some space there"};
    case EACCES:
    case EPERM:
    case EROFS:
      return {ErrorKind::denied, fmt::format("{}: {}", what, errno_text(error)),
              "check the permissions of the file and of the directory that it is in"};
    case ELOOP:
    case ENOTDIR:
      return {ErrorKind::denied,
              fmt::format("{}: a link or a file is where a directory must be", what),
              "remove it; files are not written through links"};
    default:
      return {ErrorKind::unavailable, fmt::format("{}: {}", what, errno_text(error)), ""};
  }
}

}  // namespace

bool is_inner_path(std::string_view path) {
  if (path.empty() || path.ends_with('/') || path.contains('\0')) return false;
  while (!path.empty()) {
    const std::string_view name = take_name(path);
    if (name.empty() || name == "." || name == "..") return false;
  }
  return true;
}

bool is_inner_link(std::string_view path, std::string_view target) {
  if (!is_inner_path(path) || target.empty() || target.contains('\0')) return false;
  std::size_t depth = names_in(path) - 1;
  while (target == ".." || target.starts_with("../")) {
    if (depth-- == 0) return false;
    take_name(target);
  }
  return target.empty() || is_inner_path(target);
}

std::optional<TreeEntry> entry_at(const std::string& root, const std::string& path) {
  if (!is_inner_path(path)) return std::nullopt;
  const FileDescriptor top = open_root(root);
  if (!top) return std::nullopt;
  const FileDescriptor folder = enter_folder(top.get(), path);
  return folder ? entry_in(folder.get(), last_name(path), path) : std::nullopt;
}

Result<std::vector<TreeEntry>> list_tree(
    const std::string& root, const std::function<bool(std::string_view)>& wanted,
    const std::function<void(const std::string&, const Error&)>& unreadable) {
  std::vector<TreeEntry> entries;
  std::vector<std::string> left = {""};
  while (!left.empty()) {
    const std::string folder = std::move(left.back());
    left.pop_back();
    std::error_code error;
    const std::string whole = folder.empty() ? root : root + "/" + folder;
    auto at = fs::directory_iterator(whole, error);
    for (; !error && at != fs::directory_iterator(); at.increment(error)) {
      const std::string name = at->path().filename().native();
      const std::string path = folder.empty() ? name : folder + "/" + name;
      if (wanted && !wanted(path)) continue;
      auto entry = entry_in(AT_FDCWD, at->path().native(), path);
      if (!entry && errno == ENOENT) continue;  // removed meanwhile
      if (!entry) {
        Error why = explain("cannot inspect " + at->path().native(), errno);
        if (!unreadable) return std::unexpected(std::move(why));
        unreadable(path, why);
        continue;
      }
      if (entry->kind == EntryKind::directory) left.push_back(path);
      entries.push_back(*std::move(entry));
    }
    if (!error) continue;
    Error why = explain("cannot read the directory " + whole, error.value());
    if (!unreadable || folder.empty()) return std::unexpected(std::move(why));
    unreadable(folder, why);
  }
  std::ranges::sort(entries, {}, &TreeEntry::path);
  return entries;
}

std::optional<DiskSpace> disk_space(const std::string& path) {
  struct statvfs status{};
  if (::statvfs(path.c_str(), &status) != 0 || status.f_blocks == 0) return std::nullopt;
  return DiskSpace{.free = std::uint64_t{status.f_bavail} * status.f_frsize,
                   .total = std::uint64_t{status.f_blocks} * status.f_frsize,
                   .free_files = status.f_favail,
                   .total_files = status.f_files};
}

bool leaves_reserve(const DiskSpace& space, std::uint64_t bytes, std::uint64_t files,
                    std::uint64_t most) {
  const auto leaves = [](std::uint64_t free, std::uint64_t taken, std::uint64_t reserve) {
    return free >= taken && free - taken >= reserve;
  };
  const bool needs_no_file = files == 0 || space.total_files == 0;
  return leaves(space.free, bytes, std::min(space.total / 100, most)) &&
         (needs_no_file || leaves(space.free_files, files, space.total_files / 100));
}

Result<TreeFile> TreeFile::open(const std::string& root, const std::string& path) {
  std::string whole = root + "/" + path;
  if (!is_inner_path(path)) return fail(ErrorKind::denied, whole + " is not a path below " + root);
  const FileDescriptor top = open_root(root);
  if (!top) return std::unexpected(explain("cannot read " + whole, errno));
  const FileDescriptor folder = enter_folder(top.get(), path);
  if (!folder) return std::unexpected(explain("cannot read " + whole, errno));
  // Not blocking: somebody may have put a pipe there.
  FileDescriptor file(::openat(folder.get(), last_name(path).c_str(),
                               O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK));
  if (!file) return std::unexpected(explain("cannot read " + whole, errno));
  struct stat status{};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return fail(ErrorKind::invalid, whole + " is not a regular file");
  }
  return TreeFile(std::move(file), std::move(whole));
}

Result<std::size_t> TreeFile::read(std::span<std::byte> to) {
  while (true) {
    const ssize_t count = ::read(file_.get(), to.data(), to.size());
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR) return std::unexpected(explain("cannot read " + name_, errno));
  }
}

Result<TreeWriter> TreeWriter::open(const std::string& root) {
  FileDescriptor folder = open_root(root);
  if (!folder) return std::unexpected(explain("cannot write to the directory " + root, errno));
  return TreeWriter(std::move(folder), root);
}

std::unexpected<Error> TreeWriter::failed(const char* what, const std::string& path,
                                          int error) const {
  return std::unexpected(explain(fmt::format("cannot {} {}/{}", what, name_, path), error));
}

Result<FileDescriptor> TreeWriter::folder_of(const std::string& path) const {
  if (!is_inner_path(path)) {
    return fail(ErrorKind::denied,
                fmt::format("\"{}\" is not a path below {}: refused", path, name_));
  }
  FileDescriptor folder = enter_folder(root_.get(), path, kOwnerAll | 0055);
  if (!folder) return failed("create the directory of", path, errno);
  return folder;
}

Status TreeWriter::make_directory(const std::string& path, std::uint32_t mode) {
  const auto folder = folder_of(path);
  if (!folder) return fail(folder);
  const std::string name = last_name(path);
  const std::uint32_t usable = (mode & kModeBits) | kOwnerAll;
  if (::mkdirat(folder->get(), name.c_str(), usable) == 0) return {};
  if (errno != EEXIST) return failed("create the directory", path, errno);
  const auto there = entry_in(folder->get(), name, path);
  if (there && there->kind == EntryKind::directory) return {};
  if (remove_file(folder->get(), name) && ::mkdirat(folder->get(), name.c_str(), usable) == 0) {
    return {};
  }
  return failed("create the directory", path, errno);
}

Status TreeWriter::make_link(const std::string& path, const std::string& target) {
  const auto folder = folder_of(path);
  if (!folder) return fail(folder);
  if (!is_inner_link(path, target)) {
    return fail(ErrorKind::denied,
                fmt::format("the link {} to \"{}\" leads out of {}: refused", path, target, name_));
  }
  const std::string name = last_name(path);
  if (remove_file(folder->get(), name) &&
      ::symlinkat(target.c_str(), folder->get(), name.c_str()) == 0) {
    return {};
  }
  return failed("create the link", path, errno);
}

TreeWriter::BegunFile::~BegunFile() {
  if (!temporary.empty()) (void)::unlinkat(folder.get(), temporary.c_str(), 0);
}

Status TreeWriter::begin_file(const std::string& path, std::uint32_t mode) {
  if (Status ended = end_file(); !ended) return ended;
  auto folder = folder_of(path);
  if (!folder) return fail(folder);
  const std::string name = last_name(path);
  const auto there = entry_in(folder->get(), name, path);
  if (there && there->kind == EntryKind::directory) return failed("replace", path, EISDIR);
  const std::string temporary = ".skyward-" + random_hex(16) + ".part";
  // A new file: an old one may be a link, or have another name elsewhere.
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY;
  FileDescriptor file(::openat(folder->get(), temporary.c_str(), flags, mode & kModeBits));
  if (!file) return failed("write", path, errno);
  begun_ = std::make_unique<BegunFile>();
  begun_->folder = *std::move(folder);
  begun_->file = std::move(file);
  begun_->path = path;
  begun_->name = name;
  begun_->temporary = temporary;
  return {};
}

Status TreeWriter::write(std::span<const std::byte> bytes) {
  if (!begun_) return fail(ErrorKind::invalid, "bytes of a file that was not begun");
  while (!bytes.empty()) {
    const ssize_t count = ::write(begun_->file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed("write", begun_->path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Status TreeWriter::end_file() {
  const std::unique_ptr<BegunFile> whole = std::move(begun_);
  if (!whole) return {};
  if (::close(whole->file.release()) != 0) return failed("write", whole->path, errno);
  const int folder = whole->folder.get();
  if (::renameat(folder, whole->temporary.c_str(), folder, whole->name.c_str()) != 0) {
    return failed("write", whole->path, errno);
  }
  whole->temporary.clear();
  return {};
}

Status TreeWriter::sync() const {
  if (::syncfs(root_.get()) == 0) return {};
  return std::unexpected(explain("cannot store all files in " + name_ + " on the disk", errno));
}

}  // namespace skyward::io

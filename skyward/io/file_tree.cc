#include "skyward/io/file_tree.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

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
              fmt::format("{}: a link or a file stands where a directory must be", what),
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
  const std::string whole = root + "/" + path;
  struct stat status{};
  if (::lstat(whole.c_str(), &status) != 0) return std::nullopt;
  TreeEntry entry{.kind = EntryKind::other, .path = path, .mode = status.st_mode & kModeBits};
  if (S_ISDIR(status.st_mode)) entry.kind = EntryKind::directory;
  if (S_ISREG(status.st_mode)) {
    entry.kind = EntryKind::file;
    entry.size = static_cast<std::uint64_t>(status.st_size);
  }
  if (S_ISLNK(status.st_mode)) {
    entry.kind = EntryKind::link;
    std::error_code error;
    entry.target = fs::read_symlink(whole, error).native();
  }
  return entry;
}

Result<std::vector<TreeEntry>> list_tree(const std::string& root,
                                         const std::function<bool(std::string_view)>& wanted) {
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
      auto entry = entry_at(root, path);
      if (!entry) continue;  // removed meanwhile
      if (entry->kind == EntryKind::directory) left.push_back(path);
      entries.push_back(*std::move(entry));
    }
    if (error) return std::unexpected(explain("cannot read the directory " + whole, error.value()));
  }
  std::ranges::sort(entries, {}, &TreeEntry::path);
  return entries;
}

Result<TreeFile> TreeFile::open(const std::string& root, const std::string& path) {
  std::string whole = root + "/" + path;
  // Not blocking: somebody may have put a pipe there.
  FileDescriptor file(
      ::open(whole.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK));
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
  FileDescriptor folder(::open(root.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY));
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
  FileDescriptor folder(::fcntl(root_.get(), F_DUPFD_CLOEXEC, 3));
  std::string_view rest = path;
  while (folder) {
    const std::string name(take_name(rest));
    if (rest.empty()) return folder;
    if (::mkdirat(folder.get(), name.c_str(), kOwnerAll | 0055) != 0 && errno != EEXIST) break;
    folder = FileDescriptor(
        ::openat(folder.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW));
  }
  return failed("make the directory of", path, errno);
}

Status TreeWriter::make_directory(const std::string& path, std::uint32_t mode) {
  const auto folder = folder_of(path);
  if (!folder) return fail(folder);
  const std::string name = fs::path(path).filename();
  const std::uint32_t usable = (mode & kModeBits) | kOwnerAll;
  if (::mkdirat(folder->get(), name.c_str(), usable) == 0) return {};
  const int error = errno;
  struct stat status{};
  if (error == EEXIST &&
      ::fstatat(folder->get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISDIR(status.st_mode)) {
    return {};
  }
  return failed("make the directory", path, error == EEXIST ? ENOTDIR : error);
}

Status TreeWriter::make_link(const std::string& path, const std::string& target) {
  const auto folder = folder_of(path);
  if (!folder) return fail(folder);
  if (!is_inner_link(path, target)) {
    return fail(ErrorKind::denied,
                fmt::format("the link {} to \"{}\" leads out of {}: refused", path, target, name_));
  }
  const std::string name = fs::path(path).filename();
  (void)::unlinkat(folder->get(), name.c_str(), 0);
  if (::symlinkat(target.c_str(), folder->get(), name.c_str()) == 0) return {};
  return failed("make the link", path, errno);
}

Status TreeWriter::begin_file(const std::string& path, std::uint32_t mode) {
  if (Status ended = end_file(); !ended) return ended;
  const auto folder = folder_of(path);
  if (!folder) return fail(folder);
  const std::string name = fs::path(path).filename();
  // A new file: an old one may be a link, or have another name elsewhere.
  (void)::unlinkat(folder->get(), name.c_str(), 0);
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY;
  file_ = FileDescriptor(::openat(folder->get(), name.c_str(), flags, mode & kModeBits));
  if (!file_) return failed("write", path, errno);
  file_path_ = path;
  return {};
}

Status TreeWriter::write(std::span<const std::byte> bytes) {
  if (!file_) return fail(ErrorKind::invalid, "bytes of a file that was not begun");
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed("write", file_path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Status TreeWriter::end_file() {
  const int file = file_.release();
  if (file < 0 || ::close(file) == 0) return {};
  return failed("write", file_path_, errno);
}

}  // namespace skyward::io

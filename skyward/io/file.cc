#include "skyward/io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "skyward/io/file_descriptor.h"
#include "skyward/io/machine.h"

namespace skyward::io {

namespace {

// Makes what is missing of a path of directories, each for this user alone.
bool make_directories(const std::filesystem::path& path) {
  if (path.empty() || path == path.root_path()) return true;
  struct stat found{};
  if (::stat(path.c_str(), &found) == 0) {
    errno = ENOTDIR;
    return S_ISDIR(found.st_mode);
  }
  return make_directories(path.parent_path()) &&
         (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST);
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

// `at_offset`: does not move the file's position, which other threads may use.
Result<std::string> read_all(const FileDescriptor& file, const std::string& path,
                             std::size_t max_bytes, bool at_offset = false) {
  std::string text;
  std::array<char, 16384> chunk{};
  while (true) {
    const ssize_t count =
        at_offset ? ::pread(file.get(), chunk.data(), chunk.size(), static_cast<off_t>(text.size()))
                  : ::read(file.get(), chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return fail(ErrorKind::invalid, fmt::format("cannot read {}: {}", path, errno_text(errno)));
    }
    if (count == 0) return text;
    text.append(chunk.data(), static_cast<std::size_t>(count));
    if (text.size() > max_bytes) {
      return fail(ErrorKind::exhausted, fmt::format("{} is larger than {} bytes", path, max_bytes),
                  "check that it is the right file");
    }
  }
}

bool is_own(const struct stat& found) { return found.st_uid == user_id() || found.st_uid == 0; }

std::unexpected<Error> cannot_read(const std::string& path, ErrorKind kind, int code) {
  return fail(kind, fmt::format("cannot read {}: {}", path, errno_text(code)));
}

struct OpenFile {
  FileDescriptor file;
  struct stat status{};
};

// Opens a regular file without ever blocking. `advice`: for a path at which something else is.
Result<OpenFile> open_safely(const std::string& path, bool follow_link, const char* advice) {
  const int links = follow_link ? 0 : O_NOFOLLOW;
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | links));
  const int code = errno;
  struct stat found{};
  if (!file) {
    const bool there = ::lstat(path.c_str(), &found) == 0;
    if (there && code == ELOOP && !follow_link) {
      return fail(ErrorKind::denied, fmt::format("{} is a symbolic link", path),
                  "put a file of your own there");
    }
    if (there && code == ENXIO) {  // a socket
      return fail(ErrorKind::denied, fmt::format("{} is not a regular file", path), advice);
    }
    if (code != EACCES && code != EPERM) return cannot_read(path, ErrorKind::invalid, code);
    return cannot_read(path, there ? ErrorKind::denied : ErrorKind::unavailable, code);
  }
  if (::fstat(file.get(), &found) != 0) return cannot_read(path, ErrorKind::invalid, errno);
  if (S_ISDIR(found.st_mode)) {
    return fail(ErrorKind::denied, fmt::format("{} is a directory", path), advice);
  }
  if (!S_ISREG(found.st_mode)) {
    return fail(ErrorKind::denied, fmt::format("{} is not a regular file", path), advice);
  }
  return OpenFile{std::move(file), found};
}

Status refuse_writable(const std::string& path, const struct stat& found) {
  if ((found.st_mode & 022) == 0) return {};
  return fail(ErrorKind::denied, fmt::format("other users may write to {}", path),
              fmt::format("run 'chmod go-w {}'", path));
}

// Whoever may write to a folder replaces what is in it, except in a sticky one.
Status refuse_writable_folders(const std::string& path, uid_t owner) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(path, error);
  for (auto folder = file.parent_path(); !error; folder = folder.parent_path()) {
    struct stat found{};
    if (::stat(folder.c_str(), &found) != 0) return cannot_read(folder, ErrorKind::denied, errno);
    if (!is_own(found) && found.st_uid != owner) {
      return fail(ErrorKind::denied,
                  fmt::format("{} belongs to another user than {}", folder.string(), path),
                  "copy the file to a folder of your own");
    }
    if ((found.st_mode & S_ISVTX) == 0) {
      if (Status status = refuse_writable(folder, found); !status) return status;
    }
    if (folder == folder.root_path()) return {};
  }
  return fail(ErrorKind::denied, fmt::format("cannot resolve {}: {}", path, error.message()));
}

}  // namespace

Result<FileDescriptor> open_file(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (file) return file;
  const int code = errno;
  const bool denied = code == EACCES || code == EPERM;
  return cannot_read(path, denied ? ErrorKind::denied : ErrorKind::invalid, code);
}

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  const auto file = open_file(path);
  if (!file) return fail(file);
  return read_all(*file, path, max_bytes);
}

Result<std::string> read_file(const FileDescriptor& file, const std::string& path,
                              std::size_t max_bytes) {
  return read_all(file, path, max_bytes, true);
}

Result<std::string> read_safely(const std::string& path, bool follow_link, std::size_t max_bytes) {
  const auto opened = open_safely(path, follow_link, "move it away");
  if (!opened) return fail(opened);
  if (!is_own(opened->status)) {
    return fail(ErrorKind::denied, fmt::format("{} belongs to another user", path),
                "replace it with a file of your own");
  }
  if (Status status = refuse_writable(path, opened->status); !status) return fail(status);
  return read_all(opened->file, path, max_bytes);
}

Result<std::string> read_named(const std::string& path, std::size_t max_bytes) {
  const auto opened = open_safely(path, true, "give the path of a file");
  if (!opened) return fail(opened);
  if (Status status = refuse_writable(path, opened->status); !status) return fail(status);
  if (!is_own(opened->status)) {
    const Status status = refuse_writable_folders(path, opened->status.st_uid);
    if (!status) return fail(status);
  }
  return read_all(opened->file, path, max_bytes);
}

Status write_private_file(const std::string& path, std::string_view text) {
  const std::filesystem::path target(path);
  const std::string unfinished = fmt::format("{}.{}", path, random_hex(8));
  int code = 0;
  if (make_directories(target.parent_path())) {
    const FileDescriptor file(
        ::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file && write_all(file.get(), text) && ::fsync(file.get()) == 0 &&
        ::rename(unfinished.c_str(), path.c_str()) == 0) {
      return {};
    }
    code = errno;
    if (file) ::unlink(unfinished.c_str());
  } else {
    code = errno;
  }
  ErrorKind kind = is_shortage(code) ? ErrorKind::unavailable : ErrorKind::invalid;
  if (code == EACCES || code == EPERM) kind = ErrorKind::denied;
  return fail(kind, fmt::format("cannot write {}: {}", path, errno_text(code)),
              "check the permissions and free space of that directory");
}

std::string working_directory() {
  std::error_code error;
  return std::filesystem::current_path(error).string();
}

Status touch(const std::string& path) {
  const FileDescriptor file(::open(
      path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (file && ::futimens(file.get(), nullptr) == 0) return {};
  return fail(ErrorKind::invalid, fmt::format("cannot touch {}: {}", path, errno_text(errno)));
}

bool exists(const std::string& path) {
  struct stat found{};
  return ::lstat(path.c_str(), &found) == 0;
}

std::uint64_t file_number(const std::string& path) {
  struct stat found{};
  return ::stat(path.c_str(), &found) == 0 ? found.st_ino : 0;
}

Result<std::string> resolved_path(const std::string& path) {
  std::error_code error;
  const std::filesystem::path said(path);
  const auto folder = std::filesystem::canonical(
      said.has_parent_path() ? said.parent_path() : std::filesystem::path("."), error);
  if (error) {
    return fail(ErrorKind::invalid, fmt::format("there is no file {}: {}", path, error.message()));
  }
  return (folder / said.filename()).string();
}

}  // namespace skyward::io

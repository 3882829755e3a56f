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
  if (::stat(path.c_str(), &found) == 0) return S_ISDIR(found.st_mode);
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

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!file) {
    const int code = errno;
    return fail(code == EACCES || code == EPERM ? ErrorKind::denied : ErrorKind::invalid,
                fmt::format("cannot read {}: {}", path, errno_text(code)));
  }
  std::string text;
  std::array<char, 16384> chunk{};
  while (true) {
    const ssize_t count = ::read(file.get(), chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return fail(ErrorKind::invalid, fmt::format("cannot read {}: {}", path, errno_text(errno)));
    }
    if (count == 0) return text;
    text.append(chunk.data(), static_cast<std::size_t>(count));
    if (text.size() > max_bytes) {
      return fail(ErrorKind::exhausted, fmt::format("{} is larger than {} bytes", path, max_bytes));
    }
  }
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
  return fail(code == EACCES || code == EPERM ? ErrorKind::denied : ErrorKind::invalid,
              fmt::format("cannot write {}: {}", path, errno_text(code)),
              "check the rights and the free space of that directory");
}

std::string working_directory() {
  std::error_code error;
  return std::filesystem::current_path(error).string();
}

bool is_own_file(const std::string& path) {
  struct stat found{};
  return ::stat(path.c_str(), &found) == 0 && (found.st_uid == user_id() || found.st_uid == 0);
}

}  // namespace skyward::io

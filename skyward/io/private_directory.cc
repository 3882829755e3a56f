#include "skyward/io/private_directory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "skyward/io/file.h"
#include "skyward/io/file_descriptor.h"

namespace skyward::io {

namespace {

namespace fs = std::filesystem;

// Of file systems on disks and in memory; <linux/magic.h> may lack the last ones.
constexpr std::array<long, 9> kLocalSystems = {
    EXT4_SUPER_MAGIC, BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC, TMPFS_MAGIC, OVERLAYFS_SUPER_MAGIC,
    0x58465342,  // XFS
    0x2fc12fc1,  // ZFS
    0xca451a4e,  // bcachefs
    0x3153464a,  // JFS
};

// Gives the owner every right on the directories of a tree; a program may have taken them away
// (package caches do).
void make_removable(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(path, error))) return;
  fs::permissions(path, fs::perms::owner_all, fs::perm_options::add, error);
  for (auto entry = fs::directory_iterator(path, error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    make_removable(entry->path());
  }
}

// The path with no link before its last name, as the kernel lists it.
Result<std::string> place_of(const fs::path& path) {
  fs::path normal = path.lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();
  const fs::path parent = normal.has_parent_path() ? normal.parent_path() : ".";
  std::error_code error;
  const fs::path folder = fs::canonical(parent, error);
  if (!error) return folder / normal.filename();
  if (error == std::errc::no_such_file_or_directory) return normal;  // and nothing is there
  return fail(ErrorKind::unavailable, "cannot look for " + path.string() + ": " + error.message());
}

// "a\040b" → "a b": how the kernel lists blanks and the like.
std::string without_escapes(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    unsigned code = 0;
    const char* const digits = text.data() + at + 1;
    if (text[at] == '\\' && at + 3 < text.size() &&
        std::from_chars(digits, digits + 3, code, 8).ptr == digits + 3) {
      plain += static_cast<char>(code);
      at += 3;
    } else {
      plain += text[at];
    }
  }
  return plain;
}

// Whether a file system begins at this directory. Kernels before 5.8 do not report a part of the
// file system above that is mounted there.
bool is_mount(const fs::path& path) {
  struct statx found{};
  struct statx above{};
  constexpr int kNoLinks = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
  if (::statx(AT_FDCWD, path.c_str(), kNoLinks, STATX_BASIC_STATS, &found) != 0 ||
      ::statx(AT_FDCWD, path.parent_path().c_str(), AT_NO_AUTOMOUNT, STATX_BASIC_STATS, &above) !=
          0) {
    return false;  // it is gone, and what cannot be searched cannot be removed
  }
  return (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0 ||
         found.stx_dev_major != above.stx_dev_major || found.stx_dev_minor != above.stx_dev_minor;
}

// Without the kernel's list: the mounts that are met on the way.
void find_mounts(const fs::path& place, std::vector<std::string>& mounts) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(place, error))) return;
  if (is_mount(place)) return mounts.push_back(place);
  for (auto entry = fs::directory_iterator(place, error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    find_mounts(entry->path(), mounts);
  }
}

// Where something is mounted at or below the place. A list that cannot be read is an error: nothing
// may be removed then. Where there is none, /proc is not mounted.
Result<std::vector<std::string>> mounts_below(const std::string& place, const std::string& list) {
  constexpr int kFieldsBefore = 4;  // "36 35 98:0 /its/root /mount/point options - type source …"
  if (::access(list.c_str(), F_OK) != 0 && errno == ENOENT) {
    std::vector<std::string> mounts;
    find_mounts(place, mounts);
    return mounts;
  }
  const auto text = read_file(list);
  if (!text) return fail(text);
  std::vector<std::string> mounts;
  for (std::string_view rest = *text; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    for (int field = 0; field < kFieldsBefore; ++field) {
      line.remove_prefix(std::min(line.find(' '), line.size()));
      line.remove_prefix(std::min<std::size_t>(1, line.size()));
    }
    std::string mount = without_escapes(line.substr(0, line.find(' ')));
    if (mount == place || mount.starts_with(place + "/")) mounts.push_back(std::move(mount));
  }
  return mounts;
}

std::error_code remove_all(const std::string& place) {
  std::error_code error;
  fs::remove_all(place, error);
  if (!error) return error;
  make_removable(place);
  fs::remove_all(place, error);
  return error;
}

// Leaves the mounts and the directories above them.
void remove_around(const std::string& place, const std::vector<std::string>& mounts) {
  const auto is_below = [&](const std::string& mount) { return mount.starts_with(place + "/"); };
  if (std::ranges::find(mounts, place) != mounts.end()) return;
  if (std::ranges::none_of(mounts, is_below)) {
    (void)remove_all(place);
    return;
  }
  std::error_code error;
  for (auto entry = fs::directory_iterator(place, error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    remove_around(entry->path(), mounts);
  }
}

}  // namespace

Status make_private_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0) return {};
  const int error = errno;
  ErrorKind kind = is_shortage(error) ? ErrorKind::unavailable : ErrorKind::denied;
  if (error == EEXIST) kind = ErrorKind::invalid;
  return fail(kind, "cannot create the directory " + path + ": " + errno_text(error),
              "check the permissions and free space there, or choose another place with TMPDIR");
}

Status ensure_private_directory(const std::string& path) {
  Status made = make_private_directory(path);
  if (made || made.error().kind != ErrorKind::invalid) return made;
  struct stat status{};
  bool seen = ::lstat(path.c_str(), &status) == 0;
  // A link of this user's own leads where its user wants it.
  if (seen && S_ISLNK(status.st_mode) && status.st_uid == ::geteuid()) {
    seen = ::stat(path.c_str(), &status) == 0;
  }
  if (!seen || !S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() ||
      (status.st_mode & 022) != 0) {
    return fail(ErrorKind::denied,
                path +
                    " is not a directory that only this user can write to; somebody else may "
                    "have put it there",
                "remove it, or choose another place with TMPDIR");
  }
  if ((status.st_mode & 0777) != 0700 && ::chmod(path.c_str(), 0700) != 0) {
    return fail(ErrorKind::denied,
                "cannot set the permissions of " + path + ": " + errno_text(errno),
                "remove it, or choose another place with TMPDIR");
  }
  return {};
}

Status ensure_private_path(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!parent.empty() && !std::filesystem::is_directory(parent, error)) {
    if (Status status = ensure_private_path(parent); !status) return status;
  }
  return ensure_private_directory(path);
}

bool is_directory(const std::string& path) {
  std::error_code error;
  return fs::is_directory(fs::symlink_status(path, error));
}

bool is_own_directory(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == ::geteuid();
}

bool is_untouched_directory(const std::string& path, Duration duration) {
  std::error_code error;
  const fs::file_time_type changed = fs::last_write_time(path, error);
  return !error && is_directory(path) && fs::file_time_type::clock::now() - changed >= duration;
}

bool is_writable_directory(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error) && ::access(path.c_str(), W_OK | X_OK) == 0;
}

std::string first_on_disk(const std::vector<std::string>& directories) {
  std::optional<std::string> in_memory;
  for (const std::string& path : directories) {
    struct statfs system{};
    if (::statfs(path.c_str(), &system) != 0 || !is_writable_directory(path)) continue;
    if (system.f_type != TMPFS_MAGIC) return path;
    if (!in_memory) in_memory = path;
  }
  return in_memory.value_or(directories.front());
}

bool is_on_local_disk(const std::string& path) {
  struct statfs system{};
  return ::statfs(path.c_str(), &system) == 0 &&
         std::ranges::find(kLocalSystems, system.f_type) != kLocalSystems.end();
}

FileDescriptor lock_directory(const std::string& path) {
  FileDescriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (directory && ::flock(directory.get(), LOCK_SH | LOCK_NB) != 0) return {};
  return directory;
}

std::vector<std::string> list_directory(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = fs::directory_iterator(path, error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename());
  }
  std::ranges::sort(names);
  return names;
}

Status remove_tree(const std::string& path, const std::string& list) {
  const auto place = place_of(path);
  if (!place) return fail(place);
  const auto mounts = mounts_below(*place, list);
  if (!mounts) return fail(mounts);
  if (!mounts->empty()) {
    remove_around(*place, *mounts);
    return fail(ErrorKind::unavailable,
                "cannot remove " + path + ": a file system is mounted at " + mounts->front(),
                "unmount it, then remove the directory");
  }
  const std::error_code error = remove_all(*place);
  if (!error) return {};
  return fail(ErrorKind::unavailable, "cannot remove " + path + ": " + error.message(),
              "remove it by hand");
}

}  // namespace skyward::io

#include "skyward/mpi/world_folder.h"

#include <chrono>
#include <filesystem>
#include <system_error>

#include "skyward/io/file.h"
#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"

namespace skyward::mpi {
namespace {

constexpr const char* kRoot = "/tmp/";
constexpr const char* kPrefix = "sky-mpi-";
constexpr const char* kLock = "/lock";
constexpr Duration kMaking = std::chrono::hours(1);

void remove_leftovers() {
  for (const std::string& name : io::list_directory(kRoot)) {
    const std::string path = kRoot + name;
    const bool is_made = name.starts_with(kPrefix) && io::exists(path + kLock);
    // Somebody began to make it, and was killed.
    const bool is_left =
        name.starts_with("." + std::string(kPrefix)) && io::is_untouched_directory(path, kMaking);
    // Root could look into another user's, and remove it.
    if (!(is_made || is_left) || !io::is_own_directory(path)) continue;
    if (!io::FileLock::holder(path + kLock)) (void)io::remove_tree(path);
  }
}

}  // namespace

Result<std::unique_ptr<WorldFolder>> WorldFolder::make() {
  remove_leftovers();
  const std::string name = io::random_hex(12);
  std::unique_ptr<WorldFolder> folder(new WorldFolder);
  // Under the name that others look for it is locked already.
  folder->path_ = kRoot + ("." + (kPrefix + name));
  if (Status made = io::make_private_directory(folder->path_); !made) return fail(made);
  folder->lock_ = io::FileLock::try_lock(folder->path_ + kLock);
  const std::string path = kRoot + (kPrefix + name);
  std::error_code error;
  if (folder->lock_) std::filesystem::rename(folder->path_, path, error);
  if (!folder->lock_ || error) {
    return fail(ErrorKind::unavailable, "cannot create a folder in " + std::string(kRoot));
  }
  folder->path_ = path;
  return folder;
}

WorldFolder::~WorldFolder() { (void)io::remove_tree(path_); }

}  // namespace skyward::mpi

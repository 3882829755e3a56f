#include "skyward/io/locked_directory.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"

namespace skyward::io {

namespace {

constexpr int kDigits = 12;

}  // namespace

std::unique_ptr<LockedDirectory> LockedDirectory::try_lock(const std::string& path) {
  auto directory = FileLock::try_lock_directory(path);
  auto file = directory ? FileLock::try_lock(path + "/lock") : nullptr;
  if (!file) return nullptr;
  return std::unique_ptr<LockedDirectory>(
      new LockedDirectory(path, std::move(directory), std::move(file)));
}

Result<std::unique_ptr<LockedDirectory>> LockedDirectory::make(const std::string& root,
                                                               const std::string& name) {
  const std::string path = root + "/" + name;
  const std::string unfinished = root + "/new-" + random_hex(kDigits);
  if (Status status = make_private_directory(unfinished); !status) return fail(status);
  std::unique_ptr<LockedDirectory> made = try_lock(unfinished);
  std::error_code error;
  const bool is_free = made && !is_directory(path);
  if (is_free) std::filesystem::rename(unfinished, path, error);
  if (!is_free || error) {
    (void)remove_tree(unfinished);
    return fail(ErrorKind::unavailable, "cannot create the directory " + path,
                "check the permissions and free space there, or choose another place with TMPDIR");
  }
  made->path_ = path;
  return made;
}

void LockedDirectory::remove_abandoned(const std::string& root,
                                       const std::function<bool(std::string_view name)>& is_ours,
                                       const std::function<void(const std::string& path)>& before) {
  for (const std::string& name : list_directory(root)) {
    const std::string path = root + "/" + name;
    if (!is_ours(name) || !is_directory(path)) continue;
    const auto taken = try_lock(path);
    if (!taken) continue;
    if (before) before(path);
    (void)taken->remove();  // tried again next time
  }
}

Status LockedDirectory::remove() {
  file_.reset();
  return remove_tree(path_);
}

}  // namespace skyward::io

#include "skyward/io/locked_directory.h"

#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"

namespace skyward::io {

namespace {

constexpr int kDigits = 12;
constexpr std::string_view kUnfinished = "new-";
constexpr Duration kMaking = std::chrono::hours(1);  // far longer than a process needs to lock one

bool is_unfinished(std::string_view name) {
  return name.starts_with(kUnfinished) && name.size() == kUnfinished.size() + kDigits &&
         name.find_first_not_of("0123456789abcdef", kUnfinished.size()) == std::string_view::npos;
}

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
  const std::string unfinished = root + "/" + std::string(kUnfinished) + random_hex(kDigits);
  if (Status status = make_private_directory(unfinished); !status) return fail(status);
  std::unique_ptr<LockedDirectory> fresh = try_lock(unfinished);
  std::error_code error;
  const bool is_free = fresh && !is_directory(path);
  if (is_free) std::filesystem::rename(unfinished, path, error);
  if (!is_free || error) {
    (void)remove_tree(unfinished);
    return fail(ErrorKind::unavailable, "cannot create the directory " + path,
                "check the permissions and free space there, or choose another place with TMPDIR");
  }
  fresh->path_ = path;
  return fresh;
}

void LockedDirectory::remove_abandoned(const std::string& root,
                                       const std::function<bool(std::string_view name)>& is_ours,
                                       const std::function<void(const std::string& path)>& before) {
  for (const std::string& name : list_directory(root)) {
    const std::string path = root + "/" + name;
    const bool is_finished = is_ours(name);
    const bool is_left = is_unfinished(name) && is_untouched_directory(path, kMaking);
    if (!(is_finished || is_left) || !is_directory(path)) continue;
    const auto taken = try_lock(path);
    if (!taken) continue;
    if (before && is_finished) before(path);
    (void)taken->remove();  // tried again next time
  }
}

Status LockedDirectory::remove() {
  file_.reset();
  return remove_tree(path_);
}

}  // namespace skyward::io

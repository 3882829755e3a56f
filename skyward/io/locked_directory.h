#pragma once

// A directory that is in use for as long as this process runs. Both the directory and a file in it,
// "lock", are locked: the file names the process, and the directory's own lock holds even when
// something has cleaned the file up.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "skyward/base/error.h"
#include "skyward/io/file_lock.h"

namespace skyward::io {

class LockedDirectory {
 public:
  // Makes the directory `root`/`name` with mode 0700; nobody sees it before it is locked. `root`
  // exists and belongs to this user alone. Fails with `unavailable`, also when the directory is
  // there already.
  static Result<std::unique_ptr<LockedDirectory>> make(const std::string& root,
                                                       const std::string& name);
  // Removes those directories in `root` whose process is gone. `is_ours` chooses them by name;
  // `before`, if given, is called with the path of each that goes, while nobody else can take it.
  // Removes also what killed processes had begun to make an hour ago or more.
  static void remove_abandoned(const std::string& root,
                               const std::function<bool(std::string_view name)>& is_ours,
                               const std::function<void(const std::string& path)>& before = {});

  const std::string& path() const { return path_; }
  // Removes the directory, which stays locked until this object is destroyed. A network file system
  // keeps a file that is open under another name: the one in there is closed first.
  Status remove();

 private:
  LockedDirectory(std::string path, std::unique_ptr<FileLock> directory,
                  std::unique_ptr<FileLock> file)
      : path_(std::move(path)), directory_(std::move(directory)), file_(std::move(file)) {}
  // Null if somebody holds one of the locks, or there is no such directory.
  static std::unique_ptr<LockedDirectory> try_lock(const std::string& path);

  std::string path_;
  const std::unique_ptr<FileLock> directory_;
  std::unique_ptr<FileLock> file_;
};

}  // namespace skyward::io

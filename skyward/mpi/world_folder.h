#pragma once

// A folder for this user alone, with a short name, since Unix sockets in it need one. It goes with
// the object; what killed processes left of such folders goes when the next one is made.

#include <memory>
#include <string>

#include "skyward/base/error.h"
#include "skyward/io/file_lock.h"

namespace skyward::mpi {

class WorldFolder {
 public:
  static Result<std::unique_ptr<WorldFolder>> make();
  ~WorldFolder();
  WorldFolder(const WorldFolder&) = delete;
  WorldFolder& operator=(const WorldFolder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  WorldFolder() = default;

  std::string path_;
  std::unique_ptr<io::FileLock> lock_;
};

}  // namespace skyward::mpi

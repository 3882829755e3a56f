#pragma once

// Packages of an image that are files or folders on a disk, and not on an index: what they look
// like on this computer, so that they are installed again when they change.

#include <string>
#include <vector>

namespace skyward::provider {

struct DiskPackage {
  std::string path;
  std::string look;  // text that changes with the file, or the files of the folder; empty: not here
};

// Of the requirements that name a file or folder.
std::vector<DiskPackage> packages_on_disk(const std::vector<std::string>& requirements);

}  // namespace skyward::provider

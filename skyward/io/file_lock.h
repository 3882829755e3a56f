#pragma once

// A lock that says that this very process lives: it ends with the process, however that ends, and a
// child that was forked without exec, and may outlive it, does not hold it. The file has the number
// of the process.

#include <memory>
#include <optional>
#include <string>

#include "skyward/io/file_descriptor.h"

namespace skyward::io {

class FileLock {
 public:
  // Creates the file and holds an exclusive lock on it until the lock is destroyed. Null when
  // anybody holds it, in this process, too, or the file cannot be opened.
  static std::unique_ptr<FileLock> try_lock(const std::string& path);
  // The process that holds it; 0: one that did not write its number; empty: none does. Makes
  // nothing, and needs no more than the right to read.
  static std::optional<int> holder(const std::string& path);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  explicit FileLock(FileDescriptor file) : file_(std::move(file)) {}

  FileDescriptor file_;
};

}  // namespace skyward::io

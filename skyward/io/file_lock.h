#pragma once

// A lock that shows that this process is running: it ends with the process, however that exits. A
// child that was forked without exec does not hold it. The file contains the process number.

#include <memory>
#include <optional>
#include <string>

#include "skyward/io/file_descriptor.h"

namespace skyward::io {

class FileLock {
 public:
  // Creates the file and holds an exclusive lock on it until the lock is destroyed. Null when it is
  // held already, even by this process (errno: EWOULDBLOCK), or when the file cannot be opened or
  // locked (errno says why). Waits 20 ms, longer only while others call holder().
  static std::unique_ptr<FileLock> try_lock(const std::string& path);
  // The same of a directory that is there, which it holds whatever happens to the files in it.
  // systemd-tmpfiles leaves a locked directory alone (tmpfiles.d(5)).
  static std::unique_ptr<FileLock> try_lock_directory(const std::string& path);
  // The process that holds it; 0: it did not write its number, or the file is there but cannot be
  // looked at, as on a network file system that is away; empty: none does. Creates nothing, and
  // needs only read permission.
  static std::optional<int> holder(const std::string& path);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  explicit FileLock(FileDescriptor file) : file_(std::move(file)) {}
  static std::unique_ptr<FileLock> lock(FileDescriptor file, int probes);

  FileDescriptor file_;
};

// Sees who holds a lock, also when its file has been deleted: keeps the file open.
class LockWatch {
 public:
  explicit LockWatch(std::string path);
  // As FileLock::holder(), of the file that was at the path when this was made.
  std::optional<int> holder() const;

 private:
  const std::string path_;
  const FileDescriptor file_;  // empty: there was none, or it could not be opened
};

}  // namespace skyward::io

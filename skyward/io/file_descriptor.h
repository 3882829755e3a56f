#pragma once

// An owned descriptor: closed when it goes.

#include <utility>

#include "skyward/base/error.h"

namespace skyward::io {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  ~FileDescriptor() { reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      descriptor_ = std::exchange(other.descriptor_, -1);
    }
    return *this;
  }

  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }
  explicit operator bool() const { return descriptor_ >= 0; }
  void reset();

 private:
  int descriptor_ = -1;
};

// Both ends close-on-exec and non-blocking.
struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};
Result<Pipe> make_pipe();

// A connected pair of Unix stream sockets, close-on-exec and non-blocking.
struct SocketPair {
  FileDescriptor ours;
  FileDescriptor theirs;
};
Result<SocketPair> make_socket_pair();

Status set_non_blocking(int descriptor, bool on);

// "Connection refused (errno 111)" for an errno value.
std::string errno_text(int error);

}  // namespace skyward::io

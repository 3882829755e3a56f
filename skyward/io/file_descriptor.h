#pragma once

// An owned descriptor: closed when it is destroyed.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
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

// Another number, at least 3, for the same open file; close-on-exec.
Result<FileDescriptor> duplicate(int descriptor);

// Reads once, without waiting when the descriptor is non-blocking. 0: the end of the stream, also
// when it broke. Empty: nothing to read now.
std::optional<std::size_t> read_some(int descriptor, std::span<std::byte> to);
// Writes once. False when not all of it was taken.
bool write_some(int descriptor, std::span<const std::byte> from);

// Writes once, without waiting when the descriptor is non-blocking, and returns how much was taken.
// Empty when the reader is gone.
std::optional<std::size_t> write_part(int descriptor, std::span<const std::byte> from);

// Whether writing a line to a pipe or a terminal would not wait for its reader.
bool can_write_now(int descriptor);

// Whether an errno value reports that this machine is short of something now, which may pass:
// memory, processes, descriptors or disk space.
bool is_shortage(int error);
// "Connection refused (errno 111)" for an errno value.
std::string errno_text(int error);

}  // namespace skyward::io

#pragma once

// Large buffers in memory that processes pass to each other by descriptor (memfd). Page faults cost
// more than copying, so the sender's segments are kept and reused (Arena). Receivers map privately:
// nobody else sees what they write.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "skyward/base/bytes.h"
#include "skyward/base/error.h"
#include "skyward/io/file_descriptor.h"

namespace skyward::io {

// One memfd, mapped.
class SharedMemory {
 public:
  // New, zeroed, mapped shared and writable; sealed, so that no receiver of the descriptor can
  // change its length. Fails with `exhausted`, also where less memory is available than the first
  // `used` bytes need.
  static Result<std::shared_ptr<SharedMemory>> create(std::size_t size, std::size_t used);
  static Result<std::shared_ptr<SharedMemory>> create(std::size_t size) {
    return create(size, size);
  }
  // Maps a descriptor's file private and writable (copy on write), or copies it if the file cannot
  // be sealed against truncation. The descriptor is not needed afterwards. `size` 0: the file's
  // own. Fails with `invalid` when the file is shorter than `size`.
  static Result<std::shared_ptr<SharedMemory>> map_private(int descriptor, std::size_t size);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // Writes the bytes at `offset` through the kernel, which neither clears nor faults in the pages
  // that it fills: into untouched memory, twice as fast as writing to data(). Fails with
  // `exhausted`.
  Status write(std::size_t offset, ByteView from);
  // Writes the bytes at the start, the fastest way. Fails with `exhausted`. One caller at a time.
  Status fill(ByteView from);

  // nullptr when the size is 0.
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  int descriptor() const { return descriptor_.get(); }
  // For memory that is only read from now on; frees a descriptor.
  void close_descriptor() { descriptor_.reset(); }

 private:
  SharedMemory(FileDescriptor descriptor, std::byte* data, std::size_t size);
  FileDescriptor descriptor_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool untouched_ = false;  // new, and fill() has not been called
};

// Like map_private(); unmapped with the last copy of the bytes.
Result<SharedBytes> map_bytes(int descriptor, std::size_t size);

// Segments for sending, recycled. Thread-safe. A segment returns by itself when its last holder
// releases it, unless it was marked retained: then a receiver may still have it mapped, and writing
// to it again would change the receiver's data.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  // Idle segments are kept up to `keep_bytes` in all; the longest idle go first.
  static std::shared_ptr<Arena> create(std::size_t keep_bytes);

  struct Segment {
    std::shared_ptr<SharedMemory> memory;  // at least the size asked for
    bool retained = false;                 // set by the holder before it releases the segment
  };
  // A segment of at least `size` bytes with undefined content: the smallest idle one that fits and
  // is not wastefully large, or a new one. Raises this process's limit of open files when few are
  // left. Fails with `exhausted`.
  Result<std::shared_ptr<Segment>> acquire(std::size_t size);

  std::size_t idle_bytes() const { return idle_bytes_; }
  // Drops the segments that have been idle since the last call of this function.
  void drop_unused();
  void drop_idle();

 private:
  explicit Arena(std::size_t keep_bytes) : keep_bytes_(keep_bytes) {}
  std::shared_ptr<SharedMemory> take_idle(std::size_t size);
  void release(std::unique_ptr<Segment> segment);
  // With the mutex held.
  std::vector<std::shared_ptr<SharedMemory>> take_oldest(std::size_t count);

  const std::size_t keep_bytes_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<SharedMemory>> idle_;  // the longest idle first
  std::size_t unused_ = 0;  // of these, how many were there when drop_unused() was called last
  std::atomic<std::size_t> idle_bytes_ = 0;
};

// Copies; with several threads if there is much to copy and there are many cores, since one core
// does not saturate the memory bandwidth.
void copy_bytes(std::byte* to, ByteView from);
// ... with so many threads, this one included, or fewer if the system has no more.
void copy_bytes(std::byte* to, ByteView from, std::size_t threads);
// Fills fresh memory from its start. write() holds a lock of the file, so large fills use a second
// thread, which copies to data() from the end. Fails as write() does.
Status copy_untouched(SharedMemory& to, ByteView from);

}  // namespace skyward::io

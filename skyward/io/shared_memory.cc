#include "skyward/io/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "skyward/io/machine.h"
#include "skyward/io/own_process.h"

namespace skyward::io {

namespace {

// An idle segment serves requests down to a quarter of its size: faulting in fresh pages costs ten
// times as much as copying, so some waste is cheap, but a small buffer must not sit on a huge one.
constexpr std::size_t kLargestWaste = 4;
constexpr std::size_t kPage = 4096;
// From here on, a look at the machine's memory costs nothing beside filling it.
constexpr std::size_t kLargeBytes = std::size_t{64} << 20;
// In steps: programs that inherit the limit and close every possible descriptor take long with the
// system's maximum, which may be 10^9.
constexpr std::uint64_t kMoreFiles = 1024;

// Sizes in steps of an eighth, so that buffers of nearly the same size can follow each other. Pages
// that are never touched cost nothing.
std::size_t rounded(std::size_t size) {
  const std::size_t step = std::max(kPage, std::bit_floor(size) / 8);
  return (size + step - 1) / step * step;
}

std::unexpected<Error> no_memory(std::size_t size, int error) {
  return fail(ErrorKind::exhausted,
              fmt::format("cannot get shared memory of {} bytes: {}", size, errno_text(error)),
              error == EFBIG
                  ? "raise the limit of file sizes (ulimit -f): it applies to shared memory, too"
                  : "free memory, send less at once, or raise the limits of memory and open files");
}

// To exceed the limit would be a SIGXFSZ.
bool is_beyond_file_limit(std::size_t size) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         size > limit.rlim_cur;
}

// Answers come with descriptors, too: one that finds no room for its own costs the node.
bool leaves_few_files(int descriptor) {
  constexpr rlim_t kFew = 128;
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         static_cast<rlim_t>(descriptor) + kFew >= limit.rlim_cur;
}

bool is_out_of_files() {
  return !FileDescriptor(::memfd_create("skyward", MFD_CLOEXEC)) && errno == EMFILE;
}

// Whether nobody can cut the file off any more, however many processes have it open: touching what
// was cut off would be a SIGBUS.
bool keeps_its_length(int descriptor) {
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  return (seals >= 0 && (seals & F_SEAL_SHRINK) != 0) ||
         ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK) == 0;
}

// The first `size` bytes of the file, as many as it still has.
Result<std::byte*> copy_of_file(int descriptor, std::size_t size) {
  void* const data =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return no_memory(size, errno);
  for (std::size_t done = 0; done < size;) {
    const ssize_t got = ::pread(descriptor, static_cast<std::byte*>(data) + done, size - done,
                                static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      ::munmap(data, size);
      return fail(ErrorKind::invalid,
                  fmt::format("a shared buffer of {} bytes ended after {}", size, done));
    }
    done += static_cast<std::size_t>(got);
  }
  return static_cast<std::byte*>(data);
}

std::unexpected<Error> does_not_fit(std::size_t bytes, std::size_t size) {
  return fail(ErrorKind::invalid,
              fmt::format("{} bytes do not fit into shared memory of {}", bytes, size));
}

}  // namespace

SharedMemory::SharedMemory(FileDescriptor descriptor, std::byte* data, std::size_t size)
    : descriptor_(std::move(descriptor)), data_(data), size_(size) {}

Result<SharedBytes> map_bytes(int descriptor, std::size_t size) {
  auto memory = SharedMemory::map_private(descriptor, size);
  if (!memory) return fail(memory);
  const ByteView view((*memory)->data(), (*memory)->size());
  return SharedBytes(*std::move(memory), view);
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Result<std::shared_ptr<SharedMemory>> SharedMemory::create(std::size_t size, std::size_t used) {
  // The kernel would promise it, and kill a process when the pages are needed.
  if (const auto left = used < kLargeBytes ? std::nullopt : available_memory();
      left && used > *left) {
    return no_memory(used, ENOMEM);
  }
  if (is_beyond_file_limit(size)) return no_memory(size, EFBIG);
  FileDescriptor descriptor(::memfd_create("skyward", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor || ::ftruncate(descriptor.get(), static_cast<off_t>(size)) != 0 ||
      ::fcntl(descriptor.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return no_memory(size, errno);
  }
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
    if (data == MAP_FAILED) return no_memory(size, errno);
  }
  std::shared_ptr<SharedMemory> memory(
      new SharedMemory(std::move(descriptor), static_cast<std::byte*>(data), size));
  memory->untouched_ = true;
  return memory;
}

Result<std::shared_ptr<SharedMemory>> SharedMemory::map_private(int descriptor, std::size_t size) {
  const bool lasts = keeps_its_length(descriptor);
  struct stat facts{};
  if (::fstat(descriptor, &facts) != 0) {
    return fail(ErrorKind::invalid,
                fmt::format("cannot map descriptor {}: {}", descriptor, errno_text(errno)));
  }
  const auto file_size = static_cast<std::size_t>(facts.st_size);
  if (size == 0) size = file_size;
  if (file_size < size) {
    return fail(
        ErrorKind::invalid,
        fmt::format("a shared buffer was announced with {} bytes, but has {}", size, file_size));
  }
  std::byte* data = nullptr;
  if (size > 0 && lasts) {
    void* const mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor, 0);
    if (mapped == MAP_FAILED) return no_memory(size, errno);
    data = static_cast<std::byte*>(mapped);
  } else if (size > 0) {
    auto copy = copy_of_file(descriptor, size);
    if (!copy) return fail(copy);
    data = *copy;
  }
  return std::shared_ptr<SharedMemory>(new SharedMemory(FileDescriptor(), data, size));
}

Status SharedMemory::write(std::size_t offset, ByteView from) {
  if (offset > size_ || from.size() > size_ - offset) return does_not_fit(from.size(), size_);
  untouched_ = false;
  while (!from.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_.get(), from.data(), from.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return no_memory(from.size(), written < 0 ? errno : ENOSPC);
    from = from.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::size_t>(written);
  }
  return {};
}

Status SharedMemory::fill(ByteView from) {
  if (from.size() > size_) return does_not_fit(from.size(), size_);
  if (std::exchange(untouched_, false)) return copy_untouched(*this, from);
  copy_bytes(data_, from);
  return {};
}

std::shared_ptr<Arena> Arena::create(std::size_t keep_bytes) {
  return std::shared_ptr<Arena>(new Arena(keep_bytes));
}

Result<std::shared_ptr<Arena::Segment>> Arena::acquire(std::size_t size) {
  auto segment = std::make_unique<Segment>();
  segment->memory = take_idle(size);
  if (!segment->memory) {
    auto memory = SharedMemory::create(rounded(size), size);
    if (!memory) {
      drop_idle();
      if (is_out_of_files()) allow_many_files(kMoreFiles);
      memory = SharedMemory::create(rounded(size), size);
    }
    if (!memory) return fail(memory);
    if (leaves_few_files((*memory)->descriptor())) allow_many_files(kMoreFiles);
    segment->memory = *std::move(memory);
  }
  // Shared by all who hold the segment; the last one returns it, if the arena still exists.
  return std::shared_ptr<Segment>(segment.release(), [arena = weak_from_this()](Segment* last) {
    std::unique_ptr<Segment> returned(last);
    if (const auto alive = arena.lock()) alive->release(std::move(returned));
  });
}

std::shared_ptr<SharedMemory> Arena::take_idle(std::size_t size) {
  const std::lock_guard lock(mutex_);
  auto best = idle_.end();
  for (auto memory = idle_.begin(); memory != idle_.end(); ++memory) {
    const std::size_t has = (*memory)->size();
    if (has < size || has / kLargestWaste > std::max(size, kPage)) continue;
    if (best == idle_.end() || has < (*best)->size()) best = memory;
  }
  if (best == idle_.end()) return nullptr;
  std::shared_ptr<SharedMemory> memory = std::move(*best);
  if (static_cast<std::size_t>(best - idle_.begin()) < unused_) --unused_;
  idle_.erase(best);
  idle_bytes_ -= memory->size();
  return memory;
}

void Arena::release(std::unique_ptr<Segment> segment) {
  // Somebody who took hold of the memory itself may still read it.
  if (segment->retained || segment->memory.use_count() > 1) return;
  std::vector<std::shared_ptr<SharedMemory>> dropped;  // unmapped after the lock: that takes time
  const std::lock_guard lock(mutex_);
  if (segment->memory->size() > keep_bytes_) return;
  idle_bytes_ += segment->memory->size();
  idle_.push_back(std::move(segment->memory));
  while (idle_bytes_ > keep_bytes_) {
    idle_bytes_ -= idle_.front()->size();
    dropped.push_back(std::move(idle_.front()));
    idle_.erase(idle_.begin());
    if (unused_ > 0) --unused_;
  }
}

// What is dropped is unmapped after the lock.
void Arena::drop_unused() {
  std::vector<std::shared_ptr<SharedMemory>> dropped;
  const std::lock_guard lock(mutex_);
  dropped = take_oldest(unused_);
}

void Arena::drop_idle() {
  std::vector<std::shared_ptr<SharedMemory>> dropped;
  const std::lock_guard lock(mutex_);
  dropped = take_oldest(idle_.size());
}

std::vector<std::shared_ptr<SharedMemory>> Arena::take_oldest(std::size_t count) {
  const auto end = idle_.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<std::shared_ptr<SharedMemory>> taken(std::make_move_iterator(idle_.begin()),
                                                   std::make_move_iterator(end));
  idle_.erase(idle_.begin(), end);
  for (const auto& memory : taken) idle_bytes_ -= memory->size();
  unused_ = idle_.size();
  return taken;
}

}  // namespace skyward::io

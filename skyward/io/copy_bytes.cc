#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "skyward/io/machine.h"
#include "skyward/io/shared_memory.h"
#include "skyward/io/start_thread.h"

namespace skyward::io {

namespace {

// Below this, starting threads costs more than they save.
constexpr std::size_t kAlone = std::size_t{8} << 20;
// Where memory's channels are full, more threads only take cores from the user's program.
constexpr std::size_t kMaxThreads = 4;

// MADV_POPULATE_WRITE, which old headers lack. Linux has it since 5.14.
constexpr int kPopulate = 23;

// Bytes in steps, each of which is taken once: the first ones by one thread, the last ones by
// another, until they meet.
class Steps {
 public:
  explicit Steps(ByteView bytes)
      : bytes_(bytes), end_((bytes.size() + kSize - 1) / kSize), left_(static_cast<long>(end_)) {}

  // Empty: all are taken.
  std::optional<std::size_t> first() { return take() ? std::optional(begin_++) : std::nullopt; }
  std::optional<std::size_t> last() { return take() ? std::optional(--end_) : std::nullopt; }
  void stop() { left_ = 0; }

  static std::size_t offset(std::size_t step) { return step * kSize; }
  ByteView bytes(std::size_t step) const {
    return bytes_.subspan(offset(step), std::min(kSize, bytes_.size() - offset(step)));
  }

 private:
  // Pages that the kernel has cleared are still in the cache when they are filled.
  static constexpr std::size_t kSize = std::size_t{1} << 20;

  bool take() { return left_.fetch_sub(1) > 0; }

  const ByteView bytes_;
  std::size_t begin_ = 0;
  std::size_t end_;
  std::atomic<long> left_;
};

}  // namespace

void copy_bytes(std::byte* to, ByteView from) {
  // Half the cores: the other half has the user's work to do.
  static const std::size_t threads =
      std::clamp(static_cast<std::size_t>(usable_cpus()) / 2, std::size_t{1}, kMaxThreads);
  copy_bytes(to, from, from.size() < kAlone ? 1 : threads);
}

void copy_bytes(std::byte* to, ByteView from, std::size_t threads) {
  if (from.empty()) return;
  const std::size_t part = from.size() / threads / 4096 * 4096;
  std::size_t left = from.size();  // for this thread
  std::vector<std::jthread> others;
  try {
    const SignalsBlocked blocked;
    for (std::size_t i = threads - 1; i > 0; --i) {
      const std::size_t begin = i * part;
      others.emplace_back(
          [=, size = left - begin] { std::memcpy(to + begin, from.data() + begin, size); });
      left = begin;
    }
  } catch (const std::system_error&) {  // it goes on with fewer
  }
  std::memcpy(to, from.data(), left);
}

Status copy_untouched(SharedMemory& to, ByteView from) {
  static const bool has_one_cpu = usable_cpus() < 2;
  if (from.size() < kAlone || has_one_cpu) return to.write(0, from);
  Steps steps(from);
  std::optional<std::size_t> missed;  // taken by the other thread, which could not fill it
  const auto fill_last = [&] {
    while (const auto step = steps.last()) {
      const ByteView bytes = steps.bytes(*step);
      std::byte* const begin = to.data() + Steps::offset(*step);
      if (::madvise(begin, bytes.size(), kPopulate) != 0) {
        missed = step;
        return;
      }
      std::memcpy(begin, bytes.data(), bytes.size());
    }
  };
  std::thread other;
  try {
    other = start_thread(fill_last);
  } catch (const std::system_error&) {  // this thread fills all
  }
  Status written;
  while (const auto step = steps.first()) {
    written = to.write(Steps::offset(*step), steps.bytes(*step));
    if (!written) steps.stop();
  }
  if (other.joinable()) other.join();
  if (written && missed) written = to.write(Steps::offset(*missed), steps.bytes(*missed));
  return written;
}

}  // namespace skyward::io

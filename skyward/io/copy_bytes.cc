#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "skyward/io/shared_memory.h"
#include "skyward/io/start_thread.h"

namespace skyward::io {

namespace {

// Below this, starting threads costs more than they save.
constexpr std::size_t kAlone = std::size_t{8} << 20;
// Where memory's channels are full, more threads only take cores from the user's program.
constexpr std::size_t kMaxThreads = 4;

}  // namespace

void copy_bytes(std::byte* to, ByteView from) {
  // Half the cores: the other half has the user's work to do.
  static const std::size_t threads =
      std::clamp<std::size_t>(std::thread::hardware_concurrency() / 2, 1, kMaxThreads);
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

}  // namespace skyward::io

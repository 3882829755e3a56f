#include <signal.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "skyward/io/shared_memory.h"

namespace skyward::io {

namespace {

// Below this, starting threads costs more than they save.
constexpr std::size_t kAlone = std::size_t{8} << 20;
// Where memory's channels are full, more threads only take cores from the user's program.
constexpr std::size_t kMaxThreads = 4;

}  // namespace

void copy_bytes(std::byte* to, ByteView from) {
  if (from.empty()) return;
  // Half the cores: the other half has the user's work to do.
  static const std::size_t threads =
      std::clamp<std::size_t>(std::thread::hardware_concurrency() / 2, 1, kMaxThreads);
  if (threads == 1 || from.size() < kAlone) {
    std::memcpy(to, from.data(), from.size());
    return;
  }
  // Signals belong to the user's threads: new ones inherit a full mask.
  sigset_t all;
  sigset_t previous;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &previous);
  const std::size_t part = from.size() / threads / 4096 * 4096;
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < threads; ++i) {
    const std::size_t begin = i * part;
    const std::size_t end = i + 1 == threads ? from.size() : begin + part;
    others.emplace_back([=] { std::memcpy(to + begin, from.data() + begin, end - begin); });
  }
  ::pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  std::memcpy(to, from.data(), part);
}

}  // namespace skyward::io

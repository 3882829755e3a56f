#include "skyward/io/forks.h"

#include <pthread.h>

namespace skyward::io {
namespace {

std::atomic<std::uint64_t> generation{0};
std::atomic<std::uint64_t> made{0};

// Before main(): no fork goes uncounted.
[[maybe_unused]] const int watching = ::pthread_atfork(
    nullptr, [] { ++made; },
    [] {
      ++generation;
      made = 0;
    });

}  // namespace

std::uint64_t process_generation() { return generation.load(std::memory_order_relaxed); }

std::uint64_t forks_made() { return made.load(std::memory_order_relaxed); }

}  // namespace skyward::io

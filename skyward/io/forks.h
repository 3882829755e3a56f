#pragma once

// Forks that the user's program makes. A forked child has its parent's memory and only one of its
// threads: a mutex that another thread held stays locked there forever, and what that thread was
// doing stays half done.

#include <atomic>
#include <cstdint>
#include <memory>

namespace skyward::io {

// How many forks lie between the first process and this one. A forked child's number differs from
// those of all its ancestors. Cheaper than getpid().
std::uint64_t process_generation();

// How many forks this process has made itself.
std::uint64_t forks_made();

// The one T of this process. A forked child starts with a new one and never reads its parent's.
// Never destroyed: threads may use it until the program ends. Thread-safe.
template <typename T>
T& of_this_process() {
  struct Copy {
    const std::uint64_t generation = process_generation();
    Copy* parent = nullptr;  // keeps what the parent made reachable
    T value{};
  };
  static std::atomic<Copy*> newest{nullptr};
  Copy* found = newest.load();
  while (found == nullptr || found->generation != process_generation()) {
    auto fresh = std::make_unique<Copy>();
    fresh->parent = found;
    if (newest.compare_exchange_strong(found, fresh.get())) return fresh.release()->value;
  }
  return found->value;
}

}  // namespace skyward::io

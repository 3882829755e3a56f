#pragma once

namespace skyward {

// For a thread that spins: tells its core that it only waits.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace skyward

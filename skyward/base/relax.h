#pragma once

// For threads that spin, where sleeping and being woken would take longer.

namespace skyward {

// Tells the core that its thread only waits.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace skyward

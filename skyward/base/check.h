#pragma once

// SKYWARD_CHECK(condition, "text {}", value…): a bug in this program, not a failure of the world.
// Always on, release builds too; prints file, line, the condition and the values, then aborts.

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace skyward {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               std::string_view text);

}  // namespace skyward

#define SKYWARD_CHECK(condition, ...)                                                         \
  do {                                                                                        \
    if (!(condition)) [[unlikely]] {                                                          \
      ::skyward::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
    }                                                                                         \
  } while (false)

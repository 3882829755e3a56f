#include "skyward/spec/memory_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "skyward/base/text.h"
#include "skyward/spec/json_text.h"

namespace skyward {

namespace {

constexpr double kLargestMb = 1024.0 * 1024 * 1024 * 64;  // 64 PiB

}  // namespace

Result<std::int64_t> parse_memory_mb(std::string_view text, std::string_view where) {
  constexpr std::array<std::pair<std::string_view, double>, 9> kUnits = {{{"M", 1},
                                                                          {"MB", 1},
                                                                          {"MIB", 1},
                                                                          {"G", 1024},
                                                                          {"GB", 1024},
                                                                          {"GIB", 1024},
                                                                          {"T", 1048576},
                                                                          {"TB", 1048576},
                                                                          {"TIB", 1048576}}};
  std::string plain;
  for (const char c : text) {
    if (c != ' ') plain += to_upper(c);
  }
  double value = 0;
  const auto [end, error] =
      std::from_chars(plain.data(), plain.data() + plain.size(), value, std::chars_format::fixed);
  const std::string_view unit(end, static_cast<std::size_t>(plain.data() + plain.size() - end));
  const auto found = std::ranges::find(kUnits, unit, &std::pair<std::string_view, double>::first);
  if (error == std::errc() && found != kUnits.end() && std::isfinite(value)) {
    const double mb = value * found->second;
    if (mb >= 1 && mb < kLargestMb) return static_cast<std::int64_t>(mb);
  }
  const std::string shown = json_string(text);
  if (error == std::errc() && unit.empty()) {
    return fail(ErrorKind::invalid, fmt::format("{}={} has no unit", where, shown),
                fmt::format("write \"{0}GB\" or \"{0}MB\"", plain));
  }
  return fail(ErrorKind::invalid, fmt::format("{}={} is not an amount of memory", where, shown),
              "write a number with a unit, such as \"32GB\" or \"512MB\"");
}

}  // namespace skyward

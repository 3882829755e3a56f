#include "skyward/spec/json_text.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace skyward {

namespace {

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t length = 0;  // bytes; 0: not UTF-8
};

// Decodes the code point at the front of `text` (not empty), strictly: no overlong forms, no
// surrogates.
CodePoint decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  std::size_t length = 0;
  if (first >= 0xC2 && first <= 0xDF) length = 2;
  if (first >= 0xE0 && first <= 0xEF) length = 3;
  if (first >= 0xF0 && first <= 0xF4) length = 4;
  if (length == 0 || text.size() < length) return {};
  std::uint32_t value = first & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3Fu);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kSmallest[length] || value > 0x10FFFF) return {};
  if (value >= 0xD800 && value <= 0xDFFF) return {};
  return {value, length};
}

void append_escape(std::string& out, std::uint32_t unit) {
  fmt::format_to(std::back_inserter(out), "\\u{:04x}", unit);
}

void append_code_point(std::string& out, std::uint32_t value) {
  switch (value) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\f':
      out += "\\f";
      return;
    case '\b':
      out += "\\b";
      return;
    default:
      break;
  }
  if (value >= 0x20 && value < 0x7F) {
    out += static_cast<char>(value);
  } else if (value < 0x10000) {
    append_escape(out, value);
  } else {
    append_escape(out, 0xD800 + ((value - 0x10000) >> 10));
    append_escape(out, 0xDC00 + ((value - 0x10000) & 0x3FF));
  }
}

}  // namespace

void append_json_string(std::string& out, std::string_view utf8) {
  out += '"';
  while (!utf8.empty()) {
    const CodePoint point = decode(utf8);
    if (point.length == 0) {
      append_escape(out, 0xDC00u + static_cast<std::uint8_t>(utf8[0]));
      utf8.remove_prefix(1);
    } else {
      append_code_point(out, point.value);
      utf8.remove_prefix(point.length);
    }
  }
  out += '"';
}

std::string json_string(std::string_view utf8) {
  std::string out;
  append_json_string(out, utf8);
  return out;
}

}  // namespace skyward

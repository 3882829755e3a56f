#pragma once

// Formats durations, money and tables of nodes for people.

#include <cstdint>
#include <string>
#include <string_view>

#include "skyward/spec/event.h"

namespace skyward {

// "0.42 s", "12.3 s", "1m05s", "2h07m".
std::string duration_text(double seconds);

// "2025-06-17T12:00:00.250Z".
std::string utc_text(std::int64_t wall_us);
// An event's timestamp in microseconds.
constexpr std::int64_t to_wall_us(double seconds) {
  return static_cast<std::int64_t>(seconds * 1e6);
}

// "$0.0123".
std::string money_text(double dollars);

// "1 node", "2 nodes".
std::string count_text(std::uint64_t count, std::string_view noun);

// Another machine's text, for a terminal: control characters become "�", so that it cannot move the
// cursor, nor set the title or the clipboard. Tabs, newlines and colours (ESC [ … m) stay.
std::string printable_text(std::string_view text);
// The same for what has to stay on its line, such as a name or a path: no newlines and no colours.
std::string printable_line(std::string_view text);

// The width of UTF-8 text in columns, one per code point.
int text_width(std::string_view text);

// The text, cut to `width` with "…" if it is wider.
std::string cut_text(std::string_view text, int width);

// The text in lines that leave the last column free, broken at blanks; all but the first begin with
// two blanks. A word that is longer stays whole.
std::string fold_text(std::string_view text, int width);

// The text with the signs of the displays in ASCII: "x" for "×", "ok" for "✓".
std::string ascii_text(std::string_view text);

// "$0.0400: 50% useful, 25% set-up, 25% idle".
std::string split_text(const CostFinal& cost);

// The table of nodes at a pool's end, and below it where the money went. Every line ends with a
// newline and is no wider than `width` where possible. A sum and its parts, as shown, add up to the
// last digit: what machines cost that no node got has a row of its own. A pool that cost nothing
// has no column and no lines for money.
std::string receipt_text(const PoolStopped& event, const CostFinal& cost, int width);

}  // namespace skyward

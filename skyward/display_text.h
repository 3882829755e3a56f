#pragma once

// How durations, money and tables of nodes are spelled for people.

#include <map>
#include <string>
#include <string_view>

#include "skyward/spec/event.h"

namespace skyward {

// "0.42 s", "12.3 s", "1m05s", "2h07m".
std::string duration_text(double seconds);

// "$0.0123".
std::string money_text(double dollars);

// "1 node", "2 nodes".
std::string count_text(std::uint64_t count, std::string_view noun);

// Columns that UTF-8 text takes, one for each code point.
int text_width(std::string_view text);

// The text, or its front with "…" where it is wider.
std::string cut_text(std::string_view text, int width);

// The table of nodes at a pool's end, every line ending with a newline, not wider than `width`
// where that is possible. Costs are `total_cost` shared by price (`rates`: dollars an hour by
// instance id) and time; without cost there is no such column.
std::string receipt_text(const PoolStopped& event, const std::map<std::string, double>& rates,
                         double total_cost, int width);

}  // namespace skyward

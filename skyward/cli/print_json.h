#pragma once

// A line of --json.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "skyward/cli/commands.h"

namespace skyward::cli {

// What is not UTF-8 is replaced: file names and a cloud's words may be anything.
inline void print_json(const Streams& streams, const nlohmann::ordered_json& object) {
  streams.out << object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
              << '\n';
}

// null where the value is not known, or does not apply.
inline nlohmann::ordered_json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}
inline nlohmann::ordered_json time_or_null(std::int64_t time_s) {
  return time_s == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(time_s);
}

}  // namespace skyward::cli

#pragma once

// A line of --json.

#include <nlohmann/json.hpp>
#include <ostream>

#include "skyward/cli/commands.h"

namespace skyward::cli {

// What is not UTF-8 is replaced: file names and a cloud's words may be anything.
inline void print_json(const Streams& streams, const nlohmann::ordered_json& object) {
  streams.out << object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
              << '\n';
}

}  // namespace skyward::cli

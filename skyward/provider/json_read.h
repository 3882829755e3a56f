#pragma once

// JSON that somebody else wrote: replies, caches, files of other tools. Nothing here throws. What
// is missing, null or of another type is not there.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skyward::provider {

// Null when the text is no JSON.
nlohmann::json read_json(std::string_view text);

// What stands at a path of names, "Parameter/Value"; the value itself for "". Null where an object
// on the way has no such name, or is none.
const nlohmann::json& json_at(const nlohmann::json& value, std::string_view path);

// An item of an array; null where there is none.
const nlohmann::json& json_item(const nlohmann::json& value, std::size_t at);

// Of what stands at a path: the text, empty if it is none; the number.
std::string json_text(const nlohmann::json& value, std::string_view path = "");
std::optional<double> json_number(const nlohmann::json& value, std::string_view path = "");
std::optional<std::int64_t> json_whole(const nlohmann::json& value, std::string_view path = "");

// The items of an array and the values of an object; none of anything else.
std::vector<const nlohmann::json*> json_items(const nlohmann::json& value,
                                              std::string_view path = "");

// They point into the value: a temporary would be gone.
const nlohmann::json& json_at(nlohmann::json&& value, std::string_view path) = delete;
const nlohmann::json& json_item(nlohmann::json&& value, std::size_t at) = delete;
std::vector<const nlohmann::json*> json_items(nlohmann::json&& value,
                                              std::string_view path = "") = delete;

// On one line; what is not UTF-8 in it is replaced.
std::string json_line(const nlohmann::json& value);

}  // namespace skyward::provider

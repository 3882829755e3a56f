#pragma once

// Reads JSON from outside: replies, caches, files of other tools. Nothing here throws. A value that
// is missing, null or of another type counts as absent.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skyward::provider {

// Null if the text is not JSON.
nlohmann::json read_json(std::string_view text);

// The value at a path of names, such as "Parameter/Value"; the value itself for "". Null if a name
// on the path is missing, or belongs to no object.
const nlohmann::json& json_at(const nlohmann::json& value, std::string_view path);

// An item of an array; null if there is none.
const nlohmann::json& json_item(const nlohmann::json& value, std::size_t at);

// The value at a path as text, empty if it is not text; as a number.
std::string json_text(const nlohmann::json& value, std::string_view path = "");
std::optional<double> json_number(const nlohmann::json& value, std::string_view path = "");
// The number, or the one that a text is: "0.35". Finite.
std::optional<double> json_decimal(const nlohmann::json& value, std::string_view path = "");
std::optional<std::int64_t> json_whole(const nlohmann::json& value, std::string_view path = "");

// A number as a count: none is 0, and no cloud has more than a million of anything.
int count_of(std::optional<double> number);

// The items of an array and the values of an object; none of anything else.
std::vector<const nlohmann::json*> json_items(const nlohmann::json& value,
                                              std::string_view path = "");

// They point into the value: a temporary would be gone.
const nlohmann::json& json_at(nlohmann::json&& value, std::string_view path) = delete;
const nlohmann::json& json_item(nlohmann::json&& value, std::size_t at) = delete;
std::vector<const nlohmann::json*> json_items(nlohmann::json&& value,
                                              std::string_view path = "") = delete;

// On one line; bytes that are not UTF-8 are replaced.
std::string json_line(const nlohmann::json& value);

}  // namespace skyward::provider

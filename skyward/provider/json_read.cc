#include "skyward/provider/json_read.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace skyward::provider {

using nlohmann::json;

namespace {

const json& nothing() {
  static const json& kNull = *new const json;
  return kNull;
}

}  // namespace

json read_json(std::string_view text) {
  json parsed = json::parse(text, nullptr, false);
  if (parsed.is_discarded()) return nullptr;
  return parsed;
}

const json& json_at(const json& value, std::string_view path) {
  const json* at = &value;
  while (!path.empty()) {
    const std::size_t end = path.find('/');
    if (!at->is_object()) return nothing();
    const auto found = at->find(path.substr(0, end));
    if (found == at->end()) return nothing();
    at = &*found;
    path = end == std::string_view::npos ? std::string_view() : path.substr(end + 1);
  }
  return *at;
}

const json& json_item(const json& value, std::size_t at) {
  return value.is_array() && at < value.size() ? value[at] : nothing();
}

std::string json_text(const json& value, std::string_view path) {
  const auto* text = json_at(value, path).get_ptr<const std::string*>();
  return text == nullptr ? std::string() : *text;
}

std::optional<double> json_number(const json& value, std::string_view path) {
  const json& found = json_at(value, path);
  if (!found.is_number()) return std::nullopt;
  return found.get<double>();
}

std::optional<double> json_decimal(const json& value, std::string_view path) {
  if (const auto number = json_number(value, path)) return number;
  const std::string text = json_text(value, path);
  double read = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, read);
  if (text.empty() || error != std::errc() || stop != end || !std::isfinite(read)) {
    return std::nullopt;
  }
  return read;
}

std::optional<std::int64_t> json_whole(const json& value, std::string_view path) {
  // Beyond it, doubles are not whole numbers that can be told apart.
  constexpr double kMost = 9007199254740992;
  const auto number = json_number(value, path);
  if (!number || !std::isfinite(*number) || std::abs(*number) > kMost) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

int count_of(std::optional<double> number) {
  return static_cast<int>(std::clamp(number.value_or(0), 0.0, 1e6));
}

std::vector<const json*> json_items(const json& value, std::string_view path) {
  std::vector<const json*> out;
  const json& found = json_at(value, path);
  if (!found.is_structured()) return out;
  for (const json& item : found) out.push_back(&item);
  return out;
}

std::string json_line(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace skyward::provider

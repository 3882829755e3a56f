#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/bytes.h"
#include "skyward/base/hash.h"
#include "skyward/spec/image.h"
#include "skyward/spec/json_text.h"

namespace skyward {

namespace {

void append_sorted(std::string& out, std::vector<std::string> items) {
  std::ranges::sort(items);
  out += '[';
  std::string_view separator;
  for (const std::string& item : items) {
    out += separator;
    append_json_string(out, item);
    separator = ", ";
  }
  out += ']';
}

// Sorted by URL, so that the order in which they are given does not matter.
void append_indexes(std::string& out, std::vector<PipIndex> indexes) {
  std::ranges::sort(indexes, {}, &PipIndex::url);
  out += ", \"pip_indexes\": [";
  std::string_view separator;
  for (const PipIndex& index : indexes) {
    out += separator;
    out += "{\"packages\": ";
    append_sorted(out, index.packages);
    out += ", \"url\": ";
    append_json_string(out, index.url);
    out += '}';
    separator = ", ";
  }
  out += ']';
}

}  // namespace

std::string Image::content_hash() const {
  std::string text = "{\"apt\": ";
  append_sorted(text, apt);
  text += ", \"env\": {";
  std::string_view separator;
  for (const auto& [name, value] : env) {
    text += separator;
    append_json_string(text, name);
    text += ": ";
    append_json_string(text, value);
    separator = ", ";
  }
  text += "}, \"pip\": ";
  append_sorted(text, pip);
  text += ", \"pip_extra_index_url\": ";
  if (pip_extra_index_url) {
    append_json_string(text, *pip_extra_index_url);
  } else {
    text += "null";
  }
  if (!pip_indexes.empty()) append_indexes(text, pip_indexes);
  text += ", \"python\": ";
  append_json_string(text, python);
  text += '}';
  return to_hex(sha256(as_bytes(text))).substr(0, 12);
}

}  // namespace skyward

#pragma once

// Bytes, owned, borrowed and shared.

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skyward {

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

inline ByteView as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string_view as_text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline Bytes to_bytes(std::string_view text) {
  const ByteView view = as_bytes(text);
  return {view.begin(), view.end()};
}

// Immutable bytes that several may hold: `owner` keeps `view` alive, whatever it is (a vector, a
// Python object, a mapped file). Copies are cheap and never copy the bytes.
struct SharedBytes {
  std::shared_ptr<const void> owner;
  ByteView view;

  SharedBytes() = default;
  SharedBytes(std::shared_ptr<const void> keep, ByteView bytes)
      : owner(std::move(keep)), view(bytes) {}
  explicit SharedBytes(Bytes bytes) {
    auto kept = std::make_shared<const Bytes>(std::move(bytes));
    view = *kept;
    owner = std::move(kept);
  }
  explicit SharedBytes(std::string text) {
    auto kept = std::make_shared<const std::string>(std::move(text));
    view = as_bytes(*kept);
    owner = std::move(kept);
  }

  std::size_t size() const { return view.size(); }
  bool empty() const { return view.empty(); }
  bool operator==(const SharedBytes& other) const {
    return view.size() == other.view.size() &&
           (view.empty() || std::memcmp(view.data(), other.view.data(), view.size()) == 0);
  }
};

}  // namespace skyward

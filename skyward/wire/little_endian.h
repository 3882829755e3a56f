#pragma once

// Numbers and bytes in the order of the wire: least significant byte first, on every machine.
// Reading never goes beyond the view: missing bytes read as zero and mark the reader as failed, so
// that a caller can read a whole table and check once.

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "skyward/base/bytes.h"

namespace skyward::wire {

template <std::unsigned_integral T>
void store(std::byte* to, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    to[i] = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff);
  }
}

template <std::unsigned_integral T>
T load(const std::byte* from) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value |= std::to_integer<std::uint64_t>(from[i]) << (8 * i);
  }
  return static_cast<T>(value);
}

// Writes into memory of known size, front to back.
class ByteWriter {
 public:
  explicit ByteWriter(std::byte* to) : next_(to) {}

  template <std::unsigned_integral T>
  void put(T value) {
    store(next_, value);
    next_ += sizeof(T);
  }
  void put_bytes(const void* from, std::size_t size) {
    if (size != 0) std::memcpy(next_, from, size);
    next_ += size;
  }
  const std::byte* position() const { return next_; }

 private:
  std::byte* next_;
};

class ByteReader {
 public:
  explicit ByteReader(ByteView bytes) : rest_(bytes) {}

  template <std::unsigned_integral T>
  T take() {
    const ByteView bytes = take_bytes(sizeof(T));
    return failed_ ? T{0} : load<T>(bytes.data());
  }
  ByteView take_bytes(std::uint64_t size) {
    if (size > rest_.size()) failed_ = true;
    if (failed_) return {};
    const ByteView taken = rest_.first(static_cast<std::size_t>(size));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  std::size_t left() const { return rest_.size(); }
  bool failed() const { return failed_; }

 private:
  ByteView rest_;
  bool failed_ = false;
};

}  // namespace skyward::wire

#pragma once

// An array that many calls share. Its elements cannot change, copies of it are cheap, and a pool
// gets them once:
//
//   const sky::Array<double> data = read_data();  // from a std::vector, without a copy
//   std::vector<sky::Pending<double>> trials;
//   for (double rate : rates) trials.push_back(train(data, rate));
//   const auto losses = sky::gather(trials) >> pool;
//
// Pass it to parameters of type std::span<const T>, which read it in place in shared memory, or of
// type sky::Array<T>. (They accept a std::vector as well, but then every call keeps a copy of its
// own.)

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "skyward/call/archive.h"

namespace skyward {

// Thread-safe.
template <typename T>
  requires std::is_arithmetic_v<T> && (!std::is_same_v<T, bool>)
class Array {
 public:
  using value_type = T;

  Array() : Array(std::vector<T>()) {}
  Array(std::vector<T> values) : state_(std::make_shared<State>(std::move(values))) {}
  Array(std::initializer_list<T> values) : Array(std::vector<T>(values)) {}
  // Moving copies: no array is ever without its elements.
  Array(const Array&) = default;
  Array& operator=(const Array&) = default;

  const T* data() const { return state_->values.data(); }
  std::size_t size() const { return state_->values.size(); }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  const T& operator[](std::size_t index) const { return state_->values[index]; }
  operator std::span<const T>() const { return {data(), size()}; }
  bool operator==(const Array& other) const { return state_->values == other.state_->values; }

  // For the archives.
  void save(ArchiveWriter& archive) const {
    archive(cereal::make_size_tag(static_cast<cereal::size_type>(size())));
    archive.write_shared_run(data(), size() * sizeof(T), state_->stored);
  }
  void load(ArchiveReader& archive) {
    std::vector<T> values;
    archive(values);
    *this = Array(std::move(values));
  }

 private:
  struct State {
    explicit State(std::vector<T> elements) : values(std::move(elements)) {}
    const std::vector<T> values;
    StoredRun stored;
  };
  std::shared_ptr<State> state_;  // shared by all copies
};

}  // namespace skyward

#pragma once

// Plain structs travel as they are: no `serialize` has to be written for an aggregate of up to
// sixteen sendable fields.
//
//   struct Report {  // may be an argument and a result
//     int epoch;
//     std::vector<double> losses;
//   };
//
// A struct with a constructor, a private field, a base class, a C array (std::array is fine), a
// bit-field or a field of its own type says itself how it travels, with a cereal `serialize` (or
// save and load), which always comes first. What adds fields to an inherited `serialize`, or may
// do so because it has a constructor, needs one of its own, which begins with
// archive(cereal::base_class<Base>(this)).

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "skyward/call/archive.h"
#include "skyward/call/probe.h"

namespace skyward {

inline constexpr std::size_t kMaxPlainFields = 16;

template <typename T, std::size_t... I>
constexpr bool takes_fields(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), probe::AnyField{})...}; };
}
// The number of fields of an aggregate; one more than the maximum if it has too many, none if the
// first one is of a type that nothing can be made of here.
template <typename T, std::size_t N = kMaxPlainFields + 1>
constexpr std::size_t field_count() {
  if constexpr (N == 0 || takes_fields<T>(std::make_index_sequence<N>{})) {
    return N;
  } else {
    return field_count<T, N - 1>();
  }
}

template <typename T>
concept PlainStruct =
    std::is_class_v<T> && std::is_aggregate_v<T> && !requires { typename T::value_type; } &&
    !probe::HasOwn<T> && !probe::kHasBase<T> && (field_count<T>() > 0 || std::is_empty_v<T>) &&
    field_count<T>() <= kMaxPlainFields;

// The result of calling `visit` with all fields.
template <typename T, typename Visit>
constexpr auto visit_fields(T& value, Visit visit) {
  constexpr std::size_t kCount = field_count<std::remove_const_t<T>>();
  // clang-format off
  if constexpr (kCount == 0) { return visit(); }
  else if constexpr (kCount == 1) { auto& [a] = value; return visit(a); }
  else if constexpr (kCount == 2) { auto& [a, b] = value; return visit(a, b); }
  else if constexpr (kCount == 3) { auto& [a, b, c] = value; return visit(a, b, c); }
  else if constexpr (kCount == 4) { auto& [a, b, c, d] = value; return visit(a, b, c, d); }
  else if constexpr (kCount == 5) { auto& [a, b, c, d, e] = value; return visit(a, b, c, d, e); }
  else if constexpr (kCount == 6) {
    auto& [a, b, c, d, e, f] = value;
    return visit(a, b, c, d, e, f);
  }
  else if constexpr (kCount == 7) {
    auto& [a, b, c, d, e, f, g] = value;
    return visit(a, b, c, d, e, f, g);
  }
  else if constexpr (kCount == 8) {
    auto& [a, b, c, d, e, f, g, h] = value;
    return visit(a, b, c, d, e, f, g, h);
  }
  else if constexpr (kCount == 9) {
    auto& [a, b, c, d, e, f, g, h, i] = value;
    return visit(a, b, c, d, e, f, g, h, i);
  }
  else if constexpr (kCount == 10) {
    auto& [a, b, c, d, e, f, g, h, i, j] = value;
    return visit(a, b, c, d, e, f, g, h, i, j);
  }
  else if constexpr (kCount == 11) {
    auto& [a, b, c, d, e, f, g, h, i, j, k] = value;
    return visit(a, b, c, d, e, f, g, h, i, j, k);
  }
  else if constexpr (kCount == 12) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l] = value;
    return visit(a, b, c, d, e, f, g, h, i, j, k, l);
  }
  else if constexpr (kCount == 13) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = value;
    return visit(a, b, c, d, e, f, g, h, i, j, k, l, m);
  }
  else if constexpr (kCount == 14) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = value;
    return visit(a, b, c, d, e, f, g, h, i, j, k, l, m, n);
  }
  else if constexpr (kCount == 15) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] = value;
    return visit(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);
  }
  else if constexpr (kCount == 16) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = value;
    return visit(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);
  }
  // clang-format on
}

template <typename Archive, typename T>
  requires(std::is_same_v<Archive, ArchiveWriter> || std::is_same_v<Archive, ArchiveReader>) &&
          PlainStruct<T>
void CEREAL_SERIALIZE_FUNCTION_NAME(Archive& archive, T& value) {
  if constexpr (std::is_empty_v<T>) {  // so that a count of them can be checked
    std::uint8_t none = 0;
    archive(none);
  } else {
    visit_fields(value, [&archive](auto&... field) { (archive(field), ...); });
  }
}

}  // namespace skyward

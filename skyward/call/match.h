#pragma once

// sky::match(event, [](const LogLine& line) {…}, [](const CostFinal& cost) {…}): calls the function
// that accepts the variant's value, or none. A function that accepts no alternative of the variant
// does not compile.

#include <type_traits>
#include <utility>
#include <variant>

#include "skyward/base/overloaded.h"

namespace skyward {

// Whether F can be called with some alternative of the variant.
template <typename F, typename Variant>
struct FitsSome;
template <typename F, typename... Ts>
struct FitsSome<F, std::variant<Ts...>>
    : std::bool_constant<(std::is_invocable_v<F&, const Ts&> || ...)> {};

template <typename Variant, typename... Fs>
void match(const Variant& variant, Fs&&... functions) {
  static_assert((FitsSome<std::decay_t<Fs>, Variant>::value && ...),
                "a function given to sky::match would never be called: it takes nothing that the "
                "variant can hold; take it by value or by const reference, as in "
                "`[](const sky::LogLine& line)`");
  Overloaded<std::decay_t<Fs>...> overloaded{std::forward<Fs>(functions)...};
  std::visit(
      [&overloaded](const auto& value) {
        if constexpr (requires { overloaded(value); }) {
          overloaded(value);
        } else {
          static_assert(!(std::is_invocable_v<std::decay_t<Fs>&, decltype(value)> || ...),
                        "two functions given to sky::match fit the same type equally well");
        }
      },
      variant);
}

}  // namespace skyward

#pragma once

// sky::match(event, [](const LogLine& line) {…}, [](const CostFinal& cost) {…}): calls the function
// that fits what the variant holds, and none when none fits.

#include <utility>
#include <variant>

namespace skyward {

template <typename... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};

template <typename Variant, typename... Fs>
void match(const Variant& variant, Fs&&... functions) {
  const Overloaded<std::decay_t<Fs>...> overloaded{std::forward<Fs>(functions)...};
  std::visit(
      [&overloaded](const auto& value) {
        if constexpr (requires { overloaded(value); }) overloaded(value);
      },
      variant);
}

}  // namespace skyward

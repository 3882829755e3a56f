#pragma once

// std::visit(Overloaded{[](const A&) {…}, [](const auto&) {…}}, variant): one function out of
// several, chosen by the type of what the variant holds.

namespace skyward {

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

}  // namespace skyward

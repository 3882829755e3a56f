#include "skyward/base/type_text.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string_view>

namespace skyward {

std::string type_text(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  std::string text = name ? name.get() : type.name();
  constexpr std::string_view kNested = "std::_Nested_exception<";  // in libstdc++
  if (!text.starts_with(kNested) || !text.ends_with('>')) return text;
  return text.substr(kNested.size(), text.size() - kNested.size() - 1);
}

}  // namespace skyward

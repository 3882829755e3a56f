#pragma once

// How text crosses between C++ and Python. It replaces nanobind's own casters, whose way to Python
// raises UnicodeDecodeError: text may come from a command, a cloud or a variable, and must not turn
// an event or an error into another error. Bytes that are not UTF-8 become U+FFFD.

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace nanobind::detail {

template <typename Text>
struct TextCaster {
  NB_TYPE_CASTER(Text, const_name("str"))

  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
    if (!PyUnicode_Check(source.ptr())) return false;
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(source.ptr(), &size);
    if (text == nullptr) {
      PyErr_Clear();
      return false;
    }
    value = Text(text, static_cast<std::size_t>(size));
    return true;
  }

  static handle from_cpp(const Text& text, rv_policy, cleanup_list*) noexcept {
    return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  }
};

template <>
struct type_caster<std::string> : TextCaster<std::string> {};
template <>
struct type_caster<std::string_view> : TextCaster<std::string_view> {};

}  // namespace nanobind::detail

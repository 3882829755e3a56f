#pragma once

// Pickles of what most quick calls take and return: None, truth values, numbers, texts, bytes, and
// tuples of these. Pickle spends several times as long on them, most of it on making a pickler and
// ending it. What is written here, pickle reads; and what pickle has written is read here, if it is
// of this kind. Everything else is pickle's, as every error is.
//
// Opcodes are those of protocol 5 (PEP 574, Python's pickletools), frames and the memo left out.

#include <nanobind/nanobind.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "skyward/base/bytes.h"

namespace skyward::python {

namespace pickle_code {
inline constexpr std::uint8_t kProtocol = 0x80, kFrame = 0x95, kMemoize = 0x94, kStop = '.';
inline constexpr std::uint8_t kNone = 'N', kTrue = 0x88, kFalse = 0x89, kFloat = 'G';
inline constexpr std::uint8_t kInt1 = 'K', kInt2 = 'M', kInt4 = 'J', kLong1 = 0x8a;
inline constexpr std::uint8_t kText1 = 0x8c, kText4 = 'X', kBytes1 = 'C';
inline constexpr std::uint8_t kMark = '(', kTuple = 't', kTuple0 = ')', kTuple1 = 0x85;
inline constexpr std::uint8_t kTuple3 = 0x87, kDict0 = '}';
}  // namespace pickle_code

// Writes one pickle after another, each into the memory of the last.
class AtomWriter {
 public:
  // Empty if the value is for pickle.
  ByteView value(PyObject* value) {
    begin();
    return end(put(value, 0));
  }
  // Of the arguments of a call, (args, {}).
  ByteView arguments(PyObject* args) {
    begin();
    return end(put(args, 0) && put(pickle_code::kDict0) && put(pickle_code::kTuple1 + 1));
  }

 private:
  static constexpr std::size_t kMostBytes = 1024;
  static constexpr int kDeepest = 8;

  void begin() {
    size_ = 2;
    bytes_[0] = pickle_code::kProtocol;
    bytes_[1] = 5;
  }
  ByteView end(bool written) {
    if (!written || !put(pickle_code::kStop)) return {};
    return std::as_bytes(std::span(bytes_.data(), size_));
  }
  bool put(std::uint8_t byte) { return put(&byte, 1); }
  bool put(const void* bytes, std::size_t count) {
    if (count > kMostBytes - size_) return false;
    if (count > 0) std::memcpy(bytes_.data() + size_, bytes, count);
    size_ += count;
    return true;
  }

  bool put(PyObject* value, int depth) {
    if (value == Py_None) return put(pickle_code::kNone);
    if (value == Py_True) return put(pickle_code::kTrue);
    if (value == Py_False) return put(pickle_code::kFalse);
    if (PyLong_CheckExact(value)) return put_int(value);
    if (PyFloat_CheckExact(value)) return put_float(value);
    if (PyUnicode_CheckExact(value)) return put_text(value);
    if (PyBytes_CheckExact(value)) return put_bytes(value);
    return PyTuple_CheckExact(value) && depth < kDeepest && put_tuple(value, depth + 1);
  }

  bool put_int(PyObject* value) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow != 0) return false;
    const auto low = static_cast<std::uint64_t>(number);
    const auto fitting = [&](std::uint8_t code, std::size_t count) {
      std::uint8_t digits[8];
      for (std::size_t i = 0; i < count; ++i) digits[i] = static_cast<std::uint8_t>(low >> (8 * i));
      return put(code) && (code != pickle_code::kLong1 || put(static_cast<std::uint8_t>(count))) &&
             put(digits, count);
    };
    if (number >= 0 && number <= 0xff) return fitting(pickle_code::kInt1, 1);
    if (number >= 0 && number <= 0xffff) return fitting(pickle_code::kInt2, 2);
    if (number >= std::numeric_limits<std::int32_t>::min() &&
        number <= std::numeric_limits<std::int32_t>::max()) {
      return fitting(pickle_code::kInt4, 4);
    }
    return fitting(pickle_code::kLong1, 8);
  }
  bool put_float(PyObject* value) {
    const auto bits = std::bit_cast<std::uint64_t>(PyFloat_AsDouble(value));
    std::uint8_t digits[8];
    for (int i = 0; i < 8; ++i) digits[i] = static_cast<std::uint8_t>(bits >> (56 - 8 * i));
    return put(pickle_code::kFloat) && put(digits, sizeof digits);
  }
  bool put_text(PyObject* value) {
    if (PyUnicode_GetLength(value) > 0xff) return false;  // it would keep a copy in UTF-8
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(value, &size);
    if (text == nullptr) {  // it has half of a surrogate pair
      PyErr_Clear();
      return false;
    }
    return put_sized(pickle_code::kText1, text, static_cast<std::size_t>(size));
  }
  bool put_bytes(PyObject* value) {
    char* bytes = nullptr;
    Py_ssize_t size = 0;
    return PyBytes_AsStringAndSize(value, &bytes, &size) == 0 &&
           put_sized(pickle_code::kBytes1, bytes, static_cast<std::size_t>(size));
  }
  bool put_sized(std::uint8_t code, const char* bytes, std::size_t size) {
    return size <= 0xff && put(code) && put(static_cast<std::uint8_t>(size)) && put(bytes, size);
  }
  bool put_tuple(PyObject* value, int depth) {
    const Py_ssize_t size = PyTuple_Size(value);
    if (size == 0) return put(pickle_code::kTuple0);
    if (size > 3 && !put(pickle_code::kMark)) return false;
    for (Py_ssize_t i = 0; i < size; ++i) {
      if (!put(PyTuple_GetItem(value, i), depth)) return false;
    }
    return put(size > 3 ? pickle_code::kTuple
                        : static_cast<std::uint8_t>(pickle_code::kTuple1 + size - 1));
  }

  std::array<std::uint8_t, kMostBytes> bytes_;
  std::size_t size_ = 0;
};

}  // namespace skyward::python

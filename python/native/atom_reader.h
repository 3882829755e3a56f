#pragma once

// Reads the pickles of atoms.h.

#include <nanobind/nanobind.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "python/native/atoms.h"
#include "skyward/base/bytes.h"

namespace skyward::python {

class AtomReader {
 public:
  // The value; null, and no error, if pickle must read it.
  static PyObject* read(ByteView pickle) {
    AtomReader reader(pickle);
    return reader.run();
  }

 private:
  explicit AtomReader(ByteView pickle)
      : at_(reinterpret_cast<const std::uint8_t*>(pickle.data())), left_(pickle.size()) {}
  ~AtomReader() {
    while (height_ > 0) Py_DECREF(stack_[--height_]);
  }
  AtomReader(const AtomReader&) = delete;
  AtomReader& operator=(const AtomReader&) = delete;

  PyObject* run() {
    const std::uint8_t* head = take(2);
    if (head == nullptr || head[0] != pickle_code::kProtocol || head[1] < 4 || head[1] > 5) {
      return nullptr;
    }
    while (const std::uint8_t* code = take(1)) {
      if (*code == pickle_code::kStop) {
        if (left_ > 0 || height_ != 1 || marks_ > 0) return nullptr;
        height_ = 0;
        return stack_[0];
      }
      if (!step(*code)) break;
    }
    PyErr_Clear();
    return nullptr;
  }

  bool step(std::uint8_t code) {
    using namespace pickle_code;
    switch (code) {
      case kFrame:
        return is_frame_of_all();
      case kMemoize:
        return height_ > floor();
      case kNone:
        return push(Py_NewRef(Py_None));
      case kTrue:
        return push(Py_NewRef(Py_True));
      case kFalse:
        return push(Py_NewRef(Py_False));
      case kInt1:
        return push_int(1, false);
      case kInt2:
        return push_int(2, false);
      case kInt4:
        return push_int(4, true);
      case kLong1:
        return push_long();
      case kFloat:
        return push_float();
      case kText1:
      case kText4:
        return push_text(code == kText1 ? 1 : 4);
      case kBytes1:
        return push_bytes();
      case kDict0:
        return push(PyDict_New());
      case kMark:
        return mark();
      case kTuple:
        return marks_ > 0 && make_tuple(marks_at_[--marks_]);
      case kTuple0:
        return make_tuple(height_);
      default:
        if (code < kTuple1 || code > kTuple3) return false;
        return make_last(static_cast<std::size_t>(code - kTuple1) + 1);
    }
  }

  const std::uint8_t* take(std::size_t count) {
    if (count > left_) return nullptr;
    const std::uint8_t* taken = at_;
    at_ += count;
    left_ -= count;
    return taken;
  }
  // Little-endian, of a number that has that many bytes.
  bool number(std::size_t count, std::uint64_t& value) {
    const std::uint8_t* digits = take(count);
    if (digits == nullptr) return false;
    value = 0;
    for (std::size_t i = 0; i < count; ++i) value |= std::uint64_t{digits[i]} << (8 * i);
    return true;
  }
  // Small pickles have one frame.
  bool is_frame_of_all() {
    std::uint64_t size = 0;
    return number(8, size) && size == left_;
  }
  // Takes over the reference. False if it is null, or there is no room for it.
  bool push(PyObject* value) {
    if (value == nullptr) return false;
    if (height_ == stack_.size()) {
      Py_DECREF(value);
      return false;
    }
    stack_[height_++] = value;
    return true;
  }
  bool push_int(std::size_t count, bool is_signed) {
    std::uint64_t value = 0;
    if (!number(count, value)) return false;
    const std::size_t unused = is_signed ? 64 - 8 * count : 0;
    return push(PyLong_FromLongLong(static_cast<std::int64_t>(value << unused) >> unused));
  }
  bool push_long() {
    const std::uint8_t* count = take(1);
    return count != nullptr && *count >= 1 && *count <= 8 && push_int(*count, true);
  }
  bool push_float() {
    const std::uint8_t* digits = take(8);
    if (digits == nullptr) return false;
    std::uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits = bits << 8 | digits[i];
    return push(PyFloat_FromDouble(std::bit_cast<double>(bits)));
  }
  bool push_text(std::size_t count) {
    std::uint64_t size = 0;
    if (!number(count, size) || size > left_) return false;
    const auto* text = reinterpret_cast<const char*>(take(size));
    return push(PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(size), "surrogatepass"));
  }
  bool push_bytes() {
    std::uint64_t size = 0;
    if (!number(1, size) || size > left_) return false;
    const auto* bytes = reinterpret_cast<const char*>(take(size));
    return push(PyBytes_FromStringAndSize(bytes, static_cast<Py_ssize_t>(size)));
  }
  bool mark() {
    if (marks_ == marks_at_.size()) return false;
    marks_at_[marks_++] = height_;
    return true;
  }
  bool make_last(std::size_t count) {
    return count <= height_ - floor() && make_tuple(height_ - count);
  }
  // What is below the last mark belongs to an outer tuple.
  std::size_t floor() const { return marks_ == 0 ? 0 : marks_at_[marks_ - 1]; }
  // Of all from that place on.
  bool make_tuple(std::size_t first) {
    PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(height_ - first));
    if (tuple == nullptr) return false;
    for (std::size_t i = first; i < height_; ++i) {
      PyTuple_SetItem(tuple, static_cast<Py_ssize_t>(i - first), stack_[i]);  // takes it over
    }
    height_ = first;
    return push(tuple);
  }

  const std::uint8_t* at_;
  std::size_t left_;
  std::array<PyObject*, 64> stack_;
  std::size_t height_ = 0;
  std::array<std::size_t, 16> marks_at_;
  std::size_t marks_ = 0;
};

}  // namespace skyward::python

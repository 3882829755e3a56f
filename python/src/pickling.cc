#include "pickling.h"

#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "python/native/atom_reader.h"

namespace skyward::python {
namespace {

// What tells that plain pickle refers to the program itself: "__main__" and "__mp_main__".
constexpr std::string_view kProgram = "_main__";

// BESIDE_BYTES of serialize.py, which keeps them out of the stream.
constexpr Py_ssize_t kBesideBytes = Py_ssize_t{1} << 20;

bool is_large(PyObject* value) {
  return PyBytes_CheckExact(value) && PyBytes_Size(value) >= kBesideBytes;
}

// Whether one of them is large bytes. `arguments`: (args, kwargs).
bool has_large(const nb::tuple& arguments) {
  if (PyTuple_CheckExact(arguments[0].ptr()) == 0) return false;
  for (nb::handle value : nb::borrow<nb::tuple>(arguments[0])) {
    if (is_large(value.ptr())) return true;
  }
  PyObject* value = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(arguments[1].ptr(), &at, nullptr, &value) != 0) {
    if (is_large(value)) return true;
  }
  return false;
}

}  // namespace

PlainPickler::PlainPickler(nb::callable dumps, nb::callable beside)
    : dumps_(std::move(dumps)),
      beside_(std::move(beside)),
      names_(nb::make_tuple(interned("protocol"), interned("buffer_callback"))) {}

nb::object PlainPickler::operator()(const nb::tuple& arguments) const {
  if (has_large(arguments)) return {};
  const std::array<PyObject*, 3> given{arguments.ptr(), protocol_.ptr(), beside_.ptr()};
  PyObject* stream = PyObject_Vectorcall(dumps_.ptr(), given.data(), 1, names_.ptr());
  if (stream == nullptr) {
    if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw nb::python_error();
    PyErr_Clear();
    return {};
  }
  nb::object held = nb::steal(stream);
  const auto& bytes = nb::cast<nb::bytes>(held);
  if (memmem(bytes.c_str(), bytes.size(), kProgram.data(), kProgram.size()) != nullptr) return {};
  return held;
}

std::optional<wire::Payload> PlainPickler::small(nb::handle args, nb::handle kwargs) {
  if (PyDict_CheckExact(kwargs.ptr()) == 0 || PyDict_Size(kwargs.ptr()) != 0) return std::nullopt;
  const ByteView bytes = small(args);
  if (bytes.empty()) return std::nullopt;
  wire::Payload payload;
  payload.buffers.push_back(wire::small_buffer(SharedBytes(Bytes(bytes.begin(), bytes.end()))));
  return payload;
}

nb::object unpickled(ByteView bytes, const nb::callable& loads) {
  if (PyObject* value = AtomReader::read(bytes)) return nb::steal(value);
  const nb::bytes stream(bytes.data(), bytes.size());
  PyObject* argument = stream.ptr();
  if (PyObject* value = PyObject_Vectorcall(loads.ptr(), &argument, 1, nullptr)) {
    return nb::steal(value);
  }
  if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0) throw nb::python_error();
  if (PyErr_ExceptionMatches(PyExc_SystemExit) == 0) {
    PyErr_Clear();
    return {};
  }
  nb::python_error first;
  if (PyObject* value = PyObject_Vectorcall(loads.ptr(), &argument, 1, nullptr)) {
    Py_DECREF(value);
    throw nb::python_error(first);  // a signal's handler has raised it
  }
  if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0) throw nb::python_error();
  PyErr_Clear();
  return {};
}

nb::str interned(const char* text) {
  PyObject* name = PyUnicode_InternFromString(text);
  if (name == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(name);
}

void clear(const nb::list& list) {
  if (nb::len(list) > 0 && PyList_SetSlice(list.ptr(), 0, PY_SSIZE_T_MAX, nullptr) != 0) {
    throw nb::python_error();
  }
}

}  // namespace skyward::python

// skyward/wire/payload.h.

#include "payload.h"

#include <cstring>

#include "skyward/spec/limits.h"

namespace skyward::python {
namespace {

// Received memory was mapped privately: whoever writes to it changes only what they see themselves.
int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const Memory* memory = nb::inst_ptr<Memory>(self);
  auto* data = const_cast<std::byte*>(memory->bytes.view.data());
  return PyBuffer_FillInfo(view, self, data, static_cast<Py_ssize_t>(memory->bytes.size()), 0,
                           flags);
}

PyType_Slot memory_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

SharedBytes map(const wire::Buffer& buffer) {
  const nb::gil_scoped_release released;
  return map_buffer(buffer);
}

nb::object stream_of(const wire::Buffer& buffer) {
  if (buffer.in_blob()) return nb::cast(Memory{map(buffer)});
  return nb::bytes(buffer.bytes.view.data(), buffer.bytes.size());
}

nb::object buffer_of(const wire::Buffer& buffer) {
  if (buffer.in_blob()) return nb::cast(Memory{map(buffer)});
  PyObject* copy =
      PyByteArray_FromStringAndSize(reinterpret_cast<const char*>(buffer.bytes.view.data()),
                                    static_cast<Py_ssize_t>(buffer.bytes.size()));
  if (copy == nullptr) throw nb::python_error();
  return nb::steal(copy);
}

bool holds(const Stored& stored, nb::handle buffer) {
  Py_buffer view;
  if (PyObject_GetBuffer(buffer.ptr(), &view, PyBUF_SIMPLE) != 0) throw nb::python_error();
  bool same = static_cast<std::size_t>(view.len) == stored.blob.size;
  if (same) {
    const nb::gil_scoped_release released;
    same = std::memcmp(Pool::stored_bytes(stored.blob).data(), view.buf, stored.blob.size) == 0;
  }
  PyBuffer_Release(&view);
  return same;
}

}  // namespace

nb::tuple to_python(const wire::Payload& payload) {
  if (payload.buffers.empty()) return nb::make_tuple(nb::bytes("", 0), nb::list());
  nb::list buffers;
  for (std::size_t i = 1; i < payload.buffers.size(); ++i) {
    buffers.append(buffer_of(payload.buffers[i]));
  }
  return nb::make_tuple(stream_of(payload.buffers.front()), buffers);
}

Packer::~Packer() {
  for (Seen& seen : seen_) PyBuffer_Release(&seen.view);
}

wire::Payload Packer::pack(nb::handle stream, nb::handle buffers) {
  wire::Payload payload;
  payload.buffers.push_back(add(stream));
  for (nb::handle buffer : buffers) payload.buffers.push_back(add(buffer));
  return payload;
}

wire::Buffer Packer::add(nb::handle source) {
  if (const Stored* stored = nullptr; nb::try_cast(source, stored)) {
    return wire::blob_buffer(stored->blob, 0, stored->blob.size);
  }
  Py_buffer view;
  if (PyObject_GetBuffer(source.ptr(), &view, PyBUF_SIMPLE) != 0) throw nb::python_error();
  const ByteView bytes{static_cast<const std::byte*>(view.buf), static_cast<std::size_t>(view.len)};
  if (bytes.size() < kBlobThresholdBytes) {
    // A copy of our own: the engine's thread lets go of it without the GIL.
    Bytes copy(bytes.begin(), bytes.end());
    PyBuffer_Release(&view);
    return wire::small_buffer(SharedBytes(std::move(copy)));
  }
  for (const Seen& seen : seen_) {
    if (seen.view.buf == view.buf && seen.view.len == view.len) {
      PyBuffer_Release(&view);
      return wire::blob_buffer(seen.blob, 0, bytes.size());
    }
  }
  seen_.push_back({view, {}});
  const nb::gil_scoped_release released;
  seen_.back().blob = pool_.store(bytes);
  return wire::blob_buffer(seen_.back().blob, 0, bytes.size());
}

void bind_payload(nb::module_& module) {
  nb::class_<Memory>(module, "Memory", nb::type_slots(memory_slots),
                     "Received memory: a writable buffer.")
      .def("__len__", [](const Memory& memory) { return memory.bytes.size(); });
  nb::class_<Stored>(module, "Stored", "A buffer that was stored once, for any number of calls.")
      .def("holds", &holds, nb::arg("buffer"), "Whether a buffer has the very same bytes.")
      .def("__len__", [](const Stored& stored) { return stored.blob.size; });
  nb::class_<wire::Payload>(module, "Payload", "A call's arguments, packed.")
      .def("size", &wire::Payload::size, "Bytes of all buffers together.");
}

}  // namespace skyward::python

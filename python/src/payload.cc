// skyward/wire/payload.h.

#include "payload.h"

#include <algorithm>
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
  const GilReleased released;
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
  const BufferView view(buffer);
  const ByteView bytes = view.bytes();
  if (bytes.size() != stored.blob.size) return false;
  const GilReleased released;
  return std::memcmp(Pool::stored_bytes(stored.blob).data(), bytes.data(), bytes.size()) == 0;
}

std::pair<const void*, std::size_t> place_of(ByteView bytes) {
  return {bytes.data(), bytes.size()};
}

// Up to this size, bytes are compared in full: it takes about as long as the call itself.
constexpr std::size_t kComparedBytes = std::size_t{1} << 20;
// Of larger ones, so much of each step.
constexpr std::size_t kSampleBytes = 64;
constexpr std::size_t kSampleStep = std::size_t{64} << 10;

// Whether a buffer holds what was stored of it, as far as samples tell.
bool is_unchanged(const wire::Buffer& stored, ByteView bytes) {
  const ByteView known = Pool::stored_bytes(stored.blob).subspan(stored.offset, stored.size);
  const auto same = [&](std::size_t at, std::size_t size) {
    return std::memcmp(known.data() + at, bytes.data() + at, size) == 0;
  };
  if (bytes.size() <= kComparedBytes) return same(0, bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += kSampleStep) {
    if (!same(at, std::min(kSampleBytes, bytes.size() - at))) return false;
  }
  return same(bytes.size() - kSampleBytes, kSampleBytes);
}

}  // namespace

BufferView::BufferView(nb::handle source) {
  if (PyObject_GetBuffer(source.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
}

BufferView::BufferView(BufferView&& other) noexcept
    : view_(std::exchange(other.view_, Py_buffer{})) {}

BufferView::~BufferView() { PyBuffer_Release(&view_); }

bool Packer::Draft::has_room() const {
  // One for the function's body, one for the rest.
  return blobs.size() + 2 < kMaxFrameDescriptors;
}

bool Packer::Draft::use(const wire::Buffer& stored) {
  if (!blobs.contains(stored.blob.id) && !has_room()) return false;
  blobs.insert(stored.blob.id);
  payload.buffers.push_back(stored);
  return true;
}

void Packer::Draft::put_off(ByteView bytes) {
  Run& run = rest[place_of(bytes)];
  run.bytes = bytes;
  run.positions.push_back(payload.buffers.size());
  payload.buffers.emplace_back();
}

nb::tuple to_python(const wire::Payload& payload) {
  if (payload.buffers.empty()) return nb::make_tuple(nb::bytes("", 0), nb::list());
  nb::list buffers;
  for (std::size_t i = 1; i < payload.buffers.size(); ++i) {
    buffers.append(buffer_of(payload.buffers[i]));
  }
  return nb::make_tuple(stream_of(payload.buffers.front()), buffers);
}

wire::Payload Packer::pack(nb::handle stream, nb::handle buffers) {
  Draft draft;
  add(draft, stream);
  for (nb::handle buffer : buffers) add(draft, buffer);
  store_rest(draft);
  return std::move(draft.payload);
}

void Packer::add(Draft& draft, nb::handle source) {
  if (const Stored* stored = nullptr; nb::try_cast(source, stored)) {
    const ByteView bytes = Pool::stored_bytes(stored->blob);
    if (!draft.use(wire::blob_buffer(stored->blob, 0, bytes.size()))) draft.put_off(bytes);
    return;
  }
  BufferView view(source);
  const ByteView bytes = view.bytes();
  if (bytes.size() < kBlobThresholdBytes) {
    if (draft.inline_bytes + bytes.size() > kMaxInlineBytes) {
      views_.push_back(std::move(view));
      return draft.put_off(bytes);
    }
    draft.inline_bytes += bytes.size();
    // A copy of our own: the engine's thread lets go of it without the GIL.
    draft.payload.buffers.push_back(
        wire::small_buffer(SharedBytes(Bytes(bytes.begin(), bytes.end()))));
    return;
  }
  const auto seen = seen_.find(place_of(bytes));
  if (seen != seen_.end() && is_unchanged(seen->second, bytes) && draft.use(seen->second)) return;
  views_.push_back(std::move(view));
  if (!draft.has_room()) return draft.put_off(bytes);
  wire::Blob blob;
  {
    const GilReleased released;
    blob = pool_.store(bytes);
  }
  const auto stored = wire::blob_buffer(std::move(blob), 0, bytes.size());
  seen_.insert_or_assign(place_of(bytes), stored);
  draft.use(stored);
}

void Packer::store_rest(Draft& draft) {
  if (draft.rest.empty()) return;
  std::vector<ByteView> runs;
  for (const auto& [place, run] : draft.rest) runs.push_back(run.bytes);
  std::vector<wire::Buffer> stored;
  {
    const GilReleased released;
    stored = pool_.store_together(runs);
  }
  auto next = stored.begin();
  for (const auto& [place, run] : draft.rest) {
    for (const std::size_t position : run.positions) draft.payload.buffers[position] = *next;
    seen_.insert_or_assign(place, *next++);
  }
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

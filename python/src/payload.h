#pragma once

// Bytes across the border. Out: a stream and the caller's large buffers become a wire::Payload,
// large ones stored once in shared memory. In: a payload becomes Python buffers; large ones are the
// received memory itself, writable.

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "bindings.h"
#include "skyward/pool/pool.h"
#include "skyward/wire/payload.h"

namespace skyward::python {

// Received memory as a Python buffer; keeps the mapping alive.
struct Memory {
  SharedBytes bytes;
};

// (stream, [buffer, …]). Small buffers are copied (stream: bytes, others: bytearray).
nb::tuple to_python(const wire::Payload& payload);

// A caller's buffer that was stored for sending, and stays on the nodes for the calls that use it.
struct Stored {
  wire::Blob blob;
};

// A Python object's bytes, which stay where they are for as long as this is open.
class BufferView {
 public:
  explicit BufferView(nb::handle source);
  BufferView(BufferView&& other) noexcept;
  BufferView& operator=(BufferView&&) = delete;
  ~BufferView();

  ByteView bytes() const {
    return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

// Packs the calls of one batch. A buffer that comes twice is stored once, so views stay open until
// the packer is gone: an address alone would not tell a buffer from its successor. A message takes
// few descriptors: a call's first large buffers get a blob each, the others share one. It does not
// take any number of small ones either: those beyond kMaxInlineBytes are in that blob, too.
//
// A __reduce__ of the program's own may write to a buffer between two calls. Up to 1 MiB this is
// always seen, beyond that if it changes 64 KiB in a row: to compare 1 GiB for each of a hundred
// calls would take longer than to send it.
class Packer {
 public:
  explicit Packer(Pool& pool) : pool_(pool) {}
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;

  wire::Payload pack(nb::handle stream, nb::handle buffers);

 private:
  using Place = std::pair<const void*, std::size_t>;  // address and size

  // Of small buffers in one call. A message may have 64 MiB, the function's body among them.
  static constexpr std::size_t kMaxInlineBytes = std::size_t{8} << 20;

  // A call on its way.
  struct Draft {
    wire::Payload payload;
    std::size_t inline_bytes = 0;
    std::set<BlobId> blobs;  // that it refers to
    struct Run {
      ByteView bytes;
      std::vector<std::size_t> positions;  // in the payload
    };
    std::map<Place, Run> rest;  // to be stored together

    bool has_room() const;                 // for one more blob
    bool use(const wire::Buffer& stored);  // false: there is no room for its blob
    void put_off(ByteView bytes);          // into the rest
  };
  void add(Draft& draft, nb::handle source);
  void store_rest(Draft& draft);

  Pool& pool_;
  std::vector<BufferView> views_;
  std::map<Place, wire::Buffer> seen_;
};

}  // namespace skyward::python

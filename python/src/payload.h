#pragma once

// Bytes across the border. Out: a stream and the caller's large buffers become a wire::Payload,
// large ones stored once in shared memory. In: a payload becomes Python buffers; large ones are the
// received memory itself, writable.

#include <utility>
#include <vector>

#include "bindings.h"
#include "skyward/pool.h"
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

// Packs the calls of one batch. A buffer that comes twice is stored once, so views stay open until
// the packer is gone: an address alone would not tell a buffer from its successor.
class Packer {
 public:
  explicit Packer(Pool& pool) : pool_(pool) {}
  ~Packer();
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;

  wire::Payload pack(nb::handle stream, nb::handle buffers);

 private:
  wire::Buffer add(nb::handle source);

  struct Seen {
    Py_buffer view;
    wire::Blob blob;
  };
  Pool& pool_;
  std::vector<Seen> seen_;
};

}  // namespace skyward::python

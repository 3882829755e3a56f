#pragma once

// Python's pickle, called from here for many small values.

#include <optional>

#include "bindings.h"
#include "python/native/atoms.h"
#include "skyward/base/bytes.h"
#include "skyward/wire/payload.h"

namespace skyward::python {

// Plain pickle. What it cannot take is left to cloudpickle, in Python.
class PlainPickler {
 public:
  // `beside` is the buffer_callback of `dumps`: it puts large buffers into a list of the caller's.
  PlainPickler(nb::callable dumps, nb::callable beside);

  // The bytes of (args, kwargs); null when plain pickle cannot take them, or must not, since they
  // refer to the program itself or have large bytes among them.
  nb::object operator()(const nb::tuple& arguments) const;

  // The bytes of the arguments of a call as one small buffer; nothing if pickle must take them.
  std::optional<wire::Payload> small(nb::handle args, nb::handle kwargs);
  // The same of positional ones, as bytes that hold until the next call; empty for nothing.
  ByteView small(nb::handle args) { return atoms_.arguments(args.ptr()); }

 private:
  nb::callable dumps_;
  nb::callable beside_;
  nb::int_ protocol_{5};
  nb::tuple names_;
  AtomWriter atoms_;
};

// What `loads` makes of the bytes; null if it raises. A KeyboardInterrupt is thrown: most likely it
// is the user's, at this very moment.
nb::object unpickled(ByteView bytes, const nb::callable& loads);

// A name that is the very object which classes keep for their fields: found at once.
nb::str interned(const char* text);

void clear(const nb::list& list);

}  // namespace skyward::python

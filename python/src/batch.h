#pragma once

// Many calls at once: pickled, packed and answered with one crossing of the border for all of them.

#include <nanobind/stl/optional.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bindings.h"
#include "payload.h"
#include "skyward/pool/pool.h"

namespace skyward::python {

// A function body that the engine's thread may be the last to hold: its owner is C++ alone, so
// letting go of it needs no GIL.
struct Function {
  std::shared_ptr<const FunctionBody> body;
};

Call make_call(const Function& function, wire::Payload arguments, std::optional<double> timeout,
               std::uint32_t stream_window);

// A batch's packer, which needs its pool to stay.
struct PoolPacker {
  nb::object pool;
  Packer packer;
};

// How Python prepares a call.
struct Preparation {
  nb::callable function_of;  // item → (Function, stream window)
  nb::callable dumps;        // pickle.dumps
  nb::callable beside;       // its buffer_callback, which puts large buffers into ...
  nb::list buffers;          // ... this list
  nb::callable pack;         // (item, position) → Call, for what plain pickle cannot take
  nb::object timeout;        // of calls without one
};

// The recorded calls, ready to be sent.
nb::list pack_calls(PoolPacker& self, nb::sequence items, const Preparation& how);

// Waits for the outcomes of the handles and takes them: the results in order, and (position,
// outcome) of those that are no small result which `loads` takes.
std::pair<nb::list, nb::list> take_results(const std::vector<Handle*>& handles,
                                           const nb::callable& loads);

void bind_batch(nb::module_& module);

}  // namespace skyward::python

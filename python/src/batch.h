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

// The value of a small result that `loads` takes; null for any other outcome.
nb::object result_of(const Outcome& outcome, const nb::callable& loads);

// One call and its answer, which most programs wait for: a single crossing of the border.
// (result,), or (Handle, Outcome) of what is no small result; () if plain pickle cannot take the
// arguments, a tuple and a dict: then nothing was sent.
nb::tuple run_one(Pool& pool, const Function& function, const nb::tuple& arguments,
                  std::optional<double> timeout, nb::callable dumps, nb::callable beside,
                  const nb::list& buffers, const nb::callable& loads);

// A batch's packer, which needs its pool to stay.
struct PoolPacker {
  nb::object owner;
  Pool& pool;
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

// Calls that were sent together.
class Sent {
 public:
  // Packs the recorded calls, and sends them.
  void send(PoolPacker& packer, nb::sequence items, const Preparation& how);
  // Sends one call. `kept`: it is no plain one.
  void add(PoolPacker& packer, const Call& call, bool kept);
  // Whether no call is a stream, or runs again when it fails: then answers are all there is.
  bool is_plain() const { return kept_.empty(); }
  // An object for each call; None for a plain one.
  nb::list calls() const;
  nb::list handles() const;
  // Waits for all outcomes and takes them, as take_results() does.
  std::pair<nb::list, nb::list> take(const nb::callable& loads);
  void cancel();

 private:
  std::vector<Handle> handles_;
  std::vector<std::pair<std::size_t, Call>> kept_;  // by position, of those that are not plain
};

void bind_batch(nb::module_& module);

}  // namespace skyward::python

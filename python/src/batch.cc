// batch.h.

#include "batch.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace skyward::python {
namespace {

// What tells that plain pickle refers to the program itself: "__main__" and "__mp_main__".
constexpr std::string_view kProgram = "_main__";

nb::object attribute(nb::handle object, const nb::str& name) {
  PyObject* value = PyObject_GetAttr(object.ptr(), name.ptr());
  if (value == nullptr) throw nb::python_error();
  return nb::steal(value);
}

// A name that is the very object which classes keep for their fields: found at once.
nb::str interned(const char* text) {
  PyObject* name = PyUnicode_InternFromString(text);
  if (name == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(name);
}

// The names of a call's fields.
struct Names {
  nb::str fn = interned("fn");
  nb::str args = interned("args");
  nb::str kwargs = interned("kwargs");
  nb::str timeout = interned("timeout");
  nb::tuple of_dumps = nb::make_tuple(interned("protocol"), interned("buffer_callback"));
};

// Pickles (args, kwargs); null when plain pickle cannot, or must not.
nb::object pickled(nb::handle item, const Names& names, const Preparation& how,
                   const nb::int_& protocol) {
  const nb::object value =
      nb::make_tuple(attribute(item, names.args), attribute(item, names.kwargs));
  const std::array<PyObject*, 3> given{value.ptr(), protocol.ptr(), how.beside.ptr()};
  PyObject* stream = PyObject_Vectorcall(how.dumps.ptr(), given.data(), 1, names.of_dumps.ptr());
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

// How many outcomes are waited for together: each wait wakes this thread once.
constexpr std::size_t kWaitedFor = 512;

// Waits until the handle at `position` is done. Tasks end in about the order of their submission,
// so it waits for one further back: many are done then.
void wait_until_done(const std::vector<Handle*>& handles, std::size_t position) {
  if (handles[position]->done()) return;
  const std::size_t last = std::min(position + kWaitedFor, handles.size()) - 1;
  for (const std::size_t next : {last, position}) {
    wait_interruptibly(kForever, [&](Duration step) { return handles[next]->wait(step); });
  }
}

void clear(const nb::list& list) {
  if (nb::len(list) > 0 && PyList_SetSlice(list.ptr(), 0, PY_SSIZE_T_MAX, nullptr) != 0) {
    throw nb::python_error();
  }
}

}  // namespace

Call make_call(const Function& function, wire::Payload arguments, std::optional<double> timeout,
               std::uint32_t stream_window) {
  CallOptions options;
  if (timeout) options.timeout = limit_from_seconds(*timeout);
  options.stream_window = stream_window;
  return {function.body, std::move(arguments), options};
}

nb::list pack_calls(PoolPacker& self, nb::sequence items, const Preparation& how) {
  const Names names;
  const nb::int_ protocol(5);
  nb::list calls;
  nb::object known_fn;  // calls of one batch mostly share their function
  nb::object known;
  const Function* function = nullptr;
  std::uint32_t window = 0;
  for (nb::handle item : items) {
    nb::object fn = attribute(item, names.fn);
    if (!fn.is(known_fn)) {
      known = how.function_of(item);
      function = &nb::cast<const Function&>(known[0]);
      window = nb::cast<std::uint32_t>(known[1]);
      known_fn = std::move(fn);
    }
    const nb::object stream = pickled(item, names, how, protocol);
    if (!stream.is_valid()) {
      clear(how.buffers);
      calls.append(how.pack(item, nb::len(calls)));
      continue;
    }
    wire::Payload arguments = self.packer.pack(stream, how.buffers);
    clear(how.buffers);
    nb::object timeout = attribute(item, names.timeout);
    if (timeout.is_none()) timeout = how.timeout;
    calls.append(nb::cast(make_call(*function, std::move(arguments),
                                    nb::cast<std::optional<double>>(timeout), window)));
  }
  return calls;
}

std::pair<nb::list, nb::list> take_results(const std::vector<Handle*>& handles,
                                           const nb::callable& loads) {
  nb::list results;
  nb::list others;
  for (std::size_t position = 0; position < handles.size(); ++position) {
    wait_until_done(handles, position);
    Outcome outcome = handles[position]->take();
    const auto& buffers = outcome.payload.buffers;
    if (outcome.status == OutcomeStatus::ok && buffers.size() == 1 && !buffers[0].in_blob()) {
      const ByteView bytes = buffers[0].bytes.view;
      const nb::bytes stream(bytes.data(), bytes.size());
      PyObject* argument = stream.ptr();
      if (PyObject* result = PyObject_Vectorcall(loads.ptr(), &argument, 1, nullptr)) {
        results.append(nb::steal(result));
        continue;
      }
      // Most likely the user's, at this very moment. Other errors are explained later.
      if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0) throw nb::python_error();
      PyErr_Clear();
    }
    results.append(nb::none());
    others.append(nb::make_tuple(position, std::move(outcome)));
  }
  return {std::move(results), std::move(others)};
}

void bind_batch(nb::module_& module) {
  nb::class_<PoolPacker>(module, "Packer", "Packs the arguments of one batch's calls.")
      .def(
          "pack",
          [](PoolPacker& self, nb::handle stream, nb::handle buffers) {
            return self.packer.pack(stream, buffers);
          },
          nb::arg("stream"), nb::arg("buffers"))
      .def(
          "calls",
          [](PoolPacker& self, nb::sequence items, nb::callable function_of, nb::callable dumps,
             nb::callable beside, nb::list buffers, nb::callable pack, nb::object timeout) {
            return pack_calls(self, std::move(items),
                              {std::move(function_of), std::move(dumps), std::move(beside),
                               std::move(buffers), std::move(pack), std::move(timeout)});
          },
          nb::arg("items"), nb::arg("function_of"), nb::arg("dumps"), nb::arg("beside"),
          nb::arg("buffers"), nb::arg("pack"), nb::arg("timeout").none(),
          nb::sig("def calls(self, items: collections.abc.Sequence[object], "
                  "function_of: collections.abc.Callable[[typing.Any], tuple[Function, int]], "
                  "dumps: collections.abc.Callable[..., bytes], "
                  "beside: collections.abc.Callable[..., bool], buffers: list[memoryview], "
                  "pack: collections.abc.Callable[[typing.Any, int], Call], "
                  "timeout: float | None) -> list[Call]"),
          "Recorded calls, ready to be sent; `pack` takes those that plain pickle cannot.");
  module.def("take_results", &take_results, nb::arg("handles"), nb::arg("loads"),
             nb::sig("def take_results(handles: collections.abc.Sequence[Handle], "
                     "loads: collections.abc.Callable[[bytes], typing.Any]) "
                     "-> tuple[list[typing.Any], list[tuple[int, Outcome]]]"),
             "Waits for all: the results, and (position, outcome) of all others.");
}

}  // namespace skyward::python

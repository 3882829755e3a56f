// batch.h.

#include "batch.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "pickling.h"

namespace skyward::python {
namespace {

nb::object attribute(nb::handle object, const nb::str& name) {
  PyObject* value = PyObject_GetAttr(object.ptr(), name.ptr());
  if (value == nullptr) throw nb::python_error();
  return nb::steal(value);
}

// The names of a call's fields.
struct Names {
  nb::str fn = interned("fn");
  nb::str args = interned("args");
  nb::str kwargs = interned("kwargs");
  nb::str timeout = interned("timeout");
  nb::str retries = interned("retries");
};

// How many outcomes are waited for together: each wait wakes this thread once.
constexpr std::size_t kWaitedFor = 512;

// Waits until the handle at `position` of `count` is done. Tasks end in about the order of their
// submission, so it waits for one further back: many are done then.
template <typename HandleAt>
void wait_until_done(HandleAt at, std::size_t count, std::size_t position) {
  if (at(position).done()) return;
  const std::size_t last = std::min(position + kWaitedFor, count) - 1;
  for (const std::size_t next : {last, position}) {
    wait_interruptibly(kForever, [&](Duration step) { return at(next).wait(step); });
  }
}

// Waits for the outcomes of the handles and takes them: the results in order, and (position,
// outcome) of those that are no small result which `loads` takes.
template <typename HandleAt>
std::pair<nb::list, nb::list> take_all(HandleAt at, std::size_t count, const nb::callable& loads) {
  nb::list results;
  nb::list others;
  for (std::size_t position = 0; position < count; ++position) {
    wait_until_done(at, count, position);
    Outcome outcome = at(position).take();
    if (nb::object result = result_of(outcome, loads); result.is_valid()) {
      results.append(std::move(result));
      continue;
    }
    results.append(nb::none());
    others.append(nb::make_tuple(position, std::move(outcome)));
  }
  return {std::move(results), std::move(others)};
}

}  // namespace

nb::object result_of(const Outcome& outcome, const nb::callable& loads) {
  const auto& buffers = outcome.payload.buffers;
  if (outcome.status != OutcomeStatus::ok || buffers.size() != 1 || buffers[0].in_blob()) return {};
  return unpickled(buffers[0].bytes.view, loads);
}

Call make_call(const Function& function, wire::Payload arguments, std::optional<double> timeout,
               std::uint32_t stream_window) {
  CallOptions options;
  if (timeout) options.timeout = limit_from_seconds(*timeout);
  options.stream_window = stream_window;
  return {function.body, std::move(arguments), options};
}

namespace {

// The arguments of a call; nothing if plain pickle cannot take them. `buffers`: where `pickled`
// puts the large ones; empty again afterwards.
std::optional<wire::Payload> packed(PlainPickler& pickled, Packer& packer, const nb::object& args,
                                    const nb::object& kwargs, const nb::list& buffers) {
  std::optional<wire::Payload> arguments = pickled.small(args, kwargs);
  if (arguments) return arguments;
  const nb::object stream = pickled(nb::make_tuple(args, kwargs));
  if (stream.is_valid()) arguments = packer.pack(stream, buffers);
  clear(buffers);
  return arguments;
}

// Packs the recorded calls; `add` gets each as a Call with its item.
template <typename Add>
void pack_calls(PoolPacker& self, nb::sequence items, const Preparation& how, const Names& names,
                Add add) {
  PlainPickler pickled(how.dumps, how.beside);
  std::size_t position = 0;
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
    std::optional<wire::Payload> arguments =
        packed(pickled, self.packer, attribute(item, names.args), attribute(item, names.kwargs),
               how.buffers);
    if (!arguments) {
      add(item, Call(nb::cast<const Call&>(how.pack(item, position++))));
      continue;
    }
    nb::object timeout = attribute(item, names.timeout);
    if (timeout.is_none()) timeout = how.timeout;
    add(item, make_call(*function, *std::move(arguments), nb::cast<std::optional<double>>(timeout),
                        window));
    ++position;
  }
}

nb::list packed_calls(PoolPacker& self, nb::sequence items, const Preparation& how) {
  nb::list calls;
  pack_calls(self, std::move(items), how, Names(),
             [&calls](nb::handle, Call call) { calls.append(nb::cast(std::move(call))); });
  return calls;
}

std::pair<nb::list, nb::list> take_results(const std::vector<Handle*>& handles,
                                           const nb::callable& loads) {
  return take_all([&](std::size_t position) -> Handle& { return *handles[position]; },
                  handles.size(), loads);
}

}  // namespace

nb::tuple run_one(Pool& pool, const Function& function, const nb::tuple& arguments,
                  std::optional<double> timeout, nb::callable dumps, nb::callable beside,
                  const nb::list& buffers, const nb::callable& loads) {
  std::optional<wire::Payload> payload;
  {
    PlainPickler pickled(std::move(dumps), std::move(beside));
    Packer packer(pool);
    payload = packed(pickled, packer, arguments[0], arguments[1], buffers);
  }
  if (!payload) return nb::make_tuple();
  Call call = make_call(function, *std::move(payload), timeout, 0);
  std::optional<Handle> handle;
  try {
    wait_interruptibly(kForever, [&](Duration step) {
      if (!handle) handle = pool.submit(std::move(call));
      return handle->wait(step);
    });
  } catch (const nb::python_error&) {  // Ctrl-C: nobody will read the answer
    handle->cancel();
    throw;
  }
  Outcome outcome = handle->take();
  if (nb::object result = result_of(outcome, loads); result.is_valid()) {
    return nb::make_tuple(std::move(result));
  }
  return nb::make_tuple(*std::move(handle), std::move(outcome));
}

void Sent::send(PoolPacker& packer, nb::sequence items, const Preparation& how) {
  const Names names;
  std::vector<Call> calls;
  std::vector<std::pair<std::size_t, Call>> kept;
  pack_calls(packer, std::move(items), how, names, [&](nb::handle item, Call call) {
    if (call.options.stream_window > 0 || nb::cast<int>(attribute(item, names.retries)) > 0) {
      kept.emplace_back(handles_.size() + calls.size(), call);
    }
    calls.push_back(std::move(call));
  });
  std::vector<Handle> handles;
  {
    const GilReleased released;
    handles = packer.pool.submit(std::move(calls));
  }
  std::ranges::move(handles, std::back_inserter(handles_));
  std::ranges::move(kept, std::back_inserter(kept_));
}

void Sent::add(PoolPacker& packer, const Call& call, bool kept) {
  {
    const GilReleased released;
    handles_.push_back(packer.pool.submit(call));
  }
  if (kept) kept_.emplace_back(handles_.size() - 1, call);
}

nb::list Sent::calls() const {
  nb::list calls;
  for (std::size_t position = 0; position < handles_.size(); ++position) calls.append(nb::none());
  for (const auto& [position, call] : kept_) calls[position] = nb::cast(call);
  return calls;
}

nb::list Sent::handles() const {
  nb::list handles;
  for (const Handle& handle : handles_) handles.append(nb::cast(handle));
  return handles;
}

std::pair<nb::list, nb::list> Sent::take(const nb::callable& loads) {
  return take_all([this](std::size_t position) -> Handle& { return handles_[position]; },
                  handles_.size(), loads);
}

void Sent::cancel() {
  const GilReleased released;
  for (Handle& handle : handles_) handle.cancel();
}

namespace {

void bind_sent(nb::module_& module) {
  nb::class_<Sent>(module, "Sent", "Calls that were sent together, each with its handle.")
      .def(nb::init<>())
      .def(
          "send",
          [](Sent& self, PoolPacker& packer, nb::sequence items, nb::callable function_of,
             nb::callable dumps, nb::callable beside, nb::list buffers, nb::callable pack,
             nb::object timeout) {
            self.send(packer, std::move(items),
                      {std::move(function_of), std::move(dumps), std::move(beside),
                       std::move(buffers), std::move(pack), std::move(timeout)});
          },
          nb::arg("packer"), nb::arg("items"), nb::arg("function_of"), nb::arg("dumps"),
          nb::arg("beside"), nb::arg("buffers"), nb::arg("pack"), nb::arg("timeout").none(),
          nb::sig("def send(self, packer: Packer, items: collections.abc.Sequence[object], "
                  "function_of: collections.abc.Callable[[typing.Any], tuple[Function, int]], "
                  "dumps: collections.abc.Callable[..., bytes], "
                  "beside: collections.abc.Callable[..., bool], buffers: list[memoryview], "
                  "pack: collections.abc.Callable[[typing.Any, int], Call], "
                  "timeout: float | None) -> None"),
          "Packs recorded calls as Packer.calls() does, and sends them.")
      .def("add", &Sent::add, nb::arg("packer"), nb::arg("call"), nb::arg("kept"),
           "Sends one call; `kept`: it is no plain one.")
      .def_prop_ro("is_plain", &Sent::is_plain, "No call is a stream, or runs again when it fails.")
      .def("calls", &Sent::calls, nb::sig("def calls(self) -> list[Call | None]"),
           "The calls; None for a plain one.")
      .def("handles", &Sent::handles, nb::sig("def handles(self) -> list[Handle]"))
      .def("take", &Sent::take, nb::arg("loads"),
           nb::sig("def take(self, loads: collections.abc.Callable[[bytes], typing.Any]) "
                   "-> tuple[list[typing.Any], list[tuple[int, Outcome]]]"),
           "Waits for all: the results, and (position, outcome) of all others.")
      .def("cancel", &Sent::cancel);
}

}  // namespace

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
            return packed_calls(self, std::move(items),
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
  bind_sent(module);
  module.def("take_results", &take_results, nb::arg("handles"), nb::arg("loads"),
             nb::sig("def take_results(handles: collections.abc.Sequence[Handle], "
                     "loads: collections.abc.Callable[[bytes], typing.Any]) "
                     "-> tuple[list[typing.Any], list[tuple[int, Outcome]]]"),
             "Waits for all: the results, and (position, outcome) of all others.");
}

}  // namespace skyward::python

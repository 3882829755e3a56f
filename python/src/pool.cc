// skyward/pool/pool.h.

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "batch.h"
#include "bindings.h"
#include "completions.h"
#include "event.h"
#include "groups.h"
#include "payload.h"
#include "skyward/base/stderr_line.h"
#include "skyward/call/error.h"
#include "skyward/pool/pool.h"
#include "skyward/pool/program_end.h"
#include "skyward/spec/loss.h"

namespace skyward::python {
namespace {

Duration limit_of(const std::optional<double>& value) {
  return value ? limit_from_seconds(*value) : kForever;
}

std::pair<std::uint64_t, std::map<std::uint64_t, std::uint64_t>> sizes_of(const Call& call) {
  std::uint64_t own = 0;
  std::map<std::uint64_t, std::uint64_t> blobs;
  for (const wire::Buffer& buffer : call.arguments.buffers) {
    if (buffer.in_blob()) {
      blobs[buffer.blob.id.value] = buffer.blob.size;
    } else {
      own += buffer.size;
    }
  }
  return {own, std::move(blobs)};
}

// A pool that ends with its program, as in C++: by SIGTERM or SIGHUP, too, where the program has no
// handler of its own for them.
class OwnedPool {
 public:
  explicit OwnedPool(PoolSpec spec) : pool_(std::make_unique<Pool>(std::move(spec))) {}
  ~OwnedPool() {
    const GilReleased released;  // the thread that brings the events needs it
    end_with_program_.reset();
    pool_.reset();
  }
  OwnedPool(const OwnedPool&) = delete;
  OwnedPool& operator=(const OwnedPool&) = delete;

  Pool& get() const { return *pool_; }

  // `poll` is as in Pool. Gives up when close() is called or the program ends meanwhile.
  void open(const std::function<void()>& poll) {
    is_opening_ = true;
    try {
      end_with_program_ =
          std::make_unique<EndsWithProgram>([this] { end(); }, [this] { pool_->hurry(); });
      pool_->open([&] {
        throw_if_program_ends();
        if (given_up_) throw CancelledError("the pool was closed while it was opening");
        poll();
      });
      end_with_program_->note_open();
      opened();
    } catch (...) {
      opened();
      throw;
    }
  }

  // `poll` is as in Pool.
  void close(const std::function<void()>& poll) {
    if (!pool_->is_ours()) return;
    given_up_ = true;
    is_opening_.wait(true);
    try {
      pool_->close(poll);
    } catch (...) {
      forget_end();
      throw;
    }
    forget_end();
  }

  // All events of the closed pool have been handed to whoever takes them, and were dealt with.
  void note_delivered() {
    if (!is_delivered_.exchange(true)) delivered_.release();
  }

 private:
  void opened() {
    is_opening_ = false;
    is_opening_.notify_all();
  }

  // On a thread of its own, without the GIL.
  void end() {
    // As long as leaving a pool waits for its handlers (HANDLER_GRACE_SECONDS).
    constexpr auto kLastEvents = std::chrono::seconds(10);
    is_opening_.wait(true);
    try {
      pool_->close();
    } catch (const std::exception& error) {
      write_stderr_line(std::string("skyward: ") + error.what());
    }
    static_cast<void>(delivered_.try_acquire_for(kLastEvents));
  }

  void forget_end() {
    std::unique_ptr<EndsWithProgram> last;
    {
      const std::scoped_lock lock(mutex_);
      last = std::move(end_with_program_);
    }
  }

  std::unique_ptr<Pool> pool_;
  std::atomic<bool> is_opening_{false};
  std::atomic<bool> given_up_{false};
  std::atomic<bool> is_delivered_{false};
  std::binary_semaphore delivered_{0};
  std::mutex mutex_;
  std::unique_ptr<EndsWithProgram> end_with_program_;
};

// `interrupted` is called before everything is released, which may take its time.
void open(OwnedPool& owned, const nb::callable& check, const nb::callable& interrupted) {
  const GilReleased released;
  owned.open([&] {
    const GilAcquired acquired;
    bool from_signal = true;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      from_signal = false;
      check();
    } catch (const nb::python_error& error) {  // Ctrl-C may also come within check()
      if (from_signal || error.matches(PyExc_KeyboardInterrupt) ||
          error.matches(PyExc_SystemExit)) {
        interrupted();
      }
      throw;
    }
  });
}

std::optional<nb::list> next_events(OwnedPool& owned, double timeout) {
  std::vector<Event> events;
  bool more = false;
  {
    const GilReleased released;
    more = owned.get().next_events(events, limit_from_seconds(timeout));
  }
  if (!more && events.empty()) {
    owned.note_delivered();
    return std::nullopt;
  }
  nb::list list;
  for (const Event& event : events) list.append(to_python(event));
  return list;
}

void await_delivery(const OwnedPool& owned, double limit) {
  Pool& pool = owned.get();
  if (pool.is_delivered()) return;  // nearly always: nobody else need run
  const GilReleased released;
  pool.await_delivery(limit_from_seconds(limit));
}

Stored store(const OwnedPool& owned, nb::handle buffer) {
  const BufferView view(buffer);
  Pool& pool = owned.get();
  const GilReleased released;
  Stored stored{pool.store(view.bytes())};
  pool.keep(stored.blob);
  return stored;
}

void forget(const OwnedPool& owned, const Stored& stored) {
  const GilReleased released;
  owned.get().forget(stored.blob);
}

// The next item of a stream; nothing when it has ended.
std::optional<nb::tuple> next_item(Handle& handle) {
  wire::Payload item;
  NextItem next = NextItem::time_over;
  wait_interruptibly(kForever, [&](Duration step) {
    next = handle.next(item, step);
    return next != NextItem::time_over;
  });
  if (next == NextItem::ended) return std::nullopt;
  return to_python(item);
}

std::string_view status_name(OutcomeStatus status) {
  switch (status) {
    case OutcomeStatus::ok:
      return "ok";
    case OutcomeStatus::raised:
      return "raised";
    case OutcomeStatus::failed:
      return "failed";
  }
  return "failed";
}

void bind_calls(nb::module_& module) {
  nb::class_<Function>(module, "Function", "A function in the form that travels.")
      .def_prop_ro("name", [](const Function& function) { return function.body->name; });
  module.def("usable_memory", &Pool::usable_memory, "Memory that this process may use, in bytes.");
  module.def(
      "make_function",
      [](const nb::bytes& bytes, std::string name) {
        const std::string_view text(bytes.c_str(), bytes.size());
        const GilReleased released;  // there may be much to copy and to hash
        std::string copy(text);
        return Function{std::make_shared<const FunctionBody>(
            make_function(SharedBytes(std::move(copy)), std::move(name)))};
      },
      nb::arg("bytes"), nb::arg("name"));

  nb::class_<Call>(module, "Call", "A function with packed arguments; may be sent many times.")
      .def(
          "__init__",
          [](Call* self, const Function& function, const wire::Payload& arguments,
             std::optional<double> timeout, std::uint32_t stream_window,
             std::optional<std::uint32_t> node, std::optional<std::uint32_t> worker) {
            new (self) Call(make_call(function, arguments, timeout, stream_window));
            if (node) self->options.node = NodeId{*node};
            self->options.worker = worker;
          },
          nb::arg("function"), nb::arg("arguments"), nb::arg("timeout").none() = nb::none(),
          nb::arg("stream_window") = 0, nb::arg("node").none() = nb::none(),
          nb::arg("worker").none() = nb::none())
      .def(
          "at",
          [](const Call& call, std::uint32_t node, std::optional<std::uint32_t> worker) {
            Call copy = call;
            copy.options.node = NodeId{node};
            copy.options.worker = worker;
            return copy;
          },
          nb::arg("node"), nb::arg("worker").none() = nb::none(),
          "The same call for one worker only, or for any slot of the node.")
      .def(
          "together",
          [](const Call& call) {
            Call copy = call;
            copy.options.together = true;
            return copy;
          },
          "The same call for Pool.broadcast(), whose tasks need each other.")
      .def_prop_ro("is_stream", [](const Call& call) { return call.options.stream_window > 0; })
      .def("sizes", &sizes_of,
           "Bytes of arguments that it alone has, and those of blobs, which others may have, by "
           "id.");
}

void bind_handle(nb::module_& module) {
  nb::class_<Outcome>(module, "Outcome", "How a task ended.")
      .def_prop_ro("status", [](const Outcome& outcome) { return status_name(outcome.status); })
      .def(
          "payload", [](const Outcome& outcome) { return to_python(outcome.payload); },
          nb::sig("def payload(self) -> tuple[object, list[object]]"), "(stream, [buffer, …])")
      .def_prop_ro(
          "size", [](const Outcome& outcome) { return outcome.payload.size(); },
          "Bytes of the payload.")
      .def_prop_ro("error_kind",
                   [](const Outcome& outcome) { return to_string(outcome.error.kind); })
      .def_prop_ro("error_message", [](const Outcome& outcome) { return outcome.error.message; })
      .def_prop_ro("error_hint", [](const Outcome& outcome) { return outcome.error.hint; })
      .def_prop_ro(
          "preempted", [](const Outcome& outcome) { return loss_of(outcome.error).preempted; },
          "Whether its machine was lost after a notice of preemption.")
      .def_prop_ro(
          "attempts", [](const Outcome& outcome) { return loss_of(outcome.error).attempts; },
          "If its machine was lost: how often the task was sent to a machine.")
      .def_prop_ro("may_retry", &may_retry, "Whether the task may succeed if it runs again.")
      .def_ro("begun", &Outcome::begun, "Whether it was on a node that may have begun it.")
      .def_ro("node", &Outcome::node)
      .def_ro("worker", &Outcome::worker)
      .def_ro("instance_id", &Outcome::instance_id)
      .def_ro("run_seconds", &Outcome::run_seconds)
      .def_ro("tail", &Outcome::tail);

  nb::class_<Handle>(module, "Handle", "The caller's end of a task in flight.")
      .def_prop_ro("task", &Handle::task)
      .def("done", &Handle::done)
      .def_prop_ro("result_bytes", &Handle::result_bytes, "0 until the result is there.")
      .def_prop_ro("run_seconds", &Handle::run_seconds, "Inside the worker; 0 until it has ended.")
      .def(
          "wait",
          [](const Handle& handle, std::optional<double> timeout) {
            return wait_interruptibly(limit_of(timeout),
                                      [&](Duration step) { return handle.wait(step); });
          },
          nb::arg("timeout").none() = nb::none(), "Waits for the end; returns done().")
      .def("take", &Handle::take, nb::call_guard<GilReleased>(), "The outcome; once, when done.")
      .def("cancel", &Handle::cancel, nb::call_guard<GilReleased>())
      .def("next", &next_item, nb::sig("def next(self) -> tuple[object, list[object]] | None"),
           "The next (stream, buffers) of a generator; None: it has ended.");

  bind_batch(module);
  bind_groups(module);
  bind_completions(module);
}

}  // namespace

namespace {

void bind_cost(nb::module_& module) {
  nb::class_<PoolCost>(module, "PoolCost", "Dollars; the four parts add up to the total.")
      .def_ro("total", &PoolCost::total)
      .def_ro("hourly", &PoolCost::hourly)
      .def_ro("setup", &PoolCost::setup)
      .def_ro("useful", &PoolCost::useful)
      .def_ro("idle", &PoolCost::idle)
      .def_ro("lost", &PoolCost::lost);
}

std::unique_ptr<PoolPacker> make_packer(nb::object self) {
  Pool& pool = nb::cast<OwnedPool&>(self).get();
  // Not make_unique: a Packer neither moves nor copies, it is made in place.
  // NOLINTNEXTLINE(modernize-make-unique)
  return std::unique_ptr<PoolPacker>(new PoolPacker{std::move(self), pool, Packer(pool)});
}

void close_pool(OwnedPool& owned) {
  const GilReleased released;
  owned.close([] {
    const GilAcquired acquired;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  });
}

std::vector<Handle> submit_many(const OwnedPool& owned, const std::vector<Call*>& calls) {
  std::vector<Call> copies;
  copies.reserve(calls.size());
  for (const Call* call : calls) copies.push_back(*call);
  Pool& pool = owned.get();
  std::vector<Handle> sent;
  {
    const GilReleased released;
    sent = pool.submit(std::move(copies));
  }
  return cancelled_if_interrupted(std::move(sent));
}

std::vector<Handle> broadcast(const OwnedPool& owned, const Call& call) {
  Pool& pool = owned.get();
  std::vector<Handle> sent;
  {
    const GilReleased released;
    sent = pool.broadcast(call);
  }
  return cancelled_if_interrupted(std::move(sent));
}

std::pair<std::uint64_t, std::uint64_t> task_counts(const OwnedPool& owned) {
  return {owned.get().tasks_sent(), owned.get().tasks_unfinished()};
}

PoolCost cost_of(const OwnedPool& owned) {
  const GilReleased released;
  return owned.get().cost();
}

std::tuple<std::vector<std::string>, std::vector<std::pair<std::string, std::string>>, std::string>
shell_of(const OwnedPool& owned, std::uint32_t node) {
  const GilReleased released;
  NodeShell shell = owned.get().shell_of(NodeId{node});
  return {std::move(shell.command), std::move(shell.environment), std::move(shell.directory)};
}

std::uint64_t least_memory_of(const OwnedPool& owned) {
  const GilReleased released;
  return owned.get().least_memory();
}

void bind_run(nb::class_<OwnedPool>& pool) {
  pool.def(
      "run",
      [](const OwnedPool& owned, const Function& function, const nb::tuple& arguments,
         std::optional<double> timeout, nb::callable dumps, nb::callable beside,
         const nb::list& buffers, const nb::callable& loads) {
        return run_one(owned.get(), function, arguments, timeout, std::move(dumps),
                       std::move(beside), buffers, loads);
      },
      nb::arg("function"), nb::arg("arguments"), nb::arg("timeout").none(), nb::arg("dumps"),
      nb::arg("beside"), nb::arg("buffers"), nb::arg("loads"),
      nb::sig("def run(self, function: Function, "
              "arguments: tuple[tuple[typing.Any, ...], dict[str, typing.Any]], "
              "timeout: float | None, dumps: collections.abc.Callable[..., bytes], "
              "beside: collections.abc.Callable[..., bool], buffers: list[memoryview], "
              "loads: collections.abc.Callable[[bytes], typing.Any]) "
              "-> tuple[typing.Any, ...]"),
      "Sends a call and waits for its answer: (result,), or (Handle, Outcome) of what is no "
      "small result. (): plain pickle cannot take the arguments, and nothing was sent.");
}

void bind_facts(nb::class_<OwnedPool>& pool) {
  pool.def_prop_ro(
          "is_ours", [](const OwnedPool& owned) { return owned.get().is_ours(); },
          "False in a forked child.")
      .def_prop_ro("is_active", [](const OwnedPool& owned) { return owned.get().is_active(); })
      .def_prop_ro(
          "has_expired", [](const OwnedPool& owned) { return owned.get().has_expired(); },
          "Its timeout has ended it, and not its budget or the loss of its nodes.")
      .def_prop_ro("instance_count",
                   [](const OwnedPool& owned) { return owned.get().instance_count(); })
      .def_prop_ro(
          "chosen_provider", [](const OwnedPool& owned) { return owned.get().chosen_provider(); },
          "Position of the pool's provider among those that it was given.")
      .def("cost", &cost_of, "What it has cost until now.")
      .def("least_memory", &least_memory_of,
           "Of the nodes that are ready, what the smallest may use, in bytes; 0 if none is.")
      .def_prop_ro("total_slots", [](const OwnedPool& owned) { return owned.get().total_slots(); })
      .def("task_counts", &task_counts, "Tasks ever sent, and those without an answer yet.")
      .def_prop_ro("job_id", [](const OwnedPool& owned) { return owned.get().job_id(); });
}

}  // namespace

void bind_pool(nb::module_& module) {
  bind_calls(module);
  bind_handle(module);

  bind_cost(module);
  nb::class_<OwnedPool> cls(module, "Pool", "The engine's pool; see skyward.ComputePool.");
  cls.def("shell_of", &shell_of, nb::arg("node"),
          "(command, environment, directory): how to run a line in the shell of a node; an empty "
          "command for a process of this machine.");
  bind_facts(cls);
  bind_run(cls);
  cls.def(nb::init<PoolSpec>(), nb::arg("spec"))
      .def("open", &open, nb::arg("check"), nb::arg("interrupted"),
           nb::sig("def open(self, check: collections.abc.Callable[[], None], "
                   "interrupted: collections.abc.Callable[[], None]) -> None"),
           "Provisions; `check` is called at the beginning and then about every 100 ms, and may "
           "raise; `interrupted` when Ctrl-C was pressed.")
      .def("close", &close_pool)
      .def("store", &store, nb::arg("buffer"),
           "Stores a large buffer; the nodes keep it from the first call that uses it on.")
      .def("forget", &forget, nb::arg("stored"), "The nodes need not keep it any longer.")
      .def("packer", &make_packer)
      .def(
          "submit",
          [](const OwnedPool& owned, const Call& call) {
            Pool& pool = owned.get();
            const GilReleased released;
            return pool.submit(call);
          },
          nb::arg("call"))
      .def("submit_many", &submit_many, nb::arg("calls"))
      .def("broadcast", &broadcast, nb::arg("call"), "Once on every worker; handles in rank order.")
      .def("await_delivery", &await_delivery, nb::arg("limit"))
      .def(
          "tell",
          [](const OwnedPool& owned, std::string message, std::optional<std::string> instance) {
            Pool& pool = owned.get();
            const GilReleased released;
            return pool.tell(std::move(message), std::move(instance));
          },
          nb::arg("message"), nb::arg("instance_id").none(),
          "Puts an Error among the events. False: the pool takes no more.")
      .def(
          "note",
          [](const OwnedPool& owned, std::string message, std::optional<std::string> instance) {
            Pool& pool = owned.get();
            const GilReleased released;
            pool.note(std::move(message), std::move(instance));
          },
          nb::arg("message"), nb::arg("instance_id").none(),
          "Writes an Error that was delivered already to the pool's files.")
      .def("next_events", &next_events, nb::arg("timeout"),
           nb::sig("def next_events(self, timeout: float) -> list[tuple[str, tuple[object, ...]]] "
                   "| None"),
           "[(name, fields), …] since the last call; None when the pool has closed and all were "
           "taken.");
}

}  // namespace skyward::python

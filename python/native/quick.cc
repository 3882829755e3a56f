// The compiled part of the Python worker (skyward/worker/loop.py): runs plain calls one after
// another, straight from the bytes that the agent sent, and answers through the ring that it shares
// with the agent (skyward/wire/answer_ring.h).
//
// A plain call has one small buffer, a function that is loaded already, and no stream. Everything
// else, and every error, is left to the Python code, which is complete without this: a worker whose
// interpreter cannot load this file takes several microseconds more for each call.
//
// The interpreter runs signal handlers between two instructions of Python code, so the worker's
// handler for signals runs inside the user's function or where this file looks for signals, never
// in the middle of an answer.

#include <nanobind/nanobind.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <span>
#include <utility>

#include "python/native/atom_reader.h"
#include "python/native/atoms.h"
#include "skyward/wire/answer_ring.h"

namespace nb = nanobind;

namespace skyward::python {
namespace {

constexpr int kSocket = 3;
constexpr int kBell = 6;
constexpr std::uint8_t kRunKind = 1;
constexpr std::uint8_t kOutcomeKind = 20;
constexpr std::uint8_t kBehindBit = 1;
constexpr std::uint8_t kRingBit = 2;
constexpr std::uint8_t kGroupBit = 4;
constexpr std::size_t kMarkBytes = 8;

// Messages of skyward/wire/worker_protocol.h, as they are in memory.
#pragma pack(push, 1)
struct Head {
  std::uint32_t length;
  std::uint8_t kind;
  std::uint8_t status;
  std::uint16_t descriptors;
  std::uint64_t task;
};
struct Row {
  std::uint64_t size;
  std::uint64_t offset;
  std::uint64_t blob;
  std::int32_t index;
  std::uint32_t zero;
};
struct OneRun {
  Head head;
  std::uint8_t function[16];
  std::uint32_t body_bytes;
  std::uint32_t window;
  std::uint32_t buffers;
  Row row;
};
struct Answer {
  Head head;
  std::uint64_t run_ns;
  std::uint32_t buffers;
  std::uint32_t retained;
  Row row;
};
#pragma pack(pop)
static_assert(sizeof(OneRun) == 76 && sizeof(Answer) == 64);

// Of the same clock as Python's time.perf_counter_ns().
std::uint64_t clock_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

ByteView view_of(const nb::bytes& bytes) {
  return {static_cast<const std::byte*>(bytes.data()), bytes.size()};
}

nb::object import(const char* module, const char* name) {
  return nb::module_::import_(module).attr(name);
}

nb::str interned(const char* text) {
  PyObject* name = PyUnicode_InternFromString(text);
  if (name == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(name);
}

// A plain call, cut out of what was received.
struct PlainCall {
  OneRun run;
  std::size_t end = 0;  // where the next message begins

  bool is_behind() const { return (run.head.status & kBehindBit) != 0; }
  bool rings() const { return (run.head.status & kRingBit) != 0; }
  bool is_group() const { return (run.head.status & kGroupBit) != 0; }
};

std::optional<PlainCall> plain_call(ByteView data) {
  PlainCall call;
  if (data.size() < sizeof call.run) return std::nullopt;
  std::memcpy(&call.run, data.data(), sizeof call.run);
  const OneRun& run = call.run;
  call.end = sizeof run.head.length + std::size_t{run.head.length};
  const bool plain = run.head.kind == kRunKind && run.head.descriptors == 0 &&
                     run.body_bytes == 0 && (run.window == 0 || call.is_group()) &&
                     run.buffers == 1 && run.row.index < 0;
  if (!plain || call.end > data.size() || run.row.size > call.end - sizeof run) return std::nullopt;
  return call;
}

class Quick {
 public:
  // `memory`: what the worker shares with its agent, a writable buffer. `mark`: begins the output
  // of a call that was sent behind another; may be empty.
  Quick(nb::object memory, nb::bytes mark)
      : memory_(std::move(memory)), mark_(std::move(mark)), answers_(shared_memory()) {
    answers_.announce();
  }
  ~Quick() { PyBuffer_Release(&view_); }
  Quick(const Quick&) = delete;
  Quick& operator=(const Quick&) = delete;

  // Messages that are parsed before the first of them is run.
  static constexpr int kAtATime = 1;

  // Fields of the worker, which its Python half reads and writes, too; loop.py explains them.
  std::uint64_t running = 0;
  bool interrupted = false;
  bool forked = false;
  nb::set skipped;
  nb::list callbacks;
  nb::list endings;
  nb::dict functions;
  nb::bytes data{""};  // received
  std::size_t at = 0;  // where its first message begins that was not handled

  // Runs plain calls until something else comes.
  void run_calls(nb::handle self) {
    nb::bytes function_id("");
    nb::object function;
    while (true) {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();  // the handler may change all fields
      const nb::bytes held = data;
      const ByteView rest = view_of(held).subspan(at);
      const std::optional<PlainCall> call = plain_call(rest);
      if (!call || is_skipped(call->run.head.task)) return;
      const OneRun& run = call->run;
      if (function_id.size() != sizeof run.function ||
          std::memcmp(function_id.data(), run.function, sizeof run.function) != 0) {
        function_id = nb::bytes(run.function, sizeof run.function);
        if (!functions.contains(function_id)) return;
        function = functions[function_id];
      }
      at += call->end;
      const ByteView arguments = rest.subspan(call->end - run.row.size, run.row.size);
      const bool ran = call->is_group() ? run_group(self, *call, function, arguments)
                                        : run_one(self, *call, function, arguments);
      if (!ran) return;  // the process may have to end
    }
  }

  // Puts a message into the ring. False if it is too large for that.
  bool put(nb::handle self, const nb::bytes& message, bool wake) {
    if (message.size() > wire::kMaxRingMessageBytes) return false;
    write(view_of(message), {});
    if (wake && answers_.agent_sleeps()) ring_bell(self);
    return true;
  }

  // For groups that Python code runs, see AnswerWriter.
  void begin_group(std::uint64_t task) { answers_.begin_group(TaskId{task}); }
  bool claim(std::uint32_t calls) { return answers_.claim(calls); }

  bool is_finished(std::uint64_t task) const {
    for (const std::uint64_t one : finished_)
      if (one == task) return true;
    return false;
  }
  void note_finished(std::uint64_t task) { finished_[finished_count_++ % kFinished] = task; }

  // After the answer to a call that asks for it.
  void ring_bell(nb::handle self) {
    const char one = 1;
    while (::write(kBell, &one, 1) < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) self.attr("send_word")();
      return;
    }
  }

 private:
  static constexpr std::size_t kFinished = 512;  // as in protocol.py

  wire::WorkerMemory& shared_memory() {
    if (PyObject_GetBuffer(memory_.ptr(), &view_, PyBUF_WRITABLE) != 0) throw nb::python_error();
    if (static_cast<std::size_t>(view_.len) < sizeof(wire::WorkerMemory)) {
      PyBuffer_Release(&view_);
      throw nb::value_error("the memory is too small");
    }
    return *static_cast<wire::WorkerMemory*>(view_.buf);
  }

  bool is_skipped(std::uint64_t task) const {
    return nb::len(skipped) != 0 && skipped.contains(nb::int_(task));
  }

  // False if the call failed, here and below.
  bool run_one(nb::handle self, const PlainCall& call, const nb::object& function,
               ByteView arguments) {
    const std::uint64_t task = call.run.head.task;
    if (call.is_behind() && mark_.size() == kMarkBytes) write_mark(task);
    const std::uint64_t started = clock_ns();
    const nb::object pieces = pieces_of(self, call, function, arguments, started);
    if (pieces.is_valid()) finish(self, call, started, pieces);
    return pieces.is_valid();
  }

  // The calls of a group, one after another. `arguments`: as wire/group.h has them.
  bool run_group(nb::handle self, const PlainCall& call, const nb::object& function,
                 ByteView arguments) {
    const std::uint64_t task = call.run.head.task;
    const std::uint32_t calls = call.run.window;
    if (call.is_behind() && mark_.size() == kMarkBytes) write_mark(task);
    const std::uint64_t started = clock_ns();
    answers_.begin(TaskId{task});
    answers_.begin_group(TaskId{task});
    while (true) {
      std::uint32_t size = 0;
      std::memcpy(&size, arguments.data(), sizeof size);
      const ByteView next = arguments.subspan(sizeof size, size);
      arguments = arguments.subspan(sizeof size + size);
      const nb::object pieces = pieces_of(self, call, function, next, started);
      if (!pieces.is_valid()) return false;
      if (!is_outcome(pieces) || !answers_.claim(calls)) {
        finish(self, call, started, pieces);
        return true;
      }
      end_call(self);
      settle_output();
      const ByteView value = view_of(nb::borrow<nb::bytes>(pieces));
      const Head head{.length = static_cast<std::uint32_t>(sizeof head - 4 + value.size()),
                      .kind = kOutcomeKind,
                      .status = 0,
                      .descriptors = 0,
                      .task = task};
      write(std::as_bytes(std::span(&head, 1)), value);
      if (answers_.agent_sleeps()) ring_bell(self);
    }
  }

  // Runs the function once. The pickled result (see answer_of()); null if the call failed: then it
  // has been answered.
  nb::object pieces_of(nb::handle self, const PlainCall& call, const nb::object& function,
                       ByteView arguments, std::uint64_t started) {
    const std::uint64_t task = call.run.head.task;
    nb::object pieces;
    try {
      interrupted = false;
      running = task;
      if (is_skipped(task)) self.attr("cancel")(task);  // while nothing of the user's was running
      answers_.begin(TaskId{task});
      pieces = answer_of(self, function, arguments);
      running = 0;
    } catch (nb::python_error& error) {
      running = 0;
      self.attr("fail")(task, started, error.value());
      if (call.rings()) ring_bell(self);
      return {};
    }
    if (forked) _exit(0);  // os.fork() in the function, and this is the child
    return pieces;
  }

  void finish(nb::handle self, const PlainCall& call, std::uint64_t started,
              const nb::object& pieces) {
    const std::uint64_t task = call.run.head.task;
    note_finished(task);
    if (is_skipped(task)) skipped.discard(nb::int_(task));
    end_call(self);
    settle_output();
    answer(self, call, task, clock_ns() - started, pieces);
  }

  void end_call(nb::handle self) {
    if (nb::len(callbacks) + nb::len(endings) != 0) self.attr("end_call")();
  }

  // Whether the result fits the ring as an outcome.
  static bool is_outcome(const nb::object& pieces) {
    return nb::isinstance<nb::bytes>(pieces) &&
           sizeof(Head) + nb::len(pieces) <= wire::kMaxRingMessageBytes;
  }

  // The pickled result: bytes if it is one small buffer, else what dump() makes of it.
  nb::object answer_of(nb::handle self, const nb::object& function, ByteView stream) {
    const nb::object result = call(self, function, stream);
    if (const ByteView small = atoms_.value(result.ptr()); !small.empty()) {
      return nb::bytes(small.data(), small.size());
    }
    if (is_atom(result)) return dumps_(result, protocol_);
    nb::object pieces = dump_(result);
    if (nb::isinstance<nb::list>(pieces) && nb::len(pieces) == 1) {
      nb::object only = pieces[0];
      if (nb::isinstance<nb::bytes>(only)) return only;
    }
    return pieces;
  }

  // The arguments, (args, kwargs).
  nb::object loaded(nb::handle self, ByteView stream) {
    if (PyObject* small = AtomReader::read(stream)) return nb::steal(small);
    try {
      return loads_(nb::bytes(stream.data(), stream.size()));
    } catch (nb::python_error& error) {
      self.attr("explain_arguments")(error.value());
      throw;
    }
  }

  // The arguments are gone when it returns.
  nb::object call(nb::handle self, const nb::object& function, ByteView stream) {
    const nb::object arguments = loaded(self, stream);
    const nb::object args = arguments[0];
    const nb::object kwargs = arguments[1];
    if (!nb::isinstance<nb::tuple>(args) || !nb::isinstance<nb::dict>(kwargs)) {
      PyErr_SetString(PyExc_TypeError, "the arguments of a call are a tuple and a dict");
      throw nb::python_error();
    }
    PyObject* result =
        PyObject_Call(function.ptr(), args.ptr(), nb::len(kwargs) == 0 ? nullptr : kwargs.ptr());
    if (result == nullptr) throw nb::python_error();
    return nb::steal(result);
  }

  bool is_atom(const nb::object& value) const {
    const nb::handle type = value.type();
    return value.is_none() || type.is(&PyLong_Type) || type.is(&PyFloat_Type) ||
           type.is(&PyBool_Type) || type.is(&PyUnicode_Type);
  }

  void answer(nb::handle self, const PlainCall& call, std::uint64_t task, std::uint64_t run_ns,
              const nb::object& pieces) {
    if (!nb::isinstance<nb::bytes>(pieces) ||
        sizeof(Answer) + nb::len(pieces) > wire::kMaxRingMessageBytes) {
      nb::object list = pieces;
      if (nb::isinstance<nb::bytes>(pieces)) {
        nb::list one;
        one.append(pieces);
        list = std::move(one);
      }
      self.attr("send_result")(task, run_ns, list);
      if (call.rings()) ring_bell(self);
      return;
    }
    const ByteView stream = view_of(nb::borrow<nb::bytes>(pieces));
    Answer head{};
    head.head = {.length = static_cast<std::uint32_t>(sizeof head - 4 + stream.size()),
                 .kind = 17,
                 .status = 0,
                 .descriptors = 0,
                 .task = task};
    head.run_ns = run_ns;
    head.buffers = 1;
    head.row = {.size = stream.size(), .offset = 0, .blob = 0, .index = -1, .zero = 0};
    write(std::as_bytes(std::span(&head, 1)), stream);
    if (call.rings() || answers_.agent_sleeps()) ring_bell(self);
  }

  // Answers of a full window fit the ring; the items of a reader that takes very many may not.
  void write(ByteView first, ByteView second) {
    constexpr int kLook_ms = 1;
    while (!answers_.write(first, second)) {
      const nb::gil_scoped_release released;
      pollfd agent{.fd = kSocket, .events = 0, .revents = 0};
      if (poll(&agent, 1, kLook_ms) > 0 && (agent.revents & POLLHUP) != 0) _exit(0);
    }
  }

  // What the function wrote reaches the pipes before its answer.
  void settle_output() const {
    PyObject* out = PyDict_GetItem(sys_.ptr(), names_.out.ptr());
    PyObject* err = PyDict_GetItem(sys_.ptr(), names_.err.ptr());
    if (out != nullptr && err != nullptr &&
        out == PyDict_GetItem(sys_.ptr(), names_.own_out.ptr()) &&
        err == PyDict_GetItem(sys_.ptr(), names_.own_err.ptr())) {
      const nb::object kept_out = nb::borrow(out), kept_err = nb::borrow(err);
      try {
        kept_out.attr(names_.flush)();
        kept_err.attr(names_.flush)();
        const nb::gil_scoped_release released;  // whoever reads the pipe may need it
        std::fflush(stdout);
        std::fflush(stderr);
        return;
      } catch (nb::python_error&) {  // the user has closed it
      }
    }
    settle_();
  }

  void write_mark(std::uint64_t task) const {
    char text[kMarkBytes + sizeof task];
    std::memcpy(text, mark_.data(), kMarkBytes);
    std::memcpy(text + kMarkBytes, &task, sizeof task);
    for (const int output : {STDOUT_FILENO, STDERR_FILENO}) {
      ssize_t count = 0;
      {
        const nb::gil_scoped_release released;
        count = ::write(output, text, sizeof text);
      }
      const std::size_t written = count < 0 ? 0 : static_cast<std::size_t>(count);
      if (written == sizeof text) continue;
      write_all_(output, nb::bytes(text + written, sizeof text - written));
    }
  }

  // Made once, with their hashes: a lookup by C text makes a new object each time.
  struct Names {
    nb::str out = interned("stdout");
    nb::str err = interned("stderr");
    nb::str own_out = interned("__stdout__");
    nb::str own_err = interned("__stderr__");
    nb::str flush = interned("flush");
  };

  nb::object memory_;
  nb::bytes mark_;
  Py_buffer view_{};
  wire::AnswerWriter answers_;
  std::uint64_t finished_[kFinished] = {};
  std::size_t finished_count_ = 0;
  nb::object loads_ = import("pickle", "loads");
  nb::object dumps_ = import("pickle", "dumps");
  nb::object dump_ = import("_skyward_worker.results", "dump");
  AtomWriter atoms_;
  nb::object settle_ = import("_skyward_worker.output", "settle_output");
  nb::object write_all_ = import("_skyward_worker.output", "write_all");
  nb::int_ protocol_{5};
  nb::dict sys_ = nb::borrow<nb::dict>(import("sys", "__dict__"));
  Names names_;
};

}  // namespace
}  // namespace skyward::python

NB_MODULE(quick, module) {
  using skyward::python::AtomReader;
  using skyward::python::AtomWriter;
  using skyward::python::Quick;
  module.def(
      "write_atoms",
      [](nb::handle value) {
        AtomWriter writer;
        const skyward::ByteView bytes = writer.value(value.ptr());
        return nb::bytes(bytes.data(), bytes.size());
      },
      nb::arg("value").none(), "The pickle of a small value; empty if it is for pickle.");
  module.def(
      "read_atoms",
      [](const nb::bytes& pickle) {
        const nb::object value = nb::steal(AtomReader::read(skyward::python::view_of(pickle)));
        return value.is_valid() ? nb::make_tuple(value) : nb::make_tuple();
      },
      nb::arg("pickle"), "(value,); () if it is for pickle.");
  nb::class_<Quick>(module, "Quick", "The compiled half of a worker; see loop.py.")
      .def(nb::init<nb::object, nb::bytes>(), nb::arg("memory"), nb::arg("mark"))
      .def_rw("running", &Quick::running)
      .def_rw("interrupted", &Quick::interrupted)
      .def_rw("forked", &Quick::forked)
      .def_rw("skipped", &Quick::skipped)
      .def_rw("callbacks", &Quick::callbacks)
      .def_rw("endings", &Quick::endings)
      .def_rw("functions", &Quick::functions)
      .def_rw("data", &Quick::data)
      .def_rw("at", &Quick::at)
      .def("run_calls", [](nb::handle self) { nb::cast<Quick&>(self).run_calls(self); })
      .def(
          "put",
          [](nb::handle self, const nb::bytes& message, bool wake) {
            return nb::cast<Quick&>(self).put(self, message, wake);
          },
          nb::arg("message"), nb::arg("wake") = true)
      .def("begin_group", &Quick::begin_group, nb::arg("task"))
      .def("claim", &Quick::claim, nb::arg("calls"))
      .def("is_finished", &Quick::is_finished, nb::arg("task"))
      .def("note_finished", &Quick::note_finished, nb::arg("task"))
      .def("ring", [](nb::handle self) { nb::cast<Quick&>(self).ring_bell(self); })
      .def_ro_static("AT_A_TIME", &Quick::kAtATime);
}

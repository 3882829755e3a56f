// gil.h.

#include "gil.h"

#include <atomic>
#include <future>
#include <thread>

#include "bindings.h"

namespace skyward::python {
namespace {

std::atomic<int> askers{0};                // threads that wait for the lock
std::atomic<bool> is_closed{false};        // only one thread still gets it ...
std::atomic<std::thread::id> last_thread;  // ... which ends the interpreter

void stop_asking() {
  --askers;
  askers.notify_all();
}

// A thread of ours may ask for the lock from here on. Does not return when it is too late.
void begin_to_ask() {
  ++askers;
  if (!is_closed || last_thread.load() == std::this_thread::get_id()) return;
  stop_asking();
  std::promise<void> never;
  never.get_future().wait();
}

// From now on only the calling thread, which ends the interpreter, gets the lock. Those that ask
// for it already get it first.
void close_gil() {
  last_thread = std::this_thread::get_id();
  is_closed = true;
  const GilReleased released;
  for (int left = askers; left > 0; left = askers) askers.wait(left);
}

void forget_askers() {
  askers = 0;
  is_closed = false;
}

bool is_main_interpreter() { return PyInterpreterState_GetID(PyInterpreterState_Get()) == 0; }

}  // namespace

GilReleased::~GilReleased() {
  begin_to_ask();
  PyEval_RestoreThread(state_);
  stop_asking();
}

GilAcquired::GilAcquired() {
  begin_to_ask();
  state_ = PyGILState_Ensure();
  stop_asking();
}

void bind_gil(nb::module_& module) {
  // A forked child has none of the threads that asked for the lock just now.
  nb::module_::import_("os").attr("register_at_fork")(nb::arg("after_in_child") =
                                                          nb::cpp_function(&forget_askers));
  module.def("is_main_interpreter", &is_main_interpreter,
             "Whether this is not a subinterpreter. The engine's callbacks run in the main one.");
  module.def("close_gil", &close_gil,
             "The interpreter ends: other threads that wait in the engine stay there.");
  if (!is_main_interpreter()) return;  // the main one goes on when this one ends
  // Exit handlers run in reverse order: after those of the package, which end pools, since it
  // registers them later.
  nb::module_::import_("atexit").attr("register")(module.attr("close_gil"));
}

}  // namespace skyward::python

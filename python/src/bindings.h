#pragma once

// The extension skyward._core: one binding file for each header of the face. A binding holds no
// logic of its own: it converts, drops the GIL around whatever waits or copies, and looks for
// signals while it waits.

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "gil.h"
#include "skyward/base/error.h"
#include "skyward/base/forever.h"
#include "skyward/call/error.h"
#include "text_caster.h"

namespace skyward::python {

namespace nb = nanobind;

void bind_gil(nb::module_& module);
void bind_errors(nb::module_& module);
void bind_accelerator(nb::module_& module);
void bind_machine(nb::module_& module);
void bind_spec(nb::module_& module);
void bind_events(nb::module_& module);
void bind_payload(nb::module_& module);
void bind_pool(nb::module_& module);
void bind_display(nb::module_& module);
void bind_testing(nb::module_& module);

template <typename T>
T value_or_throw(Result<T> result) {
  if (!result) throw_error(result.error());
  return *std::move(result);
}

// How long the interpreter may be deaf to Ctrl-C.
inline constexpr Duration kSignalInterval = std::chrono::milliseconds(100);

// Whether signals may arrive in this thread. Python runs their handlers in its main thread alone.
bool receives_signals();

// Calls `wait(step)` without the GIL until it returns true or `limit` is over; returns its last
// answer. Python's signal handlers run in between; what they raise leaves from here.
template <typename Wait>
bool wait_interruptibly(Duration limit, Wait wait) {
  Duration most = kSignalInterval;
  for (Duration waited{};;) {
    const Duration step = std::min(most, limit - waited);
    bool over = false;
    {
      const GilReleased released;
      over = wait(step);
    }
    if (over) return true;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    waited += step;
    if (waited >= limit) return false;
    if (!receives_signals()) most = limit;
  }
}

// For handles of calls that have just been sent. If a signal came meanwhile, and its handler raises
// something, Python never sees them: then the calls are cancelled.
template <typename Handle>
std::vector<Handle> cancelled_if_interrupted(std::vector<Handle> sent) {
  if (PyErr_CheckSignals() == 0) return sent;
  nb::python_error raised;  // the interpreter's error from here on
  {
    const GilReleased released;
    for (Handle& handle : sent) handle.cancel();
  }
  throw std::move(raised);
}

}  // namespace skyward::python

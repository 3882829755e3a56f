#pragma once

// The interpreter's lock around C++ code. A thread that waits for the lock while the interpreter
// ends is ended by Python, which unwinds its stack: through C++ that promises not to throw, which
// ends the process with SIGABRT. So these no longer ask for the lock once the interpreter has begun
// to end: the thread waits there for the end of the process.

#include <Python.h>

namespace skyward::python {

// For the length of a block the lock is free.
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  ~GilReleased();
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
};

// Inside such a block, in the same thread: the lock is held.
class GilAcquired {
 public:
  GilAcquired();
  ~GilAcquired() { PyGILState_Release(state_); }
  GilAcquired(const GilAcquired&) = delete;
  GilAcquired& operator=(const GilAcquired&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace skyward::python

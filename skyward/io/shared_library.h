#pragma once

// Libraries that are loaded when they are first needed, so that a program which never needs them
// runs where they are not installed. They stay loaded until the process ends: they may have threads
// and at-exit code of their own.

#include <dlfcn.h>

#include <initializer_list>

namespace skyward::io {

struct SharedLibrary {
  void* handle = nullptr;  // nullptr: there is none
  bool shipped = false;    // it came with this program, as in a wheel
};

// The first of these that is there: beside the file that this code is in or in bin/ beside it, else
// where the system finds it.
SharedLibrary load_library(std::initializer_list<const char*> names);

// False when the library has no such function.
template <typename Function>
bool find_symbol(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace skyward::io

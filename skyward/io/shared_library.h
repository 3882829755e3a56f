#pragma once

// Libraries that are loaded on first use, so that a program which never needs them runs where they
// are not installed. They stay loaded until the process exits: they may have threads and at-exit
// code of their own.

#include <dlfcn.h>

#include <initializer_list>

namespace skyward::io {

struct SharedLibrary {
  void* handle = nullptr;  // nullptr: there is none
  bool shipped = false;    // it came with this program, as in a wheel
};

// The first of these that exists: beside the file that contains this code, in bin/ beside it, or
// where the system finds it.
SharedLibrary load_library(std::initializer_list<const char*> names);

// False when the library has no such function.
template <typename Function>
bool find_symbol(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace skyward::io

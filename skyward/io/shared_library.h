#pragma once

// Libraries that are loaded when they are first needed, so that a program which never needs them
// runs where they are not installed. They stay loaded until the process ends: they may have threads
// and at-exit code of their own.

#include <dlfcn.h>

#include <initializer_list>

namespace skyward::io {

// The first of these that is there; nullptr when none is.
inline void* load_library(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL); library != nullptr) return library;
  }
  return nullptr;
}

// False when the library has no such function.
template <typename Function>
bool find_symbol(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace skyward::io

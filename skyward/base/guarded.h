#pragma once

// Below the face, failures are values. What throws all the same (memory that is used up, a library)
// must not end the program that called: where a thread begins, it becomes an error.

#include <exception>
#include <string>

#include "skyward/base/error.h"

namespace skyward {

// The Result or Status of `work`; an error when it throws.
template <typename Work>
auto guarded(Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& thrown) {
    return fail(ErrorKind::unavailable, std::string("an internal error: ") + thrown.what(),
                "please report it, with the steps that led to it");
  }
}

}  // namespace skyward

#pragma once

// A call in the form that travels (wire/call.h), in the namespace of the programs that use it.

#include <string>

#include "skyward/base/bytes.h"
#include "skyward/wire/call.h"

namespace skyward {

using wire::Call;
using wire::CallOptions;
using wire::FunctionBody;
using wire::Outcome;
using wire::OutcomeStatus;

// Whether the task may succeed if it runs again: its function threw, its worker died, or its
// machine was lost on every attempt. Not if someone stopped it, it is wrong, or no machine is left.
bool may_retry(const Outcome& outcome);

// The id is made from the bytes.
FunctionBody make_function(SharedBytes bytes, std::string name);

}  // namespace skyward

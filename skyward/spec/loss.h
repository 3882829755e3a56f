#pragma once

// Details of the loss of a machine, as fields besides the text: what the face's errors of that kind
// tell a program. Travels inside an Error.

#include "skyward/base/error.h"

namespace skyward {

struct Loss {
  bool preempted = false;  // after its cloud had announced that it would preempt the machine
  int attempts = 0;        // how often the task was sent to a machine; 0: to none

  bool operator==(const Loss&) const = default;
};

// The error with these facts; those it had are replaced.
Error with_loss(Error error, const Loss& loss);
Loss loss_of(const Error& error);

}  // namespace skyward

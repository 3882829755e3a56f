#pragma once

// What a rank of MPI threw, in the form in which exceptions travel (call/remote_error.h): the
// worker passes it on as it is.

#include <utility>

#include "skyward/call/error.h"
#include "skyward/wire/payload.h"

namespace skyward {

class RankError : public SkywardError {
 public:
  explicit RankError(wire::Payload thrown)
      : SkywardError("a rank of MPI threw"), thrown_(std::move(thrown)) {}

  const wire::Payload& thrown() const { return thrown_; }

 private:
  wire::Payload thrown_;
};

}  // namespace skyward

#include "skyward/call/call.h"

#include <algorithm>
#include <string>
#include <utility>

#include "skyward/base/hash.h"

namespace skyward {

FunctionBody make_function(SharedBytes bytes, std::string name) {
  FunctionBody body;
  const auto digest = sha256(bytes.view);
  std::copy_n(digest.begin(), body.id.value.size(), body.id.value.begin());
  body.bytes = wire::small_buffer(std::move(bytes));
  body.name = std::move(name);
  return body;
}

bool may_retry(const Outcome& outcome) {
  if (outcome.status != OutcomeStatus::failed) return outcome.status == OutcomeStatus::raised;
  switch (outcome.error.kind) {
    case ErrorKind::task:
    case ErrorKind::unavailable:
      return true;
    case ErrorKind::lost:
    case ErrorKind::unreachable:
      return outcome.begun;  // else there is no machine left that could run it
    case ErrorKind::invalid:
    case ErrorKind::denied:
    case ErrorKind::exhausted:
    case ErrorKind::over_budget:
    case ErrorKind::unsupported:
    case ErrorKind::undelivered:
    case ErrorKind::cancelled:
    case ErrorKind::timeout:
      return false;
  }
  return false;
}

}  // namespace skyward

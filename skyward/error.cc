#include "skyward/error.h"

namespace skyward {

void throw_error(const Error& error) {
  std::string text = error.message;
  if (!error.hint.empty()) text += "\n  hint: " + error.hint;
  switch (error.kind) {
    case ErrorKind::invalid:
      throw ConfigurationError(text);
    case ErrorKind::denied:
    case ErrorKind::exhausted:
    case ErrorKind::unavailable:
    case ErrorKind::lost:
    case ErrorKind::unsupported:
      throw ProvisioningError(text);
    case ErrorKind::unreachable:
      throw ConnectionError(text);
    case ErrorKind::task:
      throw ExecutionError(text);
    case ErrorKind::cancelled:
      throw CancelledError(text);
    case ErrorKind::timeout:
      throw TimeoutError(text);
  }
  throw SkywardError(text);
}

}  // namespace skyward

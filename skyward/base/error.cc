#include "skyward/base/error.h"

namespace skyward {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid:
      return "invalid";
    case ErrorKind::denied:
      return "denied";
    case ErrorKind::exhausted:
      return "exhausted";
    case ErrorKind::over_budget:
      return "over_budget";
    case ErrorKind::unavailable:
      return "unavailable";
    case ErrorKind::lost:
      return "lost";
    case ErrorKind::unreachable:
      return "unreachable";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::task:
      return "task";
    case ErrorKind::undelivered:
      return "undelivered";
    case ErrorKind::cancelled:
      return "cancelled";
    case ErrorKind::timeout:
      return "timeout";
  }
  return "unknown";
}

std::string line_of(const Error& error) {
  return error.hint.empty() ? error.message : error.message + "; " + error.hint;
}

}  // namespace skyward

#include "skyward/provider/rest/api_error.h"

#include <fmt/format.h>

#include <utility>

namespace skyward::provider {

ErrorKind kind_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::auth:
    case Refusal::insufficient_funds:
      return ErrorKind::denied;
    case Refusal::quota:
    case Refusal::capacity:
    case Refusal::price_too_low:
      return ErrorKind::exhausted;
    case Refusal::invalid:
    case Refusal::not_found:
      return ErrorKind::invalid;
    case Refusal::conflict:
    case Refusal::rate_limited:
    case Refusal::transient:
      break;
  }
  return ErrorKind::unavailable;
}

Refusal refusal_of_status(int status) {
  switch (status) {
    case 401:
    case 403:
      return Refusal::auth;
    case 402:
      return Refusal::insufficient_funds;
    case 404:
      return Refusal::not_found;
    case 409:
      return Refusal::conflict;
    case 429:
      return Refusal::rate_limited;
    default:
      return status >= 500 ? Refusal::transient : Refusal::invalid;
  }
}

ApiError not_sent(const Error& error) {
  return {.refusal = error.kind == ErrorKind::denied ? Refusal::auth : Refusal::transient,
          .heard = Heard::not_sent,
          .message = error.message,
          .own_kind = error.kind,
          .hint = error.hint};
}

ApiError no_answer(const Error& error) {
  // No address, no library, no certificate to trust: nothing left this computer.
  if (error.kind == ErrorKind::invalid || error.kind == ErrorKind::unsupported ||
      error.kind == ErrorKind::denied) {
    return not_sent(error);
  }
  ApiError out{.message = error.message, .own_kind = error.kind, .hint = error.hint};
  // A reply that is too large says nothing of the cloud's machines.
  if (error.kind == ErrorKind::exhausted) out.own_kind = ErrorKind::unavailable;
  out.maybe_done = true;
  return out;
}

bool is_certain(const ApiError& error) {
  if (error.maybe_done || error.heard == Heard::unknown) return false;
  if (error.heard == Heard::not_sent) return true;
  switch (error.refusal) {
    case Refusal::transient:
      return false;
    case Refusal::quota:
    case Refusal::capacity:
    case Refusal::price_too_low:
    case Refusal::rate_limited:
      return true;  // with any status: some clouds answer them with 503
    default:
      return error.status < 500;
  }
}

Error to_error(const ApiError& error, std::string_view what) {
  std::string message = fmt::format("{}: {}", what, error.message);
  if (!error.code.empty() && error.code != error.message) message += " (" + error.code + ")";
  if (!error.request_id.empty()) message += ", request " + error.request_id;
  return {.kind = error.kind(), .message = std::move(message), .hint = error.hint};
}

}  // namespace skyward::provider

#pragma once

// Why a cloud refused a request, in ten classes that are the same at every cloud. A cloud's own
// folder may look at the cloud's own word (`code`): some refusals are good news ("it exists
// already"). What leaves the folder is an Error of ours, whose kind says what to do next.

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "skyward/base/error.h"

namespace skyward::provider {

enum class Refusal : std::uint8_t {
  auth,                // the credentials are wrong or have expired, or may not do this
  insufficient_funds,  // the account's balance
  quota,               // the account may not have more
  capacity,            // sold out here: another place, type or market may have it
  price_too_low,       // the bid
  invalid,             // the request is wrong and will stay so
  not_found,
  conflict,      // not in the present state of the thing: try again later
  rate_limited,  // too many requests: the same one is welcome later
  transient,     // a fault of the cloud, or no answer
};

// What a caller does about it.
ErrorKind kind_of(Refusal refusal);

// Who has seen the request.
enum class Heard : std::uint8_t {
  not_sent,  // nobody
  unknown,   // nobody answered, or somebody else did: a proxy's page, a cut reply
  answered,  // the cloud, in its own form
};

struct ApiError {
  Refusal refusal = Refusal::transient;
  Heard heard = Heard::unknown;
  std::string code{};                   // the cloud's word for it, where it has one
  std::string message{};                // the cloud's words
  std::string request_id{};             // what its support asks for
  int status = 0;                       // of HTTP; 0 when nobody answered
  std::optional<ErrorKind> own_kind{};  // where the refusal's own does not say enough
  std::string hint{};
  // This is the last of several answers, and an earlier try may have been obeyed: nobody answered
  // it, or the answer was a fault.
  bool maybe_done = false;

  ErrorKind kind() const { return own_kind.value_or(kind_of(refusal)); }
};

template <typename T>
using ApiResult = std::expected<T, ApiError>;

// The request was not sent, for want of a token, say.
ApiError not_sent(const Error& error);
// It was sent, and io::Http::send() failed.
ApiError no_answer(const Error& error);

// Whether it is certain that the request changed nothing, in this try or an earlier one. Any other
// failure may hide a success.
bool is_certain(const ApiError& error);

// `what` is the work in words: "EC2 RunInstances in eu-west-1".
Error to_error(const ApiError& error, std::string_view what);

}  // namespace skyward::provider

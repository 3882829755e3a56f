#pragma once

// Why a cloud refused a request: ten classes, the same for every cloud. A cloud's own folder may
// also look at the cloud's error code, since some refusals are good news ("it exists already").
// Outside that folder there is only an Error, whose kind says what to do next.

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "skyward/base/error.h"

namespace skyward::provider {

enum class Refusal : std::uint8_t {
  auth,                // the credentials are wrong, have expired, or lack a permission
  insufficient_funds,  // the account's balance is too low
  quota,               // the account's limit is reached
  capacity,            // sold out here; another place, type or market may have it
  price_too_low,       // the bid is below the price
  invalid,             // the request is wrong; repeating it does not help
  not_found,
  conflict,      // not possible in the resource's present state; try again later
  rate_limited,  // too many requests; try again later
  transient,     // the cloud failed, or did not answer
};

// The kind of Error that a caller sees.
ErrorKind kind_of(Refusal refusal);

// What a status of HTTP says, where the cloud says no more. One that is no error is `invalid`.
Refusal refusal_of_status(int status);

// Whether the cloud received the request.
enum class Heard : std::uint8_t {
  not_sent,  // it did not
  unknown,   // no answer, or one that is not the cloud's: a proxy's page, a truncated reply
  answered,  // it did, and answered in its own format
};

struct ApiError {
  Refusal refusal = Refusal::transient;
  Heard heard = Heard::unknown;
  std::string code{};                   // the cloud's error code, where it has one
  std::string message{};                // the cloud's words
  std::string request_id{};             // which the cloud's support asks for
  int status = 0;                       // of HTTP; 0 without an answer
  std::optional<ErrorKind> own_kind{};  // instead of kind_of(refusal)
  std::string hint{};
  // An earlier try may have succeeded: it got no answer, or the cloud failed while handling it.
  bool maybe_done = false;

  ErrorKind kind() const { return own_kind.value_or(kind_of(refusal)); }
};

template <typename T>
using ApiResult = std::expected<T, ApiError>;

// `read` of what was told; of a list, `read` of each item.
template <typename T, typename Read>
ApiResult<std::invoke_result_t<Read, const T&>> mapped(const ApiResult<T>& told, Read read) {
  if (!told) return std::unexpected(told.error());
  return read(*told);
}
template <typename T, typename Read>
ApiResult<std::vector<std::invoke_result_t<Read, const T&>>> mapped(
    const ApiResult<std::vector<T>>& told, Read read) {
  if (!told) return std::unexpected(told.error());
  std::vector<std::invoke_result_t<Read, const T&>> out;
  for (const T& one : *told) out.push_back(read(one));
  return out;
}

// The request was not sent: there was no token, for example.
ApiError not_sent(const Error& error);
// It was sent, and io::Http::send() failed.
ApiError no_answer(const Error& error);

// Whether it is certain that no try of the request changed anything. Any other failure may hide a
// success.
bool is_certain(const ApiError& error);

// `what` names the request for people: "EC2 RunInstances in eu-west-1".
Error to_error(const ApiError& error, std::string_view what);

}  // namespace skyward::provider

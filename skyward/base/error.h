#pragma once

// How failures travel below the face.
//
// A function that can fail returns Result<T>. The error says in its kind what the caller should do
// next; that is the only thing code may branch on. The text is for people: `message` says what
// failed, where and why, `hint` says what to do about it. `facts` is for the classes of errors that
// the face throws (spec/shortage.h); nothing below looks at it. Only the face (skyward/*.h, the
// Python package) throws.

#include <expected>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace skyward {

enum class ErrorKind {
  invalid,      // the request is wrong: fix the call
  denied,       // not allowed: stop and tell a human
  exhausted,    // no capacity left: next offer, then back off
  over_budget,  // it costs more than was allowed: stop, or have more allowed
  unavailable,  // a passing fault: try again with back-off
  lost,         // the peer is gone: reconnect or replace
  unreachable,  // the peer may live, but the way to it is broken: mend the way, or replace
  unsupported,  // this way does not exist here: take another
  task,         // the user's own function failed
  undelivered,  // it ended, but its result is lost: to run it again would do all twice
  cancelled,    // the caller asked for it to stop
  timeout,      // a deadline passed
};

// The word that people and JSON read for a kind, for example "invalid".
std::string_view to_string(ErrorKind kind);

struct Error {
  ErrorKind kind = ErrorKind::unavailable;
  std::string message;
  std::string hint;
  std::map<std::string, std::string> facts{};

  bool operator==(const Error&) const = default;
};

// For people, in one line: the message, and the hint if there is one.
std::string line_of(const Error& error);

template <typename T>
using Result = std::expected<T, Error>;

using Status = Result<void>;

// Makes the failing value of any Result: `return fail(ErrorKind::invalid, "nodes must be at least
// 1")`.
inline std::unexpected<Error> fail(ErrorKind kind, std::string message, std::string hint = {}) {
  return std::unexpected(Error{kind, std::move(message), std::move(hint)});
}

// Passes the error of another Result on.
template <typename T>
std::unexpected<Error> fail(const Result<T>& result) {
  return std::unexpected(result.error());
}

}  // namespace skyward

#pragma once

// Amazon's refusals. Inside this folder code may look at Amazon's own word (`code`): some refusals
// are good news ("it exists already"). What leaves the folder is an Error of ours, whose kind says
// what to do.

#include <expected>
#include <string>
#include <string_view>

#include "skyward/base/error.h"
#include "skyward/io/http.h"

namespace skyward::provider::aws {

struct ApiError {
  std::string code{};        // "InsufficientInstanceCapacity"; empty when nobody answered
  std::string message{};     // Amazon's words
  std::string request_id{};  // what Amazon's support asks for
  int status = 0;            // of HTTP; 0 when nobody answered
  ErrorKind kind = ErrorKind::unavailable;
  std::string hint{};
  // This is the last of several answers, and what came before may have been heard and obeyed: a try
  // that nobody answered, or a fault inside.
  bool maybe_done = false;
};

template <typename T>
using ApiResult = std::expected<T, ApiError>;

// What to do about one of Amazon's codes.
struct CodeMeaning {
  ErrorKind kind = ErrorKind::invalid;
  std::string_view hint{};
};
CodeMeaning meaning_of(std::string_view code, int status);

// True for refusals of speed: the same request is welcome later.
bool is_throttling(std::string_view code, int status);
// True where another zone, type or region may have what this one has not.
bool is_capacity(std::string_view code);

// True of what an account of the free plan may not have: another type may do.
bool is_free_plan(const ApiError& error);

// True when it is certain that nothing was made, by this try or an earlier one. Any other failure
// may have been heard.
bool is_refusal(const ApiError& error);

// The refusal in a reply of EC2's, the query services' or the JSON services' form.
ApiError read_error(const io::HttpReply& reply);
// A failure to reach the service at all.
ApiError no_answer(const Error& error);

// `what` is the work in words: "EC2 RunInstances in eu-west-1".
Error to_error(const ApiError& error, std::string_view what);

}  // namespace skyward::provider::aws

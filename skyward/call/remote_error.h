#pragma once

// What get() throws when the function itself threw on its node.

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "skyward/call/archive.h"
#include "skyward/call/call.h"
#include "skyward/call/error.h"

namespace skyward {

// The remote exception's type and text; what() adds where it happened and the task's last lines of
// output.
class RemoteError : public ExecutionError {
 public:
  RemoteError(std::string type, std::string message, const Outcome& where, const std::string& text)
      : ExecutionError(text),
        type_(std::move(type)),
        message_(std::move(message)),
        output_(where.tail),
        node_(where.node),
        worker_(where.worker) {}

  // "std::invalid_argument"
  const std::string& type() const { return type_; }
  // Its what().
  const std::string& message() const { return message_; }
  // The last lines that the task wrote.
  const std::vector<std::string>& output() const { return output_; }
  int node() const { return node_; }
  int worker() const { return worker_; }

 private:
  std::string type_;
  std::string message_;
  std::vector<std::string> output_;
  int node_;
  int worker_;
};

// The type of a RemoteError whose function threw CancelledError.
inline constexpr const char* kCancelledType = "skyward::CancelledError";

// The form in which an exception travels. `error`: if it is of a ThrownType, what it has beside its
// text goes along; `store` takes what is large.
wire::Payload write_exception(const std::string& type, const std::string& message,
                              const std::exception* error = nullptr, BlobStore store = {});

// Throws the error in the outcome of a call of `function`; does nothing when it is ok. An exception
// of a ThrownType is thrown as that type. `map` reads the exception's buffers.
void throw_unless_ok(const Outcome& outcome, const std::string& function, std::uint64_t task,
                     BufferMapper map);

// The failure of a call of `function` in one line, which says what it threw: "train failed:
// std::range_error: too far".
std::string failure_line(const Outcome& outcome, const std::string& function, BufferMapper map);

}  // namespace skyward

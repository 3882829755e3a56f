#pragma once

// A call in the form that travels, and what came of it. Language-neutral: the typed C++ layer
// (function.h) and the Python package stand on top.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "skyward/base/bytes.h"
#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/wire/payload.h"

namespace skyward {

// A function in the form that travels. The body is sent once to each node, then only the id.
struct FunctionBody {
  FunctionId id;
  SharedBytes bytes;
  std::string name;  // for messages and events
};
// The id is made from the bytes.
FunctionBody make_function(SharedBytes bytes, std::string name);

struct CallOptions {
  Duration timeout{};                   // run time allowed; zero: none
  std::optional<std::uint32_t> node;    // this node only
  std::optional<std::uint32_t> worker;  // ... and this worker of it
  std::uint32_t stream_window = 0;      // > 0: the function is a generator; items arrive one by one
};

struct Call {
  std::shared_ptr<const FunctionBody> function;
  wire::Payload arguments;
  CallOptions options;
};

enum class OutcomeStatus : std::uint8_t {
  ok,      // payload: the result (of a stream: nothing, it ended)
  raised,  // payload: the exception, in the worker language's own form
  failed,  // no answer from the function: `error` says why (worker died, timeout, cancelled, node
           // lost, pool closed)
};

struct Outcome {
  OutcomeStatus status = OutcomeStatus::failed;
  wire::Payload payload;
  Error error;
  int node = -1;
  int worker = -1;
  std::string instance_id;
  double run_seconds = 0;
  std::vector<std::string> tail;  // last lines of the task's output, unless ok
};

}  // namespace skyward

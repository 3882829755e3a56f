#pragma once

// A call in the form that travels, and what came of it. Language-neutral: the typed C++ layer
// (call/function.h) and the Python package stand on top, and the engine carries it out.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/spec/id.h"
#include "skyward/wire/payload.h"

namespace skyward::wire {

// The bytes are sent once to each node, then only the id.
struct FunctionBody {
  FunctionId id;
  Buffer bytes;      // a pool stores large ones as a blob
  std::string name;  // for messages and events
};

struct CallOptions {
  Duration timeout{};                   // run time allowed; zero: none
  std::optional<NodeId> node;           // this node only
  std::optional<std::uint32_t> worker;  // ... and this worker of it
  std::uint32_t stream_window = 0;      // > 0: the function is a generator; items arrive one by one
  bool group = false;                   // several calls of the function: group.h
  // One of a call's tasks on all workers, which need each other: none starts before all nodes are
  // ready, and one whose node is lost fails. Means nothing unless `node` is set and the pool has
  // several nodes.
  bool together = false;
  std::uint32_t retries = 0;  // how often the pool sends a task again that has failed
  // With `node`: meant for what runs on its present machine, even if that will be preempted soon.
  bool while_preempted = false;

  bool operator==(const CallOptions&) const = default;
};

struct Call {
  std::shared_ptr<const FunctionBody> function;
  Payload arguments;
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
  Payload payload;
  Error error;
  bool begun = false;  // it was on a node, which may have begun it: of a group, the calls behind
                       // the one that failed may be sent again
  int node = -1;       // -1: it was on none
  int worker = -1;
  std::string instance_id;
  double run_seconds = 0;
  std::vector<std::string> tail;  // last lines of the task's output, unless ok
};

}  // namespace skyward::wire

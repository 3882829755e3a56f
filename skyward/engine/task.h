#pragma once

// Calls, as the engine keeps them from their submission to their answer.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "skyward/base/time.h"
#include "skyward/spec/id.h"
#include "skyward/wire/message.h"

namespace skyward::engine {

// A function as a node gets it: body once, then the id.
struct FunctionRef {
  FunctionId id;
  wire::Buffer body;  // a large one is a blob
  std::string name;
};

// How long a machine has worked: tasks ran; of the work that was lost with it, tasks ran since its
// last answer.
struct Work {
  Duration useful{};
  Duration lost{};
};

// One call, as it is submitted.
struct TaskSpec {
  TaskId id;
  std::shared_ptr<const FunctionRef> function;
  wire::Payload arguments;
  std::optional<NodeId> node;           // pinned to this rank
  std::optional<std::uint32_t> worker;  // ... and to this worker of it
  Duration timeout{};
  std::uint32_t stream_window = 0;
};

struct Task {
  TaskSpec spec;
  std::uint32_t attempt = 1;
  bool assigned = false;
  bool cancelled = false;
  bool item_seen = false;         // a stream that has delivered cannot start over
  std::uint32_t items_ahead = 0;  // delivered, and not taken by the reader yet
  NodeId node;                    // when assigned
};

}  // namespace skyward::engine

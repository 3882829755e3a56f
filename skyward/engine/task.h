#pragma once

// Tasks, as the engine keeps them from submission to answer.

#include <cstdint>

#include "skyward/base/time.h"
#include "skyward/spec/id.h"
#include "skyward/wire/call.h"

namespace skyward::engine {

// How long a machine has run tasks. `lost`: since its last answer, when the machine was lost.
struct Work {
  Duration useful{};
  Duration lost{};
};

struct Task {
  TaskId id;
  wire::Call call;
  std::uint32_t attempt = 1;
  bool assigned = false;
  bool cancelled = false;
  bool item_seen = false;         // a stream that has delivered cannot start over
  std::uint32_t group_calls = 0;  // of a group: calls without a result
  std::uint32_t items_ahead = 0;  // delivered, but not read yet
  NodeId node;                    // when assigned ...
  Time sent{};                    // ... and since when
  Task* previous = nullptr;       // its neighbours in the node's TaskList
  Task* next = nullptr;

  // Whether it is for one worker, in whose first slot such tasks run one after the other.
  bool is_bound() const { return call.options.node && call.options.worker; }
};

}  // namespace skyward::engine

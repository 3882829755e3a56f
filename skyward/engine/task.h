#pragma once

// Calls, as the engine keeps them from their submission to their answer.

#include <cstdint>

#include "skyward/base/time.h"
#include "skyward/spec/id.h"
#include "skyward/wire/call.h"

namespace skyward::engine {

// How long a machine has worked: tasks ran; of the work that was lost with it, tasks ran since its
// last answer.
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
  std::uint32_t items_ahead = 0;  // delivered, and not taken by the reader yet
  NodeId node;                    // when assigned
};

}  // namespace skyward::engine

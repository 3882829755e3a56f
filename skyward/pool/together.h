#pragma once

// Tasks on all workers that need each other (CallOptions::together): the wait for them, and which
// of their failures tells the most. python/skyward/pool/together.py is the other language's.

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "skyward/base/time.h"
#include "skyward/call/archive.h"
#include "skyward/call/call.h"
#include "skyward/call/remote_error.h"
#include "skyward/pool/future.h"
#include "skyward/pool/gathering.h"
#include "skyward/pool/handle.h"
#include "skyward/pool/pool.h"

namespace skyward {

// How long the others may continue after one has failed.
inline constexpr Duration kTogetherGrace = std::chrono::seconds(15);

// Waits for all; the outcomes by rank. When a task fails, the others have a moment to notice, and
// are then cancelled: they would wait for it, perhaps for ever. At once if its node was lost.
std::vector<Outcome> await_together(std::vector<Handle>& handles, Duration grace = kTogetherGrace);

// The ranks, causes before consequences: lost nodes and workers that died first, then what was
// thrown; last those that ran out of time, and those that were cancelled.
std::vector<std::size_t> in_order(const std::vector<Outcome>& outcomes);

// Waits for all; their values by rank. Throws the failure that tells the most, as Future::get().
template <typename R>
std::vector<Value<R>> values_together(std::vector<Handle>& handles, const std::string& function,
                                      Pool& pool) {
  const std::vector<Outcome> outcomes = await_together(handles);
  pool.await_delivery(kLinesGrace);
  const std::vector<std::size_t> order = in_order(outcomes);  // by rank if none has failed
  return values_of<R>(order.size(), [&](std::size_t at) {
    const std::size_t rank = order[at];
    throw_unless_ok(outcomes[rank], function, handles[rank].task(), &map_buffer);
    return read_value<R>(outcomes[rank].payload);
  });
}

}  // namespace skyward

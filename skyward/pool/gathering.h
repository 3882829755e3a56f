#pragma once

// The typed ends of gather(): packs its calls, and makes values and exceptions of their ends.

#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/call/archive.h"
#include "skyward/call/pending.h"
#include "skyward/call/remote_error.h"
#include "skyward/pool/future.h"
#include "skyward/pool/gathered_calls.h"
#include "skyward/pool/pool.h"

namespace skyward {

// A store that refuses to store: only small arguments are packed.
struct IsLarge {};
inline wire::Blob refuse_large(ByteView) { throw IsLarge{}; }

// Nothing if one of them is no plain, small call of the same function.
template <typename R>
std::optional<PackedCalls> pack(const std::vector<Pending<R>>& calls) {
  const RegisteredFunction& function = calls.front().function();
  PackedCalls packed{.function = function.body(), .arguments = {}, .ends = {}};
  packed.ends.reserve(calls.size());
  for (const Pending<R>& call : calls) {
    if (&call.function() != &function || !call.is_plain()) return std::nullopt;
    ArchiveWriter archive({.put = &refuse_large});
    try {
      call.write_arguments(archive);
    } catch (const IsLarge&) {
      return std::nullopt;
    }
    const ByteView bytes = archive.stream();
    if (bytes.size() > kMaxGatheredBytes) return std::nullopt;
    packed.arguments.insert(packed.arguments.end(), bytes.begin(), bytes.end());
    packed.ends.push_back(packed.arguments.size());
  }
  return packed;
}

// Runs them in groups; nothing if they are not for groups: then none was sent. A pool whose events
// report each task sends each call by itself.
template <typename R>
std::optional<std::vector<CallEnd>> run_in_groups(Pool& pool,
                                                  const std::vector<Pending<R>>& calls) {
  if (calls.size() < kMinGatheredCalls || pool.spec().collect_tasks) return std::nullopt;
  const std::optional<PackedCalls> packed = pack(calls);
  if (!packed) return std::nullopt;
  std::vector<CallEnd> ends = run_gathered(pool, *packed);
  pool.await_delivery(kLinesGrace);
  return ends;
}

// Its value, or throws its error, as Future::get().
template <typename R>
Value<R> value_of(CallEnd& end, const std::string& function) {
  if (end.unsent) std::rethrow_exception(end.unsent);
  if (end.outcome) {
    throw_unless_ok(*end.outcome, function, end.task, &map_buffer);
    return read_value<R>(end.outcome->payload);
  }
  wire::Payload payload;
  payload.buffers.push_back(wire::small_buffer(std::move(end.value)));
  return read_value<R>(payload);
}

// The values that `get` returns for `calls` calls, all of which have ended. Throws the first error,
// in order; a CancelledError (the call was cancelled because another failed) only if no call failed
// otherwise.
template <typename R, typename Get>
std::vector<Value<R>> values_of(std::size_t calls, Get get) {
  std::vector<Value<R>> values;
  values.reserve(calls);
  std::exception_ptr cancelled;
  for (std::size_t place = 0; place < calls; ++place) {
    try {
      values.push_back(get(place));
    } catch (const RemoteError& error) {
      // Of a call that runs on all workers together: it ended because another one failed.
      if (error.type() != kCancelledType) throw;
      if (!cancelled) cancelled = std::current_exception();
    }
  }
  if (cancelled) std::rethrow_exception(cancelled);
  return values;
}

// The same, but each failure takes the place of its result.
template <typename R, typename Get>
std::vector<Attempt<R>> attempts_of(std::size_t calls, Get get) {
  std::vector<Attempt<R>> attempts;
  attempts.reserve(calls);
  for (std::size_t place = 0; place < calls; ++place) {
    try {
      attempts.emplace_back(get(place));
    } catch (...) {
      attempts.emplace_back(std::unexpect, std::current_exception());
    }
  }
  return attempts;
}

}  // namespace skyward

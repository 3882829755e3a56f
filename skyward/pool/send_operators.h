#pragma once

// What sends calls, in the form in which they read best:
//
//   call >> pool, batch >> pool, gather(calls) >> pool, and streams likewise
//   broadcast(call, pool), submit(call, pool)
//
// Each is the verb of ComputePool that has the same arguments.

#include <tuple>
#include <vector>

#include "skyward/call/pending.h"
#include "skyward/call/sink.h"
#include "skyward/pool/compute_pool.h"
#include "skyward/pool/future.h"
#include "skyward/pool/stream.h"

namespace skyward {

template <typename R>
R operator>>(const Pending<R>& call, ComputePool& pool) {
  return pool.run(call);
}
template <typename T>
Stream<T> operator>>(const PendingStream<T>& call, ComputePool& pool) {
  return pool.run(call);
}
template <typename... Rs>
std::tuple<Value<Rs>...> operator>>(const Batch<Rs...>& batch, ComputePool& pool) {
  return pool.run(batch);
}
template <typename R>
std::vector<Value<R>> operator>>(const Gathered<R>& calls, ComputePool& pool) {
  return pool.run(calls);
}
template <typename R>
std::vector<Attempt<R>> operator>>(const Attempts<R>& calls, ComputePool& pool) {
  return pool.run(calls);
}

template <typename R>
std::vector<Value<R>> broadcast(const Pending<R>& call, ComputePool& pool) {
  return pool.broadcast(call);
}
template <typename R>
Future<R> submit(const Pending<R>& call, ComputePool& pool) {
  return pool.submit(call);
}

}  // namespace skyward

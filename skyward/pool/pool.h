#pragma once

// A pool, from the caller's side: open it, submit calls, wait for their handles, close it.
//
// Everything here may be called from any thread. Calls are language-neutral: a function body (by
// id) and payload buffers; the typed C++ layer (function.h) and the Python package stand on top.
// The engine runs on a thread of its own, which the Pool owns.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/forever.h"
#include "skyward/base/time.h"
#include "skyward/call/call.h"
#include "skyward/pool/handle.h"
#include "skyward/spec/event.h"
#include "skyward/spec/pool_cost.h"
#include "skyward/spec/pool_spec.h"
#include "skyward/wire/payload.h"

namespace skyward {

class Pool {
 public:
  // Checks the spec; throws ConfigurationError. Nothing is started.
  explicit Pool(PoolSpec spec);
  // Closes an open pool. Machines that may be left are told on standard error. In a forked child it
  // does nothing: there the pool is the parent's.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Provisions the nodes and waits until they are ready; throws what went wrong after everything
  // was released. Several providers are tried one after the other; when all have failed, it throws
  // AllProvidersFailedError. `poll` is called about every 100 ms while waiting and may
  // throw, which aborts the opening (Python: signals).
  void open(const std::function<void()>& poll = {});
  // Cancels what runs, releases all machines, delivers the last events. Does nothing on a closed
  // pool. What the cloud says becomes an Error event; throws MachinesLeftError only, when
  // everything else is done. Not from on_done(). `poll` is called as in open(); what it throws
  // hurries the end, and is thrown when the pool has closed.
  void close(const std::function<void()>& poll = {});
  // From any thread, at once: a close() under way waits no longer than is safe. Machines are
  // released and recorded as always; tasks and agents get no more time to clean up. Does nothing to
  // a pool that does not close, or began to less than half a second ago.
  void hurry();

  // These throw NotProvisionedError when the pool is not open.
  Handle submit(Call call);
  std::vector<Handle> submit(std::vector<Call> calls);
  // Once on every worker; handles in rank order.
  std::vector<Handle> broadcast(const Call& call);

  // Stores large bytes for sending, once; the copy runs on the calling thread. The blob may be used
  // in any number of calls.
  wire::Blob store(ByteView bytes);
  // The same for many, which share one blob: a call takes few blobs and many buffers.
  std::vector<wire::Buffer> store_together(std::span<const ByteView> runs);

  // The nodes that get a stored blob keep it between calls too, so that the next call that uses it
  // sends nothing, until it is forgotten or the pool closes. As often forgotten as kept. Both do
  // nothing on a closed pool.
  void keep(const wire::Blob& blob);
  void forget(const wire::Blob& blob);
  // What store() has put into the blob.
  static ByteView stored_bytes(const wire::Blob& blob);

  // Events since the last call, in order. Waits until there is one, the time is over (kForever:
  // without limit), or the pool has closed and all have been taken (then `false`).
  bool next_events(std::vector<Event>& events, Duration timeout);

  // Whoever takes the events has come again after all that there are now; so have those of whom
  // nobody waits any more, as they lag behind for longer than a limit.
  bool is_delivered() const;
  // Returns then, or after the limit: a task's lines are told before its result.
  void await_delivery(Duration limit);

  // False in a forked child, which has the memory but not the engine's thread: there the pool is
  // not open.
  bool is_ours() const;
  bool is_active() const;
  int instance_count() const;  // 0 when not open
  int total_slots() const;     // nodes × workers × concurrency
  // Tasks that were ever sent, each attempt for itself, and those without an answer yet.
  std::uint64_t tasks_sent() const;
  std::uint64_t tasks_unfinished() const;
  PoolSpec spec() const;  // of an open pool: with the provider that it has
  // The place of that provider among those that the pool was given.
  std::size_t chosen_provider() const;
  // What it has cost until now; of a closed pool, in all, until it is opened again.
  PoolCost cost() const;
  std::string job_id() const;  // 8 hex digits; a new one at each open

 private:
  std::unique_ptr<struct PoolState> impl_;
};

// A received payload's buffer as memory: small ones as they are, blobs mapped (privately,
// writable). Throws on a mapping failure.
SharedBytes map_buffer(const wire::Buffer& buffer);

}  // namespace skyward

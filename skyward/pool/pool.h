#pragma once

// A pool, from the caller's side: open it, submit calls, wait for their handles, close it.
//
// Everything here may be called from any thread. Calls are language-neutral: a function body (by
// id) and payload buffers; the typed C++ layer (function.h) and the Python package stand on top.
// The engine runs on a thread of its own, which the Pool owns.

#include <chrono>
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
#include "skyward/spec/id.h"
#include "skyward/spec/node_shell.h"
#include "skyward/spec/pool_cost.h"
#include "skyward/spec/pool_spec.h"
#include "skyward/wire/payload.h"

namespace skyward {

// What a call came to, in one line: only the language that made the call can read what it threw.
using FailureLine = std::function<std::string(const Outcome&, const std::string& function)>;

// How long results wait for the consumer of events to show what their tasks wrote: once, while it
// lags behind.
inline constexpr Duration kLinesGrace = std::chrono::milliseconds(20);

class Pool {
 public:
  // Checks the spec; throws ConfigurationError. Nothing is started. `failure_line` is for calls
  // with retries; the engine's thread calls it.
  explicit Pool(PoolSpec spec, FailureLine failure_line = {});
  // Closes an open pool. Reports machines that may be left on standard error. In a forked child it
  // does nothing: the pool belongs to the parent.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Provisions the nodes and waits until they are ready. On an error it releases everything, then
  // throws. Several providers are tried one after the other; when all have failed, it throws
  // AllProvidersFailedError. `poll` is called about every 100 ms while waiting and may throw, which
  // aborts the opening (Python: signals).
  void open(const std::function<void()>& poll = {});
  // Cancels what runs, releases all machines, delivers the last events. Does nothing on a closed
  // pool. Errors of the cloud become Error events; throws only MachinesLeftError, when everything
  // else is done. Must not be called from Handle::on_done(). `poll` is called as in open(); if it
  // throws, the close is hurried, and the exception is rethrown when the pool has closed.
  void close(const std::function<void()>& poll = {});
  // Makes a running close() wait no longer than is safe: machines are released and recorded as
  // always, but tasks and agents get no more time to clean up. Returns at once; from any thread.
  // Does nothing unless the pool has been closing for half a second.
  void hurry();

  // These throw NotProvisionedError when the pool is not open.
  Handle submit(Call call);
  std::vector<Handle> submit(std::vector<Call> calls);
  // Once on every worker; handles in rank order.
  std::vector<Handle> broadcast(const Call& call);

  // Stores large bytes for sending; the calling thread copies them. The blob may be used in any
  // number of calls.
  wire::Blob store(ByteView bytes);
  // The same for many, which share one blob: a call takes few blobs and many buffers.
  std::vector<wire::Buffer> store_together(std::span<const ByteView> runs);

  // Makes the nodes that get a stored blob keep it between calls, so that the next call that uses
  // it sends nothing, until forget() or the end of the pool. Each keep() needs one forget(). Both
  // do nothing on a closed pool.
  void keep(const wire::Blob& blob);
  void forget(const wire::Blob& blob);
  // The bytes that store() put into the blob.
  static ByteView stored_bytes(const wire::Blob& blob);
  // Memory that this process may use, in bytes.
  static std::uint64_t usable_memory();

  // Events since the last call, in order. Waits until there is one or the timeout is over
  // (kForever: no limit). Returns false when the pool has closed and all events have been taken.
  bool next_events(std::vector<Event>& events, Duration timeout);

  // Puts an Error among them. False: the pool takes no more.
  bool tell(std::string message, std::optional<InstanceId> instance);
  // Writes one that its receivers have got already to the pool's files.
  void note(std::string message, std::optional<InstanceId> instance);

  // Whether all events so far are delivered: the consumer has called next_events() again after
  // taking them. A consumer that lags behind for longer than a limit is no longer waited for; then
  // this is true, too.
  bool is_delivered() const;
  // Waits until is_delivered(), or for the limit: a task's output is shown before its result is
  // returned. The consumer itself does not wait.
  void await_delivery(Duration limit);

  // False in a forked child, which has the memory but not the engine's thread: the pool is not open
  // there.
  bool is_ours() const;
  // An address that no other pool of this process has.
  const void* identity() const;
  bool is_active() const;
  // Whether it has closed by itself because its timeout was over, until it is opened again.
  bool has_expired() const;
  int instance_count() const;  // 0 when not open
  int total_slots() const;     // nodes × workers × concurrency
  // Tasks sent so far, counting each attempt, and those without an outcome yet.
  std::uint64_t tasks_sent() const;
  std::uint64_t tasks_unfinished() const;
  PoolSpec spec() const;  // of an open pool: with the provider that it has
  // The index of that provider among those that the pool was given.
  std::size_t chosen_provider() const;
  // The cost so far; after closing, the total, until the pool is opened again.
  PoolCost cost() const;
  // How to run a line in the shell of a node; nothing for a process of this machine, or no node.
  NodeShell shell_of(NodeId node) const;
  // Of the nodes that are ready, what the smallest may use, in bytes; 0 if none is.
  std::uint64_t least_memory() const;
  std::string job_id() const;  // 8 hex digits; a new one at each open

 private:
  std::unique_ptr<struct PoolState> impl_;
};

// A received payload's buffer as memory: a small one as it is, a blob mapped (private, writable).
// Throws if the mapping fails.
SharedBytes map_buffer(const wire::Buffer& buffer);

}  // namespace skyward

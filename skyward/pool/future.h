#pragma once

// A call that has been sent, and its future result.

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "skyward/base/forever.h"
#include "skyward/base/time.h"
#include "skyward/call/archive.h"
#include "skyward/call/pending.h"
#include "skyward/call/remote_error.h"
#include "skyward/pool/callbacks.h"
#include "skyward/pool/pool.h"

namespace skyward {

// The value in a payload that a worker has sent.
template <typename R>
Value<R> read_value(const wire::Payload& payload) {
  Value<R> value{};
  if constexpr (!std::is_void_v<R>) {
    ArchiveReader archive(payload, &map_buffer);
    archive(value);
    archive.expect_end();
  }
  return value;
}

template <typename R>
class Future;

// Waits until all are done, and their output is shown.
template <typename R>
void await_all(const std::vector<Future<R>>& futures, Pool& pool) {
  for (const Future<R>& future : futures) future.wait(kForever);
  pool.await_delivery(kLinesGrace);
}

// The caller's end of one call. Movable; a moved-from future throws. Destroying it does not cancel
// the call. Thread-compatible.
template <typename R>
class [[nodiscard]] Future {
 public:
  // For ComputePool.
  Future(Handle handle, std::string function)
      : handle_(std::move(handle)), function_(std::move(function)) {}
  Future(Future&&) noexcept = default;
  Future& operator=(Future&&) noexcept = default;

  // Waits without limit. Throws RemoteError when the function threw, ExecutionError when its worker
  // died, InstanceTerminatedError or ConnectionLostError when its machine was lost on every
  // attempt, TimeoutError, CancelledError, BudgetExceededError when no money is left to run it; all
  // of them are SkywardErrors. The first call moves the result out, a second one throws.
  R get() {
    handle_.wait(kForever);
    Outcome outcome = handle_.take();
    throw_unless_ok(outcome, function_, handle_.task(), &map_buffer);
    if constexpr (!std::is_void_v<R>) return read_value<R>(outcome.payload);
  }
  // get(), with std::monostate for void.
  Value<R> get_value() {
    if constexpr (std::is_void_v<R>) {
      get();
      return {};
    } else {
      return get();
    }
  }

  bool done() const { return handle_.done(); }
  // Waits until the call is done or the limit is over (kForever: no limit); returns done().
  bool wait(TimeLimit limit) const { return handle_.wait(limit); }
  // Asks the running task to stop (sky::cancelled() turns true there), and kills it after two
  // seconds. get() then throws CancelledError, unless the result was on its way already.
  void cancel() { handle_.cancel(); }
  // Calls `callback` when done, or soon if it is already, on one thread that all callbacks of this
  // process share. It may close the pool or end the program, but while it blocks, no other callback
  // is called. An exception that it throws is reported on stderr. Closing the pool waits for those
  // that are due by then, unless on_event closes it.
  void on_done(std::function<void()> callback) {
    start_callbacks();
    handle_.on_done([owner = handle_.pool(), callback = std::move(callback)]() mutable {
      call_back(owner, std::move(callback));
    });
  }
  std::uint64_t task() const { return handle_.task(); }

  // `co_await std::move(future)` in any coroutine: it goes on, with what get() returns or throws,
  // on the thread of the callbacks; it must not block there for long.
  auto operator co_await() && {
    struct Awaiter {
      Future future;

      bool await_ready() const { return future.done(); }
      void await_suspend(std::coroutine_handle<> coroutine) {
        future.on_done([coroutine] { coroutine.resume(); });
      }
      R await_resume() { return future.get(); }
    };
    return Awaiter{std::move(*this)};
  }

 private:
  friend class Executor;

  Handle handle_;
  std::string function_;
};

}  // namespace skyward

#pragma once

// A pool for C++ programs: its nodes run the functions of this executable.
//
//   int main(int argc, char** argv) {
//     sky::init(argc, argv);  // first of all: workers enter here and never leave
//     // Opens the pool; throws if that fails, after releasing everything.
//     sky::ComputePool pool({.nodes = 4});
//     double loss = train(data) >> pool;
//     // Once on every worker, in rank order.
//     std::vector<Report> all = pool.broadcast(report());
//   }  // closes, whatever happens: an exception that nothing catches, exit() and Ctrl-C too

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "skyward/base/forever.h"
#include "skyward/base/time.h"
#include "skyward/call/pending.h"
#include "skyward/call/sink.h"
#include "skyward/display/terminal_view.h"
#include "skyward/pool/future.h"
#include "skyward/pool/gathering.h"
#include "skyward/pool/pool.h"
#include "skyward/pool/pool_options.h"
#include "skyward/pool/program_end.h"
#include "skyward/pool/stream.h"
#include "skyward/pool/together.h"
#include "skyward/spec/event.h"

namespace skyward {

// Thread-safe. A program that ends while the pool is open closes it first, within a minute: on an
// uncaught exception, on exit(), and on SIGINT, SIGTERM and SIGHUP, unless the program handles
// those itself. What ends the machines after SIGKILL, a crash or quick_exit() is in
// docs/guide/cleanup.md.
class ComputePool {
 public:
  // Opens the pool; call it inside main(), after sky::init(). Throws ConfigurationError,
  // ProvisioningError, BudgetExceededError or, where it takes too long, TimeoutError; then nothing
  // is left behind.
  explicit ComputePool(PoolOptions options = {});
  // Closes it. Tasks still in flight are cancelled. Reports machines that may be left on standard
  // error.
  ~ComputePool();
  ComputePool(const ComputePool&) = delete;
  ComputePool& operator=(const ComputePool&) = delete;

  // Releases all machines; afterwards calls throw NotProvisionedError. Throws MachinesLeftError if
  // some are not known to have terminated; the pool is closed all the same. on_event may call it,
  // and gets the last events after that.
  void close();

  // Sends a call and returns at once.
  template <typename R>
  Future<R> submit(const Pending<R>& call) {
    return {pool_.submit(call.to_call(store())), call.name()};
  }
  // Sends a call and waits for its result.
  template <typename R>
  R run(const Pending<R>& call) {
    Future<R> future = submit(call);
    future.wait(kForever);
    pool_.await_delivery(kLinesGrace);
    return future.get();
  }
  // Sends a call of a function that yields; its items arrive while it runs.
  template <typename T>
  Stream<T> run(const PendingStream<T>& call) {
    return {pool_.submit(call.to_call(store())), call.name()};
  }
  // Sends all calls and waits for all. If some failed, throws the error of the first one in order,
  // skipping calls that were cancelled because another failed, unless there are only those.
  template <typename... Rs>
  std::tuple<Value<Rs>...> run(const Batch<Rs...>& batch);
  template <typename R>
  std::vector<Value<R>> run(const Gathered<R>& calls);
  // The same, but each failure takes the place of its result.
  template <typename R>
  std::vector<Attempt<R>> run(const Attempts<R>& calls);
  // Runs the call once on every worker; results in rank order. Failures as with a batch; but when
  // the workers need each other (MPI), the others are cancelled 15 s after the first failure, or at
  // once if a node is lost, whose error is then thrown.
  template <typename R>
  std::vector<Value<R>> broadcast(const Pending<R>& call);

  bool is_active() const { return pool_.is_active(); }
  int instance_count() const { return pool_.instance_count(); }
  int total_slots() const { return pool_.total_slots(); }
  // What it has cost until now; once closed, in all.
  PoolCost cost() const { return pool_.cost(); }
  std::string job_id() const { return pool_.job_id(); }
  // The untyped pool below.
  Pool& untyped() { return pool_; }

 private:
  friend class MultiPool;
  // `check` is called while it opens; what it throws ends that.
  ComputePool(PoolOptions options, const std::function<void()>& check);
  BlobStore store();
  void deliver_events(const std::function<void(const Event&)>& on_event, Display display);
  void end_with_program();
  template <typename R>
  std::vector<Future<R>> send(const std::vector<Pending<R>>& calls);
  template <typename R>
  std::vector<Value<R>> collect(std::vector<Future<R>> futures);

  Pool pool_;
  const std::uint64_t store_id_;
  std::mutex joining_;  // of `events_`: several threads may close
  std::thread events_;
  std::atomic<std::thread::id> events_id_;
  bool* destroyed_ = nullptr;           // for the events' thread, which may itself destroy this
  std::binary_semaphore delivered_{0};  // all events are delivered
  std::atomic<bool> opening_{true};
  EndsWithProgram ends_with_program_;
};

template <typename... Rs>
std::tuple<Value<Rs>...> ComputePool::run(const Batch<Rs...>& batch) {
  return std::apply(
      [this](const auto&... call) {
        // All are serialized before the first is sent: if one cannot be, none is sent.
        std::vector<Call> sent;
        sent.reserve(sizeof...(Rs));
        (sent.push_back(call.to_call(store())), ...);
        std::vector<Handle> handles = pool_.submit(std::move(sent));
        auto next = handles.begin();
        std::tuple<Future<Rs>...> futures{Future<Rs>(std::move(*next++), call.name())...};
        std::apply([](const auto&... future) { (future.wait(kForever), ...); }, futures);
        pool_.await_delivery(kLinesGrace);
        // Braces: get_value() in order, so that the first failure is the one thrown.
        return std::apply(
            [](auto&... future) { return std::tuple<Value<Rs>...>{future.get_value()...}; },
            futures);
      },
      batch.calls());
}

template <typename R>
std::vector<Value<R>> ComputePool::collect(std::vector<Future<R>> futures) {
  await_all(futures, pool_);
  return values_of<R>(futures.size(), [&](std::size_t i) { return futures[i].get_value(); });
}

template <typename R>
std::vector<Future<R>> ComputePool::send(const std::vector<Pending<R>>& calls) {
  std::vector<Call> sent;
  sent.reserve(calls.size());
  for (const auto& call : calls) sent.push_back(call.to_call(store()));
  std::vector<Handle> handles = pool_.submit(std::move(sent));
  std::vector<Future<R>> futures;
  futures.reserve(handles.size());
  for (std::size_t i = 0; i < handles.size(); ++i) {
    futures.emplace_back(std::move(handles[i]), calls[i].name());
  }
  return futures;
}

template <typename R>
std::vector<Value<R>> ComputePool::run(const Gathered<R>& calls) {
  auto ends = run_in_groups(pool_, calls.calls());
  if (!ends) return collect(send(calls.calls()));
  const std::string& name = calls.calls().front().name();
  return values_of<R>(ends->size(), [&](std::size_t i) { return value_of<R>((*ends)[i], name); });
}

template <typename R>
std::vector<Attempt<R>> ComputePool::run(const Attempts<R>& calls) {
  if (auto ends = run_in_groups(pool_, calls.calls())) {
    const std::string& name = calls.calls().front().name();
    return attempts_of<R>(ends->size(), [&](auto i) { return value_of<R>((*ends)[i], name); });
  }
  auto futures = send(calls.calls());
  await_all(futures, pool_);
  return attempts_of<R>(futures.size(), [&](std::size_t i) { return futures[i].get_value(); });
}

template <typename R>
std::vector<Value<R>> ComputePool::broadcast(const Pending<R>& call) {
  const Call sent = call.to_call(store());
  std::vector<Handle> handles = pool_.broadcast(sent);
  if (sent.options.together) return values_together<R>(handles, call.name(), pool_);
  std::vector<Future<R>> futures;
  for (Handle& handle : handles) futures.emplace_back(std::move(handle), call.name());
  return collect(std::move(futures));
}

}  // namespace skyward

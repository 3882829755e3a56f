#pragma once

// For the tests of the core: a pool that opens in one line, and takes what it asks of the world
// from RecordingEffects. A test ends (by TearDown) with expect_nothing_else() and sanity_check().
// Time moves only when the test moves it.

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "skyward/engine/effects_fixture.h"
#include "skyward/spec/limits.h"

namespace skyward::engine {

inline constexpr NodeId kFirst{0}, kSecond{1};
inline const std::unexpected<Error> kRefused = fail(ErrorKind::denied, "the cloud says no");

struct PoolShape {
  int nodes = 1;
  int concurrency = 1;
  std::uint32_t workers_per_node = 1;
  Duration timeout{};
};

class CoreTest : public testing::Test {
 protected:
  void TearDown() override;

  // Each goes one step further than the one before it and leaves nothing to take.
  void make(PoolShape shape = {});
  void open_to_provisioning(PoolShape shape = {});
  void open_to_starting(PoolShape shape = {});
  void open_to_bootstrapping(PoolShape shape = {});
  void open_to_running(PoolShape shape = {});

  // Time passes until the core wants to be called, and it is called.
  void advance();
  void advance_alive();  // all nodes that are ready give signs of life meanwhile
  void advance_to(Time time);

  // The machine that the provider sells for this node, the nth of it.
  static Instance machine(std::uint32_t node, int nth = 1);
  void join(std::uint32_t node);
  void receive(std::uint32_t node, wire::Message message);
  void lose(std::uint32_t node, std::string why = "connection reset");
  // What its workers have not begun is asked back.
  void recall(std::uint32_t node);
  // The lost node gets its new machine, up to `ready`; the others are told its address.
  void replace(std::uint32_t node, int nth);
  void take_peer_moved(std::uint32_t node, const Instance& instance);

  static wire::Blob blob(std::uint64_t id);
  static wire::Call with_blobs(wire::Call call, std::initializer_list<std::uint64_t> ids);
  wire::Call task(std::string argument = "x");
  TaskId submit(wire::Call call);  // as the task with the next id
  TaskId submit() { return submit(task()); }
  // Submits and takes its RunTask, which must go to `node`.
  TaskId submit_to(std::uint32_t node);
  TaskId submit_to(std::uint32_t node, wire::Call call);
  // The node answers; `run` is the time inside the worker.
  void answer(std::uint32_t node, TaskId task, Duration run = std::chrono::seconds(1));
  void answer_with(std::uint32_t node, TaskId task, wire::TaskStatus status,
                   std::vector<BlobId> retained = {});
  wire::Outcome take_outcome(TaskId task);
  // It answers, and that is the outcome.
  void complete(std::uint32_t node, TaskId task, Duration run = std::chrono::seconds(1));
  void run_on(std::uint32_t node, Duration run);  // a task, from its submission to its outcome
  // The same, and the answer arrives so much later than the run explains.
  void run_far_on(std::uint32_t node, Duration run, Duration way);
  std::uint32_t attempt_of(TaskId task) const;
  // From a running pool to the end, when nothing is in the way.
  void finish_closing(std::vector<InstanceId> instances);

  EngineState state;
  RecordingEffects effects;
  Time now = Time{} + std::chrono::hours(1);
  std::uint64_t next_task = 1;
  std::shared_ptr<const wire::FunctionBody> function;
};

}  // namespace skyward::engine

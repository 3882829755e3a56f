// Calls whose workers need each other, with real agents on this machine.

#include "skyward/pool/together.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <stdexcept>
#include <thread>
#include <vector>

#include "skyward/skyward.h"

namespace skyward {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Waits for the others, that is until it is stopped.
void wait_there() {
  while (!cancelled()) std::this_thread::yield();
  throw CancelledError("stopped");
}
int lose_there(int victim) {
  if (instance_info().node == victim) kill(getppid(), SIGKILL);
  wait_there();
  return 0;
}
int throw_on_there(int victim) {
  if (instance_info().node == victim) throw std::out_of_range("no such row");
  wait_there();
  return 0;
}
int node_there() { return instance_info().node; }

PoolOptions two_nodes() {
  PoolOptions options;
  options.nodes = 2;
  options.display = Display::quiet;
  return options;
}

template <typename R>
Call together(const Pending<R>& pending) {
  Call call = pending.to_call(memory_store());
  call.options.together = true;
  return call;
}

Outcome outcome_of(ErrorKind kind) {
  Outcome outcome;
  outcome.error.kind = kind;
  return outcome;
}

TEST(Together, CausesComeBeforeConsequences) {
  Outcome raised, ok;
  raised.status = OutcomeStatus::raised;
  ok.status = OutcomeStatus::ok;
  const Outcome lost = outcome_of(ErrorKind::lost);
  const Outcome unreachable = outcome_of(ErrorKind::unreachable);
  const Outcome stopped = outcome_of(ErrorKind::cancelled);
  const Outcome late = outcome_of(ErrorKind::timeout);
  const Outcome died = outcome_of(ErrorKind::task);
  Outcome aborted = died;
  aborted.error.message = "the worker process was killed by SIGABRT";
  EXPECT_THAT(in_order({ok, ok, ok}), ElementsAre(0, 1, 2));
  EXPECT_THAT(in_order({aborted, raised, died}), ElementsAre(2, 0, 1));
  EXPECT_THAT(in_order({stopped, late, raised, lost, ok, unreachable}),
              ElementsAre(3, 5, 2, 4, 1, 0));
}

TEST(Together, ALossEndsTheCallAndTheNextOneRunsOnTheReplacement) {
  ComputePool pool(two_nodes());
  std::vector<Handle> handles = pool.untyped().broadcast(together(compute<lose_there>(1)));
  const std::vector<Outcome> outcomes = await_together(handles, 1h);
  EXPECT_EQ(outcomes[0].error.kind, ErrorKind::cancelled);
  EXPECT_EQ(outcomes[1].error.kind, ErrorKind::lost);
  EXPECT_THAT(outcomes[1].error.message,
              HasSubstr("node 1 was lost, and the call needs all nodes"));
  EXPECT_THAT(in_order(outcomes), ElementsAre(1, 0));
  handles = pool.untyped().broadcast(together(compute<node_there>()));
  for (const Outcome& outcome : await_together(handles)) {
    EXPECT_EQ(outcome.status, OutcomeStatus::ok) << outcome.error.message;
  }
}

TEST(Together, WhenOneThrowsTheOthersAreStoppedAfterAMoment) {
  ComputePool pool(two_nodes());
  std::vector<Handle> handles = pool.untyped().broadcast(together(compute<throw_on_there>(1)));
  const std::vector<Outcome> outcomes = await_together(handles, 10ms);
  EXPECT_EQ(outcomes[0].error.kind, ErrorKind::cancelled);
  EXPECT_EQ(outcomes[1].status, OutcomeStatus::raised);
}

TEST(Together, NoneIsRetriedAlone) {
  ComputePool pool(two_nodes());
  const Call call = together(compute<node_there>().with_retries(1));
  EXPECT_THROW(pool.untyped().broadcast(call), ConfigurationError);
}

}  // namespace
}  // namespace skyward

// Tasks: queueing, placing, recalling, answering, losing.

#include <fmt/format.h>

#include "skyward/engine/core_fixture.h"
#include "skyward/wire/group.h"

namespace skyward::engine {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

using CoreTaskTest = CoreTest;

wire::Call pinned_to(wire::Call call, NodeId node, std::optional<std::uint32_t> worker = 0) {
  call.options.node = node;
  call.options.worker = worker;
  return call;
}

wire::Call group_of(wire::Call call, std::uint32_t calls) {
  call.options.group = true;
  call.options.stream_window = calls;
  return call;
}

wire::Payload group_item(int results, std::uint32_t withdrawn) {
  wire::GroupItemWriter item;
  for (int i = 0; i < results; ++i) item.add(as_bytes("result"));
  item.withdraw(withdrawn);
  return item.take();
}

// ------------------------------------------------------------------------------------- placing

TEST_F(CoreTaskTest, RunsAndAnswers) {
  open_to_running({.nodes = 1, .concurrency = 1, .workers_per_node = 2});
  wire::Call call = task("argument");
  call.options.timeout = 1500us;
  call.options.stream_window = 3;
  const TaskId id = submit(call);
  const auto run = effects.take_message<wire::RunTask>(kFirst);
  EXPECT_EQ(run.task, id);
  EXPECT_EQ(run.attempt, 1U);
  EXPECT_EQ(run.worker, std::nullopt);
  EXPECT_EQ(run.arguments, call.arguments);
  EXPECT_EQ(run.timeout_ms, 2U);  // never earlier than asked
  EXPECT_EQ(run.stream_window, 3U);

  wire::TaskResult result;
  result.task = id;
  result.worker = 1;
  result.payload = call.arguments;
  result.run_ns = 77;
  result.tail = {"bye"};
  receive(0, result);
  const wire::Outcome outcome = take_outcome(id);
  EXPECT_EQ(outcome.status, wire::OutcomeStatus::ok);
  EXPECT_EQ(outcome.payload, call.arguments);
  EXPECT_EQ(outcome.node, 0);
  EXPECT_EQ(outcome.worker, 1);
  EXPECT_EQ(outcome.instance_id, "i-0-1");
  EXPECT_DOUBLE_EQ(outcome.run_seconds, 77e-9);
  EXPECT_THAT(outcome.tail, ElementsAre("bye"));
}

TEST_F(CoreTaskTest, EachVerdictHasItsError) {
  open_to_running();
  const auto verdict = [&](wire::TaskStatus status) {
    const TaskId id = submit_to(0);
    answer_with(0, id, status);
    return take_outcome(id);
  };
  EXPECT_EQ(verdict(wire::TaskStatus::raised).status, wire::OutcomeStatus::raised);
  const wire::Outcome died = verdict(wire::TaskStatus::worker_died);
  EXPECT_EQ(died.status, wire::OutcomeStatus::failed);
  EXPECT_EQ(died.error.kind, ErrorKind::task);
  EXPECT_THAT(died.error.message, HasSubstr("the detail"));
  EXPECT_THAT(died.error.message, HasSubstr("train"));
  EXPECT_TRUE(died.begun);
  const wire::Outcome unbegun = verdict(wire::TaskStatus::not_begun);
  EXPECT_EQ(unbegun.error.kind, ErrorKind::task);
  EXPECT_THAT(unbegun.error.message, HasSubstr("the call did not begin"));
  EXPECT_FALSE(unbegun.begun);
  const wire::Outcome lost = verdict(wire::TaskStatus::undelivered);
  EXPECT_EQ(lost.error.kind, ErrorKind::undelivered);
  EXPECT_THAT(lost.error.message, HasSubstr("the result is lost"));
  EXPECT_EQ(verdict(wire::TaskStatus::cancelled).error.kind, ErrorKind::cancelled);
  EXPECT_EQ(verdict(wire::TaskStatus::timed_out).error.kind, ErrorKind::timeout);
}

TEST_F(CoreTaskTest, WhatOneNodeCannotBeginAnotherOneDoes) {
  open_to_running({.nodes = 2});
  const TaskId id = submit_to(0);
  answer_with(0, id, wire::TaskStatus::not_begun);
  const auto again = effects.take_message<wire::RunTask>(kSecond);
  EXPECT_EQ(again.task, id);
  EXPECT_EQ(again.attempt, 2U);
  answer_with(1, id, wire::TaskStatus::not_begun);
  EXPECT_EQ(effects.take_message<wire::RunTask>(kFirst).attempt, 3U);
  answer_with(0, id, wire::TaskStatus::not_begun);
  EXPECT_EQ(effects.take_message<wire::RunTask>(kSecond).attempt, kMaxAttempts);
  answer_with(1, id, wire::TaskStatus::not_begun);
  EXPECT_THAT(take_outcome(id).error.message, HasSubstr("the call did not begin"));
}

TEST_F(CoreTaskTest, ANodeWhereTasksCannotBeginGetsNoneForAWhile) {
  open_to_running({.nodes = 2});
  const TaskId bad = submit_to(0);
  const TaskId running = submit_to(1);
  const TaskId third = submit();  // waits
  answer_with(0, bad, wire::TaskStatus::not_begun);
  effects.expect_nothing_else();  // both wait for the other node
  complete(1, running);
  EXPECT_EQ(effects.take_message<wire::RunTask>(kSecond).task, bad);
  const Time back = now + 30s;
  while (next_deadline(state) < back) advance_alive();
  EXPECT_FALSE(state.tasks.find(third)->assigned);
  while (now < back) advance_alive();
  EXPECT_TRUE(state.tasks.find(third)->assigned);
  EXPECT_EQ(state.tasks.find(third)->node, kFirst);
  effects.drop_all();
}

TEST_F(CoreTaskTest, WithoutAnotherNodeOneThatWasSetAsideGetsTasksAgain) {
  open_to_running({.nodes = 2});
  const TaskId bad = submit_to(0);
  const TaskId running = submit_to(1);
  answer_with(0, bad, wire::TaskStatus::not_begun);
  lose(1);
  EXPECT_EQ(effects.take_message<wire::RunTask>(kFirst).task, running);
  effects.drop_all();
}

TEST_F(CoreTaskTest, ANodeThatFailsWhatOthersCompleteGetsNoneForAWhile) {
  open_to_running({.nodes = 2});
  for (int calls = 1;; ++calls) {
    ASSERT_LT(calls, 20);
    const TaskId good = submit_to(0);
    const TaskId bad = submit_to(1);
    answer_with(1, bad, wire::TaskStatus::raised);
    const bool blamed = state.tasks.on(kSecond).set_aside;
    if (blamed) {
      EXPECT_GT(calls, 5);
      EXPECT_THAT(effects.take_event<Notice>().message, HasSubstr("node 1"));
    }
    take_outcome(bad);
    complete(0, good);
    if (blamed) break;
  }
  submit_to(0);
  for (const Duration pause : {1s, 2s, 4s}) {
    const TaskId waiting = submit();
    effects.expect_nothing_else();
    const Time back = now + pause;
    while (now < back) advance_alive();
    EXPECT_EQ(effects.take_message<wire::RunTask>(kSecond).task, waiting);
    answer_with(1, waiting, wire::TaskStatus::worker_died);
    take_outcome(waiting);
  }
}

TEST_F(CoreTaskTest, CallsThatFailEverywhereSetNoNodeAside) {
  open_to_running({.nodes = 2});
  const auto fail_on = [&](std::uint32_t node, TaskId id) {
    answer_with(node, id, wire::TaskStatus::raised);
    take_outcome(id);
  };
  const TaskId bad = submit_to(0);
  const TaskId good = submit_to(1);
  fail_on(0, bad);
  complete(1, good);
  for (int calls = 0; calls < 100; ++calls) {
    for (const std::uint32_t node : {1U, 0U}) fail_on(node, submit_to(node));
  }
}

TEST_F(CoreTaskTest, CallsOfOneNodeAloneDoNotSetItAside) {
  open_to_running({.nodes = 2});
  for (int calls = 0; calls < 30; ++calls) {
    const TaskId good = submit_to(0, pinned_to(task(), kFirst));
    const TaskId bad = submit_to(1, pinned_to(task(), kSecond));
    answer_with(1, bad, wire::TaskStatus::raised);
    take_outcome(bad);
    complete(0, good);
  }
  submit_to(0);
  submit_to(1);
}

TEST_F(CoreTaskTest, WhatMustRunOnANodeEndsWhenItCannotBeginThere) {
  open_to_running({.nodes = 2});
  const TaskId id = submit(pinned_to(task(), kFirst));
  effects.take_message<wire::RunTask>(kFirst);
  answer_with(0, id, wire::TaskStatus::not_begun);
  EXPECT_FALSE(take_outcome(id).begun);
}

TEST_F(CoreTaskTest, SpreadsOverNodesBeforeItFillsThem) {
  open_to_running({.nodes = 3, .concurrency = 2});
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t node = 0; node < 3; ++node) submit_to(node);
  }
  submit();  // all are full
}

TEST_F(CoreTaskTest, TheFirstFreeSlotTakesTheOldestTask) {
  open_to_running({.nodes = 2});
  const TaskId first = submit_to(0);
  const TaskId second = submit_to(1);
  const TaskId third = submit();
  const TaskId fourth = submit();
  effects.expect_nothing_else();
  complete(1, second);
  EXPECT_EQ(effects.take_message<wire::RunTask>(kSecond).task, third);
  complete(0, first);
  EXPECT_EQ(effects.take_message<wire::RunTask>(kFirst).task, fourth);
}

TEST_F(CoreTaskTest, FunctionBodyGoesOncePerMachine) {
  open_to_running({.nodes = 2, .concurrency = 2});
  const auto body_sent = [&](NodeId node) {
    submit();
    return !effects.take_message<wire::RunTask>(node).body.empty();
  };
  EXPECT_TRUE(body_sent(kFirst));
  EXPECT_TRUE(body_sent(kSecond));
  EXPECT_FALSE(body_sent(kFirst));
  lose(0);
  effects.drop_all();  // its two tasks: one is with node 1 now, one waits
  on_terminated(state, effects, now, {});
  on_provisioned(state, effects, now, kFirst, 1, std::vector{machine(0, 2)});
  join(0);
  effects.drop_all();
  receive(0, wire::Ready{});
  effects.drop_events();
  const auto run = effects.take_message<wire::RunTask>(kFirst);
  EXPECT_FALSE(run.body.empty());
  EXPECT_EQ(run.attempt, 2U);
}

TEST_F(CoreTaskTest, FunctionsThatNoTaskNeedsAreDropped) {
  open_to_bootstrapping();
  state.options.max_kept_function_bytes = 0;
  receive(0, wire::Ready{});
  effects.drop_all();
  const auto call_of = [&](std::uint8_t number, std::uint64_t blob_id = 0) {
    wire::Call call = task();
    wire::FunctionBody other = *function;
    other.id.value[0] = number;
    if (blob_id != 0) other.bytes = wire::blob_buffer(blob(blob_id), 0, 100'000);
    call.function = std::make_shared<const wire::FunctionBody>(std::move(other));
    return call;
  };
  const TaskId first = submit(call_of(1, 7));
  EXPECT_FALSE(effects.take_message<wire::RunTask>(kFirst).body.empty());
  const TaskId second = submit(pinned_to(call_of(2), kFirst));
  EXPECT_FALSE(effects.take_message<wire::RunTask>(kFirst).body.empty());
  effects.expect_nothing_else();  // the first runs still
  complete(0, first);
  const TaskId third = submit(pinned_to(call_of(3), kFirst));
  FunctionId dropped;
  dropped.value = call_of(1).function->id.value;
  EXPECT_EQ(effects.take_message<wire::DropFunctions>(kFirst).functions, std::vector{dropped});
  EXPECT_EQ(effects.take_message<wire::DropBlobs>(kFirst).blobs, std::vector{BlobId{7}});
  effects.take_message<wire::RunTask>(kFirst);
  complete(0, third);
  complete(0, second);
  // It comes again when it is called again.
  submit(call_of(1, 8));
  EXPECT_EQ(effects.take_message<wire::DropFunctions>(kFirst).functions.size(), 2U);
  EXPECT_EQ(effects.take_message<wire::RunTask>(kFirst).body.blob.id, BlobId{8});
}

TEST_F(CoreTaskTest, NothingIsTakenByAClosedPool) {
  open_to_running();
  on_close(state, effects, now);
  effects.drop_all();
  const TaskId id = submit();
  EXPECT_EQ(take_outcome(id).error.kind, ErrorKind::cancelled);
}

// -------------------------------------------------------------------------------------- pinned

TEST_F(CoreTaskTest, PinnedTaskGoesToItsNodeEvenWhenThatIsBusy) {
  open_to_running({.nodes = 2});
  submit_to(0);
  submit(pinned_to(task(), kFirst, 0));
  const auto run = effects.take_message<wire::RunTask>(kFirst);
  EXPECT_EQ(run.worker, 0U);
}

TEST_F(CoreTaskTest, TasksThatWaitForOneWorkerTakeOneSlotOnly) {
  open_to_running({.nodes = 2, .concurrency = 2});
  const TaskId running = submit_to(0, pinned_to(task(), kFirst));
  submit_to(0, pinned_to(task(), kFirst));
  submit_to(0);
  submit_to(1);
  submit_to(1);
  submit();  // all slots are taken
  effects.expect_nothing_else();
  complete(0, running);
  effects.expect_nothing_else();  // the other one runs now
}

TEST_F(CoreTaskTest, TasksOfSeveralWorkersTakeASlotEach) {
  open_to_running({.nodes = 1, .concurrency = 1, .workers_per_node = 2});
  submit_to(0, pinned_to(task(), kFirst, 0));
  submit_to(0, pinned_to(task(), kFirst, 1));
  submit();
  effects.expect_nothing_else();
}

TEST_F(CoreTaskTest, PinnedTaskWaitsForItsNode) {
  open_to_running({.nodes = 2});
  lose(1);
  effects.drop_all();
  const TaskId id = submit(pinned_to(task(), kSecond));
  const TaskId dropped = submit(pinned_to(task(), kSecond));
  effects.expect_nothing_else();
  on_cancel(state, effects, now, dropped);
  EXPECT_EQ(take_outcome(dropped).error.kind, ErrorKind::cancelled);
  on_terminated(state, effects, now, {});
  replace(1, 2);
  const auto run = effects.take_message<wire::RunTask>(kSecond);
  EXPECT_EQ(run.task, id);
  EXPECT_EQ(run.attempt, 1U);  // it never ran
}

TEST_F(CoreTaskTest, PinnedTaskReturnsToItsNode) {
  open_to_running({.nodes = 2});
  const TaskId id = submit_to(1, pinned_to(task(), kSecond));
  lose(1);
  effects.drop_all();
  on_terminated(state, effects, now, {});
  replace(1, 2);
  const auto run = effects.take_message<wire::RunTask>(kSecond);
  EXPECT_EQ(run.task, id);
  EXPECT_EQ(run.attempt, 2U);
}

TEST_F(CoreTaskTest, PinnedTasksThatCannotBeginYetKeepTheirAttempts) {
  open_to_running({.nodes = 2});
  const TaskId first = submit_to(1, pinned_to(task(), kSecond, std::nullopt));
  const TaskId second = submit(pinned_to(task(), kSecond, std::nullopt));
  effects.expect_nothing_else();
  submit_to(1, pinned_to(task(), kSecond));  // the agent decides when
  lose(1);
  effects.drop_all();
  on_terminated(state, effects, now, {});
  replace(1, 2);
  EXPECT_EQ(effects.take_message<wire::RunTask>(kSecond).attempt, 2U);
  const auto again = effects.take_message<wire::RunTask>(kSecond);
  EXPECT_EQ(again.task, first);
  EXPECT_EQ(again.attempt, 2U);
  effects.expect_nothing_else();
  complete(1, first);
  const auto run = effects.take_message<wire::RunTask>(kSecond);
  EXPECT_EQ(run.task, second);
  EXPECT_EQ(run.attempt, 1U);
}

TEST_F(CoreTaskTest, PinnedTaskOfANodeThatIsGoneFails) {
  open_to_running({.nodes = 2});
  lose(1);
  on_provisioned(state, effects, now, kSecond, 1, fail(ErrorKind::denied, "forbidden"));
  effects.drop_all();
  const TaskId id = submit(pinned_to(task(), kSecond));
  const wire::Outcome outcome = take_outcome(id);
  EXPECT_EQ(outcome.error.kind, ErrorKind::lost);
  EXPECT_THAT(outcome.error.message, HasSubstr("node 1"));
}

TEST_F(CoreTaskTest, PinnedTasksWaitWhenTheirNodeHasVeryMany) {
  open_to_running({.nodes = 2});
  std::vector<TaskId> given;
  for (std::uint32_t i = 0; i < kMaxTasksGiven; ++i) {
    given.push_back(submit_to(0, pinned_to(task(), kFirst)));
  }
  const TaskId cancelled = submit(pinned_to(task(), kFirst));
  const TaskId next = submit(pinned_to(task(), kFirst));
  const TaskId last = submit(pinned_to(task(), kFirst, std::nullopt));
  effects.expect_nothing_else();
  on_cancel(state, effects, now, cancelled);
  EXPECT_EQ(take_outcome(cancelled).error.kind, ErrorKind::cancelled);

  complete(0, given[0]);
  EXPECT_EQ(effects.take_message<wire::RunTask>(kFirst).task, next);
  effects.expect_nothing_else();
  recall(0);
  receive(0, wire::Recalled{{}});
  effects.expect_nothing_else();
  complete(0, given[1]);
  EXPECT_EQ(effects.take_message<wire::RunTask>(kFirst).task, last);
}

// A task pinned to a node and not to a worker is in the agent's common queue, and may be recalled.
TEST_F(CoreTaskTest, PinnedTaskThatIsRecalledGoesBack) {
  open_to_running({.nodes = 2});
  run_on(0, 2ms);  // two may be sent ahead
  const TaskId running = submit_to(0);
  const TaskId id = submit_to(0, pinned_to(task(), kFirst, std::nullopt));
  recall(0);
  receive(0, wire::Recalled{{id}});
  EXPECT_EQ(effects.take_message<wire::RunTask>(kFirst).task, id);
  complete(0, running);
}

// -------------------------------------------------------------------------- prefetch and recall

TEST_F(CoreTaskTest, ANodeThatHasCaughtUpByItselfIsNotRecalledFrom) {
  open_to_running();
  std::vector<TaskId> given;
  for (int i = 0; i < 3; ++i) given.push_back(submit_to(0, pinned_to(task(), kFirst)));
  for (const TaskId id : given) {
    complete(0, id, 1s);
  }
  if (state.tasks.deadline() != kNever) advance();
  effects.expect_nothing_else();
}

TEST_F(CoreTaskTest, LongTasksAreNotSentAhead) {
  open_to_running();
  const TaskId first = submit_to(0);
  submit();
  submit();
  complete(0, first, 1s);
  effects.take_message<wire::RunTask>(kFirst);
}

TEST_F(CoreTaskTest, ShortTasksAreSentAheadAsFarAsTheirWorkGoes) {
  open_to_running();
  const TaskId first = submit_to(0);
  for (int i = 0; i < 10; ++i) submit();
  complete(0, first, 1ms);
  for (int i = 0; i < 1 + kPrefetchWork / 1ms; ++i) effects.take_message<wire::RunTask>(kFirst);
}

// Each answer takes so much longer than the run.
constexpr Duration kFarWay = 60ms;

TEST_F(CoreTaskTest, CallsAreSentAheadAsFarAsTheWayIsLong) {
  open_to_running();
  for (int i = 0; i < 9; ++i) run_far_on(0, 20ms, kFarWay);
  submit_to(0);
  for (int i = 0; i < (kPrefetchWork + kFarWay) / 20ms; ++i) submit_to(0);
  submit();
}

TEST_F(CoreTaskTest, CallsMuchLongerThanTheWayAreNotSentAhead) {
  open_to_running();
  for (int i = 0; i < 9; ++i) run_far_on(0, 1s, kFarWay);
  submit_to(0);
  submit();
}

TEST_F(CoreTaskTest, AShortWayChangesNothing) {
  open_to_running();
  for (int i = 0; i < 9; ++i) run_far_on(0, 3ms, kPrefetchWork);
  submit_to(0);
  submit_to(0);
  submit();
}

// Processes load their modules, and a machine may be busy for a moment.
TEST_F(CoreTaskTest, OfTheTimesThatAnswersTakeTheShortestCounts) {
  open_to_running();
  for (int i = 0; i < 8; ++i) run_far_on(0, 20ms, 500ms);
  run_far_on(0, 20ms, 1ms);
  submit_to(0);
  submit();
}

TEST_F(CoreTaskTest, AFewAnswersSayNothingAboutTheWay) {
  open_to_running();
  for (int i = 0; i < 8; ++i) run_far_on(0, 20ms, kFarWay);
  submit_to(0);
  submit();
}

TEST_F(CoreTaskTest, CallsWithLargeDataSayNothingAboutTheWay) {
  open_to_running();
  for (std::uint64_t i = 1; i <= 20; ++i) {
    const TaskId id = submit_to(0, with_blobs(task(), {i}));
    now += kFarWay + 20ms;
    answer(0, id, 20ms);
    effects.take_message<wire::DropBlobs>(kFirst);
    take_outcome(id);
  }
  submit_to(0);
  submit();
}

TEST_F(CoreTaskTest, NoWayCountsAsLongerThanTheLimit) {
  open_to_running();
  for (int i = 0; i < 9; ++i) run_far_on(0, 500ms, 5s);
  submit_to(0);
  for (int i = 0; i < kMaxWay / 500ms; ++i) submit_to(0);
  submit();
}

TEST_F(CoreTaskTest, WhatWasSentALongWayAheadIsRecalledForAnIdleNode) {
  open_to_running({.nodes = 2});
  for (int i = 0; i < 9; ++i) run_far_on(0, 50ms, kFarWay);
  submit_to(0);
  const TaskId other = submit_to(1);
  const TaskId ahead = submit_to(0);
  complete(1, other, 50ms);
  ASSERT_NE(state.tasks.deadline(), kNever);
  advance();
  EXPECT_EQ(effects.take_message<wire::RecallTasks>(kFirst).count, 1U);
  receive(0, wire::Recalled{{ahead}});
  EXPECT_EQ(effects.take_message<wire::RunTask>(kSecond).task, ahead);
}

TEST_F(CoreTaskTest, PrefetchIsBounded) {
  open_to_running();
  const TaskId first = submit_to(0);
  for (int i = 0; i < 1000; ++i) submit();
  complete(0, first, 0ns);
  for (std::uint32_t i = 0; i < 1 + kMaxPrefetchPerSlot; ++i) {
    effects.take_message<wire::RunTask>(kFirst);
  }
}

TEST_F(CoreTaskTest, OneLongTaskEndsTheSendingAhead) {
  open_to_running();
  for (int i = 0; i < 3; ++i) {
    run_on(0, 1us);
  }
  run_on(0, 1s);
  submit_to(0);
  submit();
}

// How long a task would have run is not known when it was not let to its end.
TEST_F(CoreTaskTest, TasksThatWereEndedSayNothingAboutRunTimes) {
  open_to_running();
  for (const wire::TaskStatus status :
       {wire::TaskStatus::worker_died, wire::TaskStatus::cancelled, wire::TaskStatus::timed_out}) {
    const TaskId id = submit_to(0);
    answer_with(0, id, status);
    take_outcome(id);
  }
  submit_to(0);
  submit();
}

TEST_F(CoreTaskTest, ACallerThatWaitsStaysOnTheWarmNode) {
  open_to_running({.nodes = 3});
  run_on(0, 20ms);
  run_on(0, 20ms);
  submit_to(0);
  submit_to(1);  // those that run together are spread
  submit_to(2);
}

TEST_F(CoreTaskTest, ANodeThatFailedACallGetsTheNextOneLast) {
  for (const wire::TaskStatus status : {wire::TaskStatus::raised, wire::TaskStatus::worker_died}) {
    open_to_running({.nodes = 3});
    const TaskId first = submit_to(0);
    answer_with(0, first, status);
    take_outcome(first);
    submit_to(1);
    submit_to(2);
    submit_to(0);
  }
}

TEST_F(CoreTaskTest, IdleNodeMakesAnotherGiveBack) {
  open_to_running({.nodes = 2});
  run_on(0, 2ms);  // two may be sent ahead
  const TaskId running = submit_to(0);
  const TaskId other = submit_to(1);
  const TaskId ahead = submit_to(0);
  const TaskId next = submit_to(1);
  const TaskId last = submit_to(0);
  const TaskId final = submit_to(1);
  complete(1, other, 2ms);
  EXPECT_EQ(state.tasks.deadline(), kNever);  // node 1 is busy still
  complete(1, next, 2ms);
  EXPECT_EQ(state.tasks.deadline(), kNever);
  complete(1, final, 2ms);
  ASSERT_NE(state.tasks.deadline(), kNever);
  advance();
  EXPECT_EQ(effects.take_message<wire::RecallTasks>(kFirst).count, 2U);
  submit_to(1);
  receive(0, wire::Recalled{{last, ahead}});
  const auto run = effects.take_message<wire::RunTask>(kSecond);
  EXPECT_EQ(run.task, ahead);  // the older one first
  EXPECT_EQ(run.attempt, 1U);  // nobody has seen it
  EXPECT_EQ(effects.take_message<wire::RunTask>(kFirst).task, last);
  complete(0, running, 2ms);
}

// An agent that has shut down is not asked for anything.
TEST_F(CoreTaskTest, NothingIsRecalledOnceThePoolCloses) {
  open_to_running({.nodes = 2});
  run_on(0, 2ms);
  submit_to(0);
  const TaskId other = submit_to(1);
  submit_to(0);
  complete(1, other, 2ms);
  ASSERT_NE(state.tasks.deadline(), kNever);
  on_close(state, effects, now);
  EXPECT_EQ(state.tasks.deadline(), kNever);
  effects.drop_all();
}

TEST_F(CoreTaskTest, NothingIsGivenToANodeWhileItGivesBack) {
  open_to_running({.nodes = 2});
  run_on(0, 4ms);
  submit_to(0);
  const TaskId other = submit_to(1);
  const TaskId ahead = submit_to(0);
  const TaskId next = submit_to(1);
  complete(1, other, 4ms);
  complete(1, next, 4ms);
  advance();
  effects.take_message<wire::RecallTasks>(kFirst);
  submit_to(1);
  submit_to(1);
  submit();  // node 0 would have had room
  effects.expect_nothing_else();
  receive(0, wire::Recalled{{ahead}});
  EXPECT_EQ(effects.take_message<wire::RunTask>(kFirst).task, ahead);
}

// What was behind a long task in the worker's window comes back to the agent's queue later: it is
// asked for again, but less and less often.
TEST_F(CoreTaskTest, EmptyAnswersAreAskedForAgainMoreAndMoreSlowly) {
  open_to_running({.nodes = 2});
  run_on(0, 4ms);
  submit_to(0);
  const TaskId other = submit_to(1);
  const TaskId ahead = submit_to(0);
  const TaskId next = submit_to(1);
  complete(1, other, 4ms);
  complete(1, next, 4ms);
  const Time began = now;
  int asked = 0;
  while (now < began + 60s || !state.tasks.on(kFirst).recalling) {
    if (state.tasks.on(kFirst).recalling) receive(0, wire::Recalled{});
    effects.expect_nothing_else();
    const Time recall_at = state.tasks.deadline();
    ASSERT_NE(recall_at, kNever);
    advance_alive();
    if (now < recall_at) continue;
    effects.take_message<wire::RecallTasks>(kFirst);
    ++asked;
  }
  EXPECT_GT(asked, 30);
  EXPECT_LT(asked, 100);
  receive(0, wire::Recalled{{ahead}});
  EXPECT_EQ(effects.take_message<wire::RunTask>(kSecond).task, ahead);
}

// ------------------------------------------------------------------------------------ cancelling

TEST_F(CoreTaskTest, WaitingTaskIsCancelledAtOnce) {
  open_to_running();
  const TaskId running = submit_to(0);
  const TaskId waiting = submit();
  const TaskId next = submit();
  on_cancel(state, effects, now, waiting);
  EXPECT_EQ(take_outcome(waiting).error.kind, ErrorKind::cancelled);
  on_cancel(state, effects, now, waiting);
  complete(0, running);
  EXPECT_EQ(effects.take_message<wire::RunTask>(kFirst).task, next);
}

TEST_F(CoreTaskTest, RunningTaskIsCancelledByItsNode) {
  open_to_running();
  const TaskId id = submit_to(0);
  on_cancel(state, effects, now, id);
  EXPECT_EQ(effects.take_message<wire::CancelTask>(kFirst).task, id);
  on_cancel(state, effects, now, id);
  effects.expect_nothing_else();
  answer_with(0, id, wire::TaskStatus::cancelled);
  EXPECT_EQ(take_outcome(id).error.kind, ErrorKind::cancelled);
  EXPECT_EQ(state.tasks.on(kFirst).done.tasks, 1U);
  EXPECT_EQ(state.tasks.on(kFirst).done.failed, 0U) << "nobody wanted it any more";
}

TEST_F(CoreTaskTest, TaskThatEndedBeforeTheCancelArrivedHasItsResult) {
  open_to_running();
  const TaskId id = submit_to(0);
  on_cancel(state, effects, now, id);
  effects.drop_all();
  answer(0, id);
  EXPECT_EQ(take_outcome(id).status, wire::OutcomeStatus::ok);
}

TEST_F(CoreTaskTest, CancelThatIsNeverConfirmedIsAnsweredByTheEngine) {
  open_to_running();
  const TaskId id = submit_to(0, with_blobs(task(), {9}));
  on_cancel(state, effects, now, id);
  effects.drop_all();
  const Time end = now + kCancelBackstop;
  now = end - 1s;
  receive(0, wire::Heartbeat{});
  advance_to(end);
  EXPECT_EQ(effects.take<RetainBlob>().blob.id, BlobId{9});
  effects.take_message<wire::DropBlobs>(kFirst);
  EXPECT_THAT(take_outcome(id).error.message, HasSubstr("did not confirm"));
  submit();  // the slot is not free yet
  effects.expect_nothing_else();
  answer(0, id);  // the late word frees it, and nobody is answered twice
  effects.take_message<wire::RunTask>(kFirst);
}

TEST_F(CoreTaskTest, CancelledTaskThatIsRecalledHasEnded) {
  open_to_running({.nodes = 2});
  const TaskId id = submit_to(0, pinned_to(task(), kFirst, std::nullopt));
  on_cancel(state, effects, now, id);
  effects.drop_all();
  recall(0);
  receive(0, wire::Recalled{{id}});
  EXPECT_EQ(take_outcome(id).error.kind, ErrorKind::cancelled);
}

TEST_F(CoreTaskTest, CancelledTaskOfALostNodeHasEnded) {
  open_to_running();
  const TaskId id = submit_to(0);
  on_cancel(state, effects, now, id);
  effects.drop_all();
  lose(0);
  EXPECT_EQ(take_outcome(id).error.kind, ErrorKind::cancelled);
  effects.drop_all();
}

// ---------------------------------------------------------------------------------- lost nodes

TEST_F(CoreTaskTest, TasksOfALostNodeRunElsewhereInTheirOrder) {
  open_to_running({.nodes = 2, .concurrency = 2});
  const TaskId first = submit_to(0);
  const TaskId second = submit_to(1);
  const TaskId third = submit_to(0);
  const TaskId fourth = submit_to(1);
  const TaskId waiting = submit();
  lose(0);
  effects.drop_all();
  complete(1, second);
  const auto again = effects.take_message<wire::RunTask>(kSecond);
  EXPECT_EQ(again.task, first);
  EXPECT_EQ(again.attempt, 2U);
  complete(1, fourth);
  EXPECT_EQ(effects.take_message<wire::RunTask>(kSecond).task, third);
  complete(1, first);
  EXPECT_EQ(effects.take_message<wire::RunTask>(kSecond).task, waiting);
}

TEST_F(CoreTaskTest, TaskIsTriedAFewTimesOnly) {
  open_to_running({.nodes = 2});
  const TaskId id = submit_to(0);
  std::uint32_t node = 0;
  for (std::uint32_t attempt = 1; attempt < kMaxAttempts; ++attempt) {
    lose(node);
    node = 1 - node;
    EXPECT_EQ(effects.take_message<wire::RunTask>(NodeId{node}).attempt, attempt + 1);
    effects.drop_events();
    effects.take<Terminate>();
    effects.take<Provision>();
    effects.expect_nothing_else();
    on_terminated(state, effects, now, {});
    replace(1 - node, static_cast<int>(attempt) + 1);
  }
  lose(node, "power cut");
  const wire::Outcome outcome = take_outcome(id);
  EXPECT_EQ(outcome.error.kind, ErrorKind::lost);
  EXPECT_THAT(outcome.error.message, HasSubstr("attempt 4 of 4"));
  EXPECT_THAT(outcome.error.message, HasSubstr("power cut"));
  effects.drop_all();
}

// -------------------------------------------------------------------------------------- streams

TEST_F(CoreTaskTest, StreamDeliversAndTakesCredits) {
  open_to_running();
  wire::Call call = task();
  call.options.stream_window = 4;
  const TaskId id = submit_to(0, call);
  receive(0, wire::StreamItem{id, 1, call.arguments});
  const auto item = effects.take<DeliverItem>();
  EXPECT_EQ(item.task, id);
  EXPECT_EQ(item.item, call.arguments);
  on_item_taken(state, effects, id, 1);
  EXPECT_EQ(effects.take_message<wire::StreamCredit>(kFirst), (wire::StreamCredit{id, 1}));
  complete(0, id);
  on_item_taken(state, effects, id, 1);  // after the end: nobody to tell
}

TEST_F(CoreTaskTest, AStreamEndsWithTheItemThatIsLost) {
  open_to_running();
  wire::Call call = task();
  call.options.stream_window = 4;
  const TaskId id = submit_to(0, call);
  receive(0, wire::StreamItem{id, 1, {}, "it cannot be sent: too large"});
  EXPECT_EQ(effects.take_message<wire::CancelTask>(kFirst), wire::CancelTask{id});
  EXPECT_THAT(take_outcome(id).error.message,
              AllOf(HasSubstr("an item of its stream is lost"), HasSubstr("too large")));
  receive(0, wire::StreamItem{id, 1, call.arguments});  // on its way when the function was stopped
  const TaskId next = submit();
  effects.expect_nothing_else();  // the slot is not free yet
  answer_with(0, id, wire::TaskStatus::cancelled);
  EXPECT_EQ(effects.take_message<wire::RunTask>(kFirst).task, next);
}

TEST_F(CoreTaskTest, StreamThatHasDeliveredIsNotStartedAgain) {
  open_to_running({.nodes = 2});
  wire::Call call = task();
  call.options.stream_window = 1;
  const TaskId id = submit_to(0, call);
  receive(0, wire::StreamItem{id, 1, {}});
  effects.take<DeliverItem>();
  lose(0);
  const wire::Outcome outcome = take_outcome(id);
  EXPECT_EQ(outcome.error.kind, ErrorKind::lost);
  EXPECT_THAT(outcome.error.hint, HasSubstr("stream"));
  effects.drop_all();
}

TEST_F(CoreTaskTest, StreamThatHasNotDeliveredIsStartedAgain) {
  open_to_running({.nodes = 2});
  wire::Call call = task();
  call.options.stream_window = 1;
  const TaskId id = submit_to(0, call);
  lose(0);
  EXPECT_EQ(effects.take_message<wire::RunTask>(kSecond).task, id);
  effects.drop_all();
  receive(0, wire::StreamItem{id, 1, {}});  // of the lost attempt
  receive(1, wire::StreamItem{id, 2, {}});
  effects.take<DeliverItem>();
}

TEST_F(CoreTaskTest, AGroupWaitsForNoReaderAndCountsItsCalls) {
  open_to_running();
  const TaskId id = submit(group_of(task(), 4));
  const auto run = effects.take_message<wire::RunTask>(kFirst);
  EXPECT_TRUE(run.group);
  EXPECT_EQ(run.stream_window, 4U);
  receive(0, wire::StreamItem{id, 1, group_item(2, 0)});
  effects.take<DeliverItem>();
  on_item_taken(state, effects, id, 1);  // no credit
  receive(0, wire::StreamItem{id, 1, group_item(0, 1)});
  effects.take<DeliverItem>();
  complete(0, id);
  EXPECT_EQ(state.tasks.on(kFirst).done.tasks, 3U);  // the fourth was withdrawn
}

TEST_F(CoreTaskTest, AnAgentWithTooManyResultsOfAGroupLosesItsNode) {
  for (const wire::Payload& item :
       {group_item(4, 0), group_item(3, 1), group_item(0, 4), task().arguments}) {
    open_to_running();
    const TaskId id = submit_to(0, group_of(task(), 4));
    receive(0, wire::StreamItem{id, 1, item});
    EXPECT_EQ(effects.take<Disconnect>().node, kFirst);
    effects.drop_all();
  }
}

// ---------------------------------------------------------------------------- broken protocols

TEST_F(CoreTaskTest, AnAgentThatBreaksTheProtocolLosesItsNode) {
  open_to_running({.nodes = 2});
  wire::Call stream = task();
  stream.options.stream_window = 1;
  const TaskId id = submit_to(0, stream);
  receive(0, wire::StreamItem{id, 1, {}});
  effects.take<DeliverItem>();
  receive(0, wire::StreamItem{id, 1, {}});
  EXPECT_EQ(effects.take<Disconnect>().node, kFirst);
  EXPECT_THAT(take_outcome(id).error.message,
              HasSubstr("its agent broke the protocol: more items of task 1 than the 1"));
  effects.drop_all();
  const wire::Message words[] = {wire::TaskResult{.task = id}, wire::Recalled{{id}}, wire::Ready{},
                                 wire::BootstrapStep{"uv"}, wire::Shutdown{}};
  for (const wire::Message& word : words) {
    open_to_running({.nodes = 2});
    receive(1, word);
    EXPECT_EQ(effects.take<Disconnect>().node, kSecond);
    effects.drop_all();
  }
}

}  // namespace
}  // namespace skyward::engine

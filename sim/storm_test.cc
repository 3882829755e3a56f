// A few dozen storms, fast enough for every build; seeds that once found something, by name; and
// proof that the simulation notices when something is wrong.

#include "sim/storm.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/link.h"
#include "sim/simulator.h"
#include "sim/worker_process.h"

namespace skyward::sim {
namespace {

using namespace std::chrono_literals;

StormReport storm(std::uint64_t seed, int nodes = 0, int tasks = 0) {
  SCOPED_TRACE(seed);
  return Storm({.seed = seed, .nodes = nodes, .tasks = tasks}).run();
}

TEST(StormTest, FewDozenSeeds) {
  StormReport sum;
  for (std::uint64_t seed = 1; seed <= 140; ++seed) sum += storm(seed);
  // They were storms.
  EXPECT_GT(sum.answered, 2000);
  EXPECT_GT(sum.machines, 200U);
  EXPECT_GT(sum.retries, 0);
  EXPECT_GT(sum.recalls, 20);
  EXPECT_GT(sum.losses, 100);
  EXPECT_GT(sum.offline, 20);
  EXPECT_GT(sum.breaks, 100);
  EXPECT_GT(sum.notices, 10);
  EXPECT_GT(sum.budgets, 20);
  EXPECT_GT(sum.stops, 5);
  EXPECT_GT(sum.fetches, 3);
  EXPECT_GT(sum.restarts, 1);
  EXPECT_GT(sum.deaths, 1);
  EXPECT_GT(sum.ran_nothing, 3);
}

TEST(StormTest, LaunchesThatAreJobs) {
  StormReport sum;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    sum += Storm({.seed = seed, .jobs = true}).run();
  }
  EXPECT_GT(sum.answered, 1000);
  EXPECT_GT(sum.jobs, 30);
  EXPECT_GT(sum.losses, sum.jobs);
  EXPECT_EQ(sum.notices, 0);
}

TEST(StormTest, TheSameSeedIsTheSameStorm) {
  const StormReport once = storm(7, 3, 50);
  const StormReport again = storm(7, 3, 50);
  EXPECT_EQ(once.steps, again.steps);
  EXPECT_EQ(once.virtual_seconds, again.virtual_seconds);
  EXPECT_EQ(once.starts, again.starts);
}

// A node's task was cancelled while its blob came: the blob came to a halt there, and whoever read
// it from that node waited for ever.
TEST(StormTest, AReaderGivesUpOnASourceThatStandsStill) {
  const StormReport report = storm(1786);
  EXPECT_GT(report.stalls, 0);
  EXPECT_GT(report.answered, 0);
}

// Hundreds of processes that started in one turn of an agent's loop kept it from saying that it
// lives.
TEST(StormTest, AWideNodeIsNotTakenForDead) { EXPECT_GT(storm(75).answered, 200); }

// A task was recalled twice, and its slot's process returned it the next time it got it.
TEST(StormTest, ATaskIsAskedBackOnce) { EXPECT_GT(storm(95).answered, 200); }

// A process that died between two tasks cost the first of those that it had not begun.
TEST(StormTest, AnIdleProcessDiesAlone) { EXPECT_GT(storm(28).answered, 1); }

// --------------------------------------------------------------------------------- the simulator

TEST(WorldTest, EventsHappenInOrderOfTimeAndThenOfTheirMaking) {
  Simulator simulator(1, false);
  const Time began = simulator.now();
  std::vector<std::string> happened;
  simulator.after(2s, [&] { happened.push_back("late"); });
  simulator.after(1s, [&] { happened.push_back("first"); });
  simulator.after(1s, [&] {
    happened.push_back("second");
    simulator.after({}, [&] { happened.push_back("at once"); });
  });
  Simulator::Timer dropped = simulator.after(1s, [&] { happened.push_back("never"); });
  simulator.cancel(dropped);
  EXPECT_EQ(dropped, Simulator::kNoTimer);
  simulator.cancel(dropped);
  while (simulator.step()) {
  }
  EXPECT_EQ(happened, (std::vector<std::string>{"first", "second", "at once", "late"}));
  EXPECT_EQ(simulator.now(), began + 2s);
}

TEST(WorldDeathTest, TimeThatStandsStillIsNoticed) {
  Simulator simulator(1, false);
  std::function<void()> again = [&] { simulator.after({}, [&] { again(); }); };
  again();
  EXPECT_DEATH(while (simulator.step()){}, "time stands still");
}

// -------------------------------------------------------------------------------------- the link

class LinkTest : public testing::TestWithParam<int> {
 protected:
  static wire::Message line(int number) {
    return wire::Output{{{.task = TaskId{static_cast<std::uint64_t>(number)}}}};
  }
  static int number_of(const wire::Message& message) {
    return static_cast<int>(std::get<wire::Output>(message).lines.at(0).task.value);
  }
};

TEST_P(LinkTest, WhateverHappensToConnectionsMessagesArriveOnceAndInOrder) {
  Simulator simulator(static_cast<std::uint64_t>(GetParam()), false);
  NetworkParameters parameters;
  parameters.far = true;
  parameters.break_mean = 2s;
  parameters.duplicate = 0.2;
  parameters.reorder = 0.1;
  parameters.codec = true;
  int engine_got = 0;
  int agent_got = 0;
  SimulatedLink::Events events;
  events.on_joined = [] {};
  events.on_engine_message = [&](const wire::Message& m) { EXPECT_EQ(number_of(m), engine_got++); };
  events.on_agent_message = [&](const wire::Message& m) { EXPECT_EQ(number_of(m), agent_got++); };
  events.on_offline = [] {};
  events.on_lost = [](const Error& why) { FAIL() << why.message; };
  events.on_agent_heard = [] {};
  events.on_cut_off = [] { FAIL() << "cut off"; };
  events.on_start_agent = [] {};
  events.is_on = [] { return true; };
  SimulatedLink link(simulator, parameters, "link", SimulatedLink::Door::open, std::move(events));
  const int count = 1000;
  for (int i = 0; i < count; ++i) {
    simulator.after(i * 20ms, [&link, i] { link.engine_sends(line(i)); });
    simulator.after(i * 20ms, [&link, i] { link.agent_sends(line(i)); });
  }
  const Time end = simulator.now() + 10min;
  while (simulator.now() < end && (engine_got < count || agent_got < count))
    ASSERT_TRUE(simulator.step());
  EXPECT_EQ(engine_got, count);
  EXPECT_EQ(agent_got, count);
}

INSTANTIATE_TEST_SUITE_P(Seeds, LinkTest, testing::Range(1, 9));

TEST(UserDeathTest, AnAnswerTwiceIsNoticed) {
  Simulator simulator(1, false);
  StormParameters parameters;
  parameters.tasks = 1;
  TaskId asked;
  User user(simulator, parameters,
            {.submit = [&](TaskId task, const wire::Call&) { asked = task; },
             .cancel = [](TaskId) {},
             .item_taken = [](TaskId, std::uint32_t) {},
             .close = [] {}});
  user.opened({});
  simulator.step();
  ASSERT_EQ(asked, TaskId{1});
  EXPECT_DEATH(user.complete(asked, {}), "task 1 failed");
  EXPECT_DEATH(user.complete(TaskId{2}, {}), "answered twice");
  EXPECT_DEATH(user.closed(), "1 tasks are not answered");
}

// A process ends between two tasks, with two more in its pipe: neither has begun.
TEST(SimulatedWorker, OfTwoUnreadTasksNoneHasBegun) {
  Simulator simulator(1, false);
  Journal journal;
  std::optional<TaskId> begun;
  SimulatedWorker process(simulator, journal, NodeParameters{}, "m", 0, "",
                          {.on_hello = [] {},
                           .on_message = [](const wire::WorkerMessage&) {},
                           .on_output = [](const std::vector<wire::OutputLine>&) {},
                           .on_exit = [&](const agent::WorkerExit& exit) { begun = exit.begun; }});
  for (const TaskId task : {TaskId{1}, TaskId{2}}) {
    wire::RunTask run;
    run.task = task;
    process.run({.task = run, .body = {}});
  }
  process.kill();
  while (simulator.step()) {
  }
  EXPECT_EQ(begun, TaskId{0});
}

TEST(JournalDeathTest, ATaskThatBeginsTwiceIsNoticed) {
  Journal journal;
  const BeginningPlace ended{.machine = "m", .runs = std::make_shared<bool>(false)};
  journal.begun(TaskId{1}, 1, ended);
  journal.begun(TaskId{1}, 2, ended);
  EXPECT_DEATH(journal.begun(TaskId{1}, 2, ended), "begins twice");
}

TEST(JournalDeathTest, ATaskThatBeginsWhileItRunsOnASoundMachineIsNoticed) {
  Journal journal;
  const BeginningPlace place{.machine = "m", .runs = std::make_shared<bool>(true)};
  journal.begun(TaskId{1}, 1, place);
  EXPECT_DEATH(journal.begun(TaskId{1}, 2, {.machine = "n", .runs = place.runs}), "1 is on m");
  journal.lost("m");
  journal.begun(TaskId{1}, 2, {.machine = "n", .runs = place.runs});
}

// A cloud whose launches are jobs.
class JobTest : public testing::Test {
 protected:
  void run() {
    while (simulator_.step()) {
    }
  }
  // With "i-0", "i-1" and "i-2", which were launched together.
  std::unique_ptr<SimulatedCloud> open(JobParameters jobs) {
    StormParameters parameters;
    parameters.jobs = jobs;
    auto cloud = std::make_unique<SimulatedCloud>(simulator_, journal_, parameters);
    Offer offer;
    offer.instance_type = "virtual";
    cloud->prepare(offer, [](const Result<Cluster>&) {});
    run();
    cloud->provision(3, [](const Result<std::vector<Instance>>& sold) { ASSERT_TRUE(sold); });
    while (cloud->sold() < 3 && simulator_.step()) {
    }
    return cloud;
  }
  void terminate(SimulatedCloud& cloud, const InstanceId& id) {
    bool done = false;
    cloud.terminate({id}, [&](const Status& status) { done = status.has_value(); });
    while (!done && simulator_.step()) {
    }
  }

  Simulator simulator_{1, false};
  Journal journal_;
};

TEST_F(JobTest, AReleasedNodeStaysInItsJobUntilTheOthersAreReleased) {
  const auto cloud = open({.used = true, .stays = 1});
  terminate(*cloud, "i-1");
  EXPECT_TRUE(cloud->machine("i-1").is_on());
  terminate(*cloud, "i-0");
  terminate(*cloud, "i-2");
  for (const char* id : {"i-0", "i-1", "i-2"}) EXPECT_FALSE(cloud->machine(id).is_on()) << id;
}

TEST_F(JobTest, OnlyTheFirstNodeCannotLeaveAJobThatShrinks) {
  const auto cloud = open({.used = true});
  terminate(*cloud, "i-0");
  terminate(*cloud, "i-1");
  EXPECT_TRUE(cloud->machine("i-0").is_on());
  EXPECT_FALSE(cloud->machine("i-1").is_on());
}

TEST_F(JobTest, AllNodesArePreemptedTogether) {
  const auto cloud = open({.used = true, .preempt_mean = 60s, .grace_max = 5s});
  run();
  for (const char* id : {"i-0", "i-1", "i-2"}) EXPECT_FALSE(cloud->machine(id).is_on()) << id;
  EXPECT_EQ(cloud->jobs_preempted(), 1);
}

TEST_F(JobTest, AMachineEndsWhileALaunchWaitsInTheQueue) {
  const auto cloud = open({.used = true, .queues = 1, .queue_max = 2h});
  bool launched = false;
  cloud->provision(1, [&](const Result<std::vector<Instance>>&) { launched = true; });
  terminate(*cloud, "i-1");
  EXPECT_FALSE(launched);
  cloud->stop_launching();
  const Time stopped = simulator_.now();
  while (!launched && simulator_.step()) {
  }
  EXPECT_LE(simulator_.now(), stopped + 10s);
  EXPECT_EQ(cloud->sold(), 3U);
}

TEST(CloudDeathTest, NothingIsForgiven) {
  Simulator simulator(1, false);
  Journal journal;
  SimulatedCloud cloud(simulator, journal, StormParameters{});
  const auto sold = [](const Result<std::vector<Instance>>&) {};
  EXPECT_DEATH(cloud.provision(1, sold), "prepared_");
  Offer offer;
  offer.instance_type = "virtual";
  cloud.prepare(offer, [](const Result<Cluster>&) {});
  EXPECT_DEATH(
      {
        cloud.terminate({"i-7"}, [](const Status&) {});
        while (simulator.step()) {
        }
      },
      "i-7 was never sold");
  while (simulator.step()) {
  }
  cloud.provision(1, sold);
  while (simulator.step()) {
  }
  EXPECT_DEATH(cloud.check_empty(), "not torn down");
  cloud.terminate({"i-0"}, [](const Status&) {});
  while (simulator.step()) {
  }
  EXPECT_DEATH(
      {
        cloud.terminate({"i-0"}, [](const Status&) {});
        while (simulator.step()) {
        }
      },
      "terminated twice");
  cloud.teardown([](const Status&) {});
  EXPECT_DEATH(
      {
        while (simulator.step()) {
        }
        cloud.provision(1, sold);
      },
      "a verb after teardown");
  while (simulator.step()) {
  }
  cloud.check_empty();
}

}  // namespace
}  // namespace skyward::sim

#include "skyward/provider/slurm/jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "doubles/slurm.h"
#include "skyward/provider/computer_fixture.h"

namespace skyward::provider::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kPool = "slurm-1a2b3c4d";

// A pool's machines at the simulated Slurm, with a real ledger.
class SlurmJobs : public ::testing::Test, public ComputerFixture {
 protected:
  SlurmJobs() {
    EXPECT_TRUE(ledger_->open_pool({.id = kPool, .provider = "slurm"}));
    request_.partition = "low";
    request_.time = 1h;
    request_.script = "#!/bin/sh\n";
  }
  int standing() override { return slurm_.standing(); }

  Jobs jobs() {
    return Jobs(api_, memories_, {.pool = kPool, .owner = "0123abcd", .expires_s = 1'700'009'999},
                {.request = request_, .nodes_there = 3});
  }
  Result<std::vector<MachineStatus>> launch(int count, Duration patience = 300s) {
    Jobs api = jobs();
    return PoolMachines(book_, api)
        .launch({.count = count, .spot = Spot::Never(), .places = {{.type = "low", .spot = false}}},
                fixture_.now + patience);
  }
  Status terminate(const std::vector<std::string>& ids) {
    Jobs api = jobs();
    return PoolMachines(book_, api).terminate(ids, soon());
  }
  Stage stage(const std::string& id) {
    const auto found = jobs().look_up({id}, soon());
    EXPECT_TRUE(found);
    return found && !found->empty() ? found->front().stage : Stage::terminated;
  }
  std::size_t open_entries() { return ledger_->entries(kPool, true)->size(); }
  void advance(Duration time) {
    fixture_.now += time;
    slurm_.advance(fixture_.now);
  }

  bool cannot_cancel_ = false;
  doubles::Slurm slurm_{{"n1", "n2", "n3"}};
  Api api_{
      [this](const Words& words, std::string_view input, Duration) -> Result<io::CommandResult> {
        io::CommandResult out;
        if (cannot_cancel_ && words.front() == "scancel") {
          out.status.code = 1;
          out.err = "scancel: error: slurm_kill_job2() failed Connection timed out";
          return out;
        }
        const doubles::CommandReply reply = slurm_.run(words, input, fixture_.now);
        out.status.code = reply.code;
        out.out = reply.out;
        out.err = reply.err;
        return out;
      },
      {.now = [this] { return fixture_.now; }, .pause = [this](Duration time) { advance(time); }}};
  std::map<std::string, JobMemory> memories_;
  JobRequest request_;
  std::unique_ptr<Ledger> ledger_ = *open_ledger(fixture_.world);
  PoolBook book_{fixture_.world, *ledger_, kPool};

  void TearDown() override { EXPECT_THAT(slurm_.violations, IsEmpty()); }
};

TEST_F(SlurmJobs, ALaunchIsOneJobForAllItsNodes) {
  const auto machines = launch(3);
  ASSERT_TRUE(machines) << machines.error().message;
  ASSERT_THAT(*machines, SizeIs(3));
  ASSERT_THAT(slurm_.jobs, SizeIs(1));
  EXPECT_EQ((*machines)[2].instance.id, "17-2");
  EXPECT_EQ((*machines)[2].instance.private_ip, "n3");
  EXPECT_EQ(open_entries(), 3);
  EXPECT_THAT(slurm_.jobs[0].name, HasSubstr("skyward-1a2b3c4d-0123abcd-"));
}

TEST_F(SlurmJobs, ItsQueueIsNoFailure) {
  slurm_.queue = 4h;
  const auto machines = launch(2, 5h);
  ASSERT_TRUE(machines) << machines.error().message;
  EXPECT_GE(fixture_.now - start_, 4h);
}

TEST_F(SlurmJobs, APoolThatMayNotWaitSoLongLeavesNothingInTheQueue) {
  slurm_.queue = 4h;
  const auto machines = launch(2);
  ASSERT_FALSE(machines);
  EXPECT_EQ(machines.error().kind, ErrorKind::timeout);
  EXPECT_EQ(slurm_.standing(), 0);
  EXPECT_EQ(open_entries(), 0);
}

TEST_F(SlurmJobs, WhoeverStopsWaitingLeavesNothingInTheQueue) {
  slurm_.queue = 4h;
  slurm_.on_request = [this](int number, bool) {
    if (number == 5) fixture_.world.launching.request_stop();
  };
  const auto machines = launch(2, 5h);
  ASSERT_FALSE(machines);
  EXPECT_EQ(machines.error().kind, ErrorKind::cancelled);
  EXPECT_LT(fixture_.now - start_, 1min);
  EXPECT_EQ(slurm_.standing(), 0);
  EXPECT_EQ(open_entries(), 0);
}

// While the laptop sleeps, a job starts, finds nobody and ends, and its record is purged.
TEST_F(SlurmJobs, AJobThatSlurmNoLongerKnowsIsNotWaitedFor) {
  slurm_.queue = 4h;
  slurm_.on_request = [this](int number, bool after) {
    if (number == 4 && after) slurm_.forget(17);
  };
  const auto machines = launch(2, 5h);
  ASSERT_FALSE(machines);
  EXPECT_THAT(machines.error().message, HasSubstr("job 17 is no longer known to Slurm"));
  EXPECT_LT(fixture_.now - start_, 3min);
  EXPECT_EQ(open_entries(), 0);
}

TEST_F(SlurmJobs, OneListingWithoutAJobIsNotItsEnd) {
  slurm_.queue = 1h;
  std::vector<doubles::SlurmJob> all;
  slurm_.on_request = [&](int number, bool after) {
    if (number == 12) std::swap(slurm_.jobs, all);
    EXPECT_TRUE(number != 12 || after || slurm_.jobs.empty());
  };
  const auto machines = launch(2, 5h);
  ASSERT_TRUE(machines) << machines.error().message;
  EXPECT_THAT(slurm_.jobs, SizeIs(1));
}

TEST_F(SlurmJobs, WhatCanNeverStartFailsInsteadOfWaiting) {
  request_.time = 48h;
  const auto too_long = launch(1, 5h);
  ASSERT_FALSE(too_long);
  EXPECT_THAT(too_long.error().message,
              HasSubstr("PartitionTimeLimit: its time exceeds the partition's limit"));
  EXPECT_THAT(too_long.error().hint, HasSubstr("lower timeout="));
  request_.time = 1h;
  const auto too_many = launch(4, 5h);
  ASSERT_FALSE(too_many);
  EXPECT_THAT(too_many.error().message, HasSubstr("PartitionConfig"));
  EXPECT_EQ(slurm_.standing(), 0);
  EXPECT_EQ(open_entries(), 0);
  EXPECT_LT(fixture_.now - start_, 1min);
}

TEST_F(SlurmJobs, ARefusedSubmissionLeavesNothing) {
  request_.partition = "nosuch";
  const auto refused = launch(1);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("Invalid partition name specified"));
  EXPECT_EQ(open_entries(), 0);
  EXPECT_THAT(slurm_.jobs, IsEmpty());
}

TEST_F(SlurmJobs, ANodeIsGoneWhenItsJobWasCancelledAndNotBefore) {
  ASSERT_TRUE(launch(2));
  cannot_cancel_ = true;
  EXPECT_FALSE(terminate({"17-0", "17-1"}));
  EXPECT_EQ(stage("17-0"), Stage::running);
  EXPECT_EQ(open_entries(), 2);
  cannot_cancel_ = false;
  EXPECT_TRUE(terminate({"17-0", "17-1"}));
  EXPECT_EQ(slurm_.standing(), 0);
  EXPECT_EQ(open_entries(), 0);
}

TEST_F(SlurmJobs, AJobWhoseReplyWasLostIsAdopted) {
  slurm_.requests = 1;  // the submission is the second
  slurm_.lose_reply = true;
  slurm_.on_request = [this](int number, bool after) {
    if (number == 2 && after) slurm_.lose_reply = false;
  };
  const auto machines = launch(2);
  ASSERT_TRUE(machines) << machines.error().message;
  EXPECT_THAT(slurm_.jobs, SizeIs(1));
  EXPECT_EQ(open_entries(), 2);
}

TEST_F(SlurmJobs, ALostNodeLeavesTheOthersRunning) {
  ASSERT_TRUE(launch(2));
  slurm_.lose("n2");
  EXPECT_EQ(stage("17-1"), Stage::terminated);
  EXPECT_EQ(stage("17-0"), Stage::running);
  ASSERT_TRUE(terminate({"17-1"}));
  const auto another = launch(1);
  ASSERT_TRUE(another);
  EXPECT_EQ(another->front().instance.private_ip, "n3");
  EXPECT_EQ(slurm_.find(17)->state, "RUNNING");
  ASSERT_TRUE(terminate({"17-0", another->front().instance.id}));
  EXPECT_EQ(slurm_.standing(), 0);
  EXPECT_EQ(open_entries(), 0);
}

// Slurm gives it out again until it notices.
TEST_F(SlurmJobs, ANodeThatFailedIsNotTakenAgainSoon) {
  ASSERT_TRUE(launch(2));
  ASSERT_TRUE(terminate({"17-1"}));
  const auto another = launch(1);
  ASSERT_TRUE(another);
  EXPECT_EQ(another->front().instance.private_ip, "n3");
  ASSERT_TRUE(terminate({"18-0"}));
  EXPECT_EQ(launch(1)->front().instance.private_ip, "n2") << "there is no other left to take";
  ASSERT_TRUE(terminate({"19-0"}));
  advance(11min);
  EXPECT_EQ(launch(1)->front().instance.private_ip, "n2");
}

TEST_F(SlurmJobs, ANodeThatIsReleasedLeavesItsJob) {
  ASSERT_TRUE(launch(3));
  ASSERT_TRUE(terminate({"17-1"}));
  EXPECT_THAT(slurm_.find(17)->nodes, ElementsAre("n1", "n3"));
  EXPECT_EQ(stage("17-2"), Stage::running);
  EXPECT_EQ(open_entries(), 2);
}

TEST_F(SlurmJobs, TheFirstNodeStaysUntilTheOthersGo) {
  ASSERT_TRUE(launch(2));
  ASSERT_TRUE(terminate({"17-0"}));
  EXPECT_THAT(slurm_.find(17)->nodes, ElementsAre("n1", "n2"));
  EXPECT_EQ(stage("17-0"), Stage::terminated) << "for the pool it is gone";
  ASSERT_TRUE(terminate({"17-1"}));
  EXPECT_EQ(slurm_.find(17)->state, "CANCELLED");
  EXPECT_EQ(open_entries(), 0);
}

TEST_F(SlurmJobs, APreemptedJobTakesAllItsNodesWithIt) {
  ASSERT_TRUE(launch(2));
  slurm_.preempt(17);
  const auto found = jobs().look_up({"17-0", "17-1"}, soon());
  ASSERT_THAT(*found, SizeIs(2));
  EXPECT_EQ(found->front().stage, Stage::terminated);
  EXPECT_EQ(found->front().reason, "PREEMPTED");
  EXPECT_TRUE(found->front().capacity);
}

TEST_F(SlurmJobs, AJobThatFailsIsNoLackOfCapacity) {
  ASSERT_TRUE(launch(2));
  for (const auto& [state, capacity] : {std::pair("FAILED", false),
                                        {"CANCELLED", false},
                                        {"TIMEOUT", false},
                                        {"COMPLETING", false},
                                        {"NODE_FAIL", true},
                                        {"BOOT_FAIL", true}}) {
    slurm_.find(17)->state = state;
    const auto found = jobs().look_up({"17-0"}, soon());
    ASSERT_THAT(*found, SizeIs(1)) << state;
    EXPECT_EQ(found->front().reason, state);
    EXPECT_EQ(found->front().capacity, capacity) << state;
    EXPECT_THAT(found->front().message, HasSubstr("job 17 has ended"));
    EXPECT_THAT(found->front().hint, HasSubstr("'scontrol show job 17' and 'sacct -j 17'"));
  }
}

TEST_F(SlurmJobs, ARequeuedJobIsNotTheSameAndIsCancelled) {
  ASSERT_TRUE(launch(2));
  EXPECT_EQ(stage("17-0"), Stage::running);
  slurm_.requeue(17);
  EXPECT_EQ(stage("17-0"), Stage::stopped);
  ASSERT_TRUE(terminate({"17-0"}));
  EXPECT_EQ(slurm_.find(17)->state, "CANCELLED") << "its other node is a new one, too";
}

TEST_F(SlurmJobs, AJobThatRunsAgainIsNotTheSame) {
  ASSERT_TRUE(launch(2));
  slurm_.requeue(17);
  advance(10min);
  ASSERT_EQ(slurm_.find(17)->state, "RUNNING");
  ASSERT_THAT(slurm_.find(17)->nodes, ElementsAre("n1", "n2"));
  EXPECT_EQ(stage("17-0"), Stage::stopped);
  ASSERT_TRUE(terminate({"17-0"}));
  EXPECT_EQ(slurm_.standing(), 0);
}

TEST_F(SlurmJobs, TheEndOfItsTimeEndsAJob) {
  ASSERT_TRUE(launch(1));
  advance(61min);
  EXPECT_EQ(stage("17-0"), Stage::terminated);
  advance(1h);  // Slurm has forgotten it
  ASSERT_TRUE(terminate({"17-0"}));
  EXPECT_EQ(open_entries(), 0);
}

TEST_F(SlurmJobs, AnotherPoolsJobOfTheSameNumberIsLeftAlone) {
  ASSERT_TRUE(launch(1));
  slurm_.find(17)->name = "skyward-99999999-0123abcd-65550000-1234-1";
  ASSERT_TRUE(jobs().terminate({"17-0"}, soon()));
  EXPECT_EQ(slurm_.find(17)->state, "RUNNING");
  slurm_.find(17)->name = "somebody's";
  EXPECT_THAT(*jobs().look_up({"17-0"}, soon()), IsEmpty());
  EXPECT_THAT(*jobs().terminate({"17-0"}, soon()), IsEmpty());
  EXPECT_EQ(slurm_.find(17)->state, "RUNNING");
}

TEST_F(SlurmJobs, AnotherProcessEndsAllOfAJob) {
  ASSERT_TRUE(launch(3));
  ASSERT_TRUE(terminate({"17-1"}));
  std::map<std::string, JobMemory> none;
  Jobs other(api_, none, {.pool = kPool});
  PoolBook book(fixture_.world, *ledger_, kPool);
  ASSERT_TRUE(PoolMachines(book, other).terminate_all(soon()));
  EXPECT_EQ(slurm_.standing(), 0);
  EXPECT_EQ(open_entries(), 0);
}

TEST(SlurmJobStates, AreDecidedFromWordsAlone) {
  const auto stage = [](const char* state, bool has_run, const char* reason = "Priority") {
    const JobMemory memory{.names = {"n1"}};
    return stage_of({.state = state, .reason = reason}, has_run ? &memory : nullptr);
  };
  EXPECT_EQ(stage("PENDING", false), Stage::pending);
  EXPECT_EQ(stage("PENDING", true, "BeginTime"), Stage::stopped);
  EXPECT_EQ(stage("PENDING", false, "InvalidQOS"), Stage::stopped);
  EXPECT_EQ(stage("PENDING", false,
                  "Job's account not known, so it can't use this partition (gpu allows lab)"),
            Stage::stopped);
  EXPECT_EQ(stage("PENDING", false,
                  "Job's QOS not permitted to use this partition (gpu allows high not low)"),
            Stage::stopped);
  EXPECT_EQ(stage("PENDING", false, "QOSMaxCpuPerJobLimit"), Stage::stopped);
  EXPECT_EQ(stage("PENDING", false, "QOSMaxCpuPerUserLimit"), Stage::pending);
  for (const char* never :
       {"launch failed requeued held", "launch_failed_requeued_held", "job requeued in held state",
        "job_requeued_in_held_state", "user env retrieval failed requeued held",
        "JobHoldMaxRequeue", "DependencyNeverSatisfied", "QOSMinGRES", "QOSMaxCpuPerNode"}) {
    EXPECT_EQ(stage("PENDING", false, never), Stage::stopped) << never;
  }
  for (const char* queue : {"Dependency", "ReqNodeNotAvail, UnavailableNodes:held[1-2]"}) {
    EXPECT_EQ(stage("PENDING", false, queue), Stage::pending) << queue;
  }
  EXPECT_EQ(stage("CONFIGURING", false), Stage::pending);
  EXPECT_EQ(stage("RUNNING", false), Stage::running);
  EXPECT_EQ(stage("POWER_UP_NODE", false), Stage::pending);
  EXPECT_EQ(stage("SUSPENDED", true), Stage::stopped);
  EXPECT_EQ(stage("RESV_DEL_HOLD", false), Stage::stopped) << "it is still in the queue";
  for (const char* ended :
       {"COMPLETING", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
        "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL", "REVOKED"}) {
    EXPECT_EQ(stage(ended, true), Stage::terminated) << ended;
  }
}

TEST(SlurmJobNodes, HaveIdsThatAreReadStrictly) {
  EXPECT_EQ(read_job_node("17-2")->job, "17");
  EXPECT_EQ(read_job_node("17-2")->number, 2);
  for (const char* wrong : {"", "17", "-2", "17-", "17--2", "17-02", "a-1", "17-2;rm", "1 7-2"}) {
    EXPECT_FALSE(read_job_node(wrong)) << wrong;
  }
}

TEST(SlurmQueue, IsToldInOneLine) {
  EXPECT_EQ(waiting_text({.nodes = 2, .start = "2026-11-24T12:00:00", .reason = "Priority"}),
            "2 nodes wait in the queue: Priority, expected to start at 2026-11-24T12:00:00");
  EXPECT_EQ(waiting_text({.nodes = 1, .reason = "Resources"}),
            "1 node waits in the queue: Resources");
}

}  // namespace
}  // namespace skyward::provider::slurm

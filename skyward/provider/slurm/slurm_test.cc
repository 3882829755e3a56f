#include "skyward/provider/slurm/slurm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "skyward/provider/slurm/keeper.h"
#include "skyward/provider/slurm/slurm_computer_fixture.h"
#include "skyward/provider/slurm/sweep.h"

namespace skyward::provider::slurm {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::SizeIs;
using ::testing::StartsWith;

class SlurmPool : public ::testing::Test, public SlurmComputer {
 protected:
  void TearDown() override { EXPECT_THAT(slurm_->violations, IsEmpty()); }
  // Two nodes, whose job may wait for as long as any.
  Life open_from_queue(Provider& cloud) {
    const auto offers = cloud.offers(spec_, soon());
    const auto cluster = cloud.prepare(spec_, offers->front(), soon());
    Life life{.cluster = *cluster};
    const auto instances =
        cloud.provision(*cluster, 2, 0, fixture_.now + cloud.capabilities().provision_timeout);
    if (!instances) {
      life.status = std::unexpected(instances.error());
    } else {
      life.instances = *instances;
    }
    return life;
  }
};

TEST_F(SlurmPool, ItsNodesAreThoseOfOneJob) {
  spec_.accelerator = Accelerator{.name = "H100"};
  spec_.accelerator->count = 2;
  spec_.cpus = 4;
  spec_.memory_mb = 4000;
  const auto cloud = provider();
  const auto offers = cloud->offers(spec_, soon());
  ASSERT_TRUE(offers) << offers.error().message;
  ASSERT_THAT(*offers, SizeIs(1));
  EXPECT_EQ(offers->front().instance_type, "low:h100");
  EXPECT_EQ(offers->front().region, "c1");
  EXPECT_EQ(offers->front().accelerator_count, 2) << "what the job takes of the node's four";
  const Life life = open(*cloud);
  ASSERT_TRUE(life.status) << life.status.error().message;
  ASSERT_THAT(life.instances, SizeIs(2));
  EXPECT_THAT(life.cluster.id, StartsWith("slurm-"));
  ASSERT_THAT(slurm_->jobs, SizeIs(1));
  EXPECT_EQ(slurm_->jobs.front().partition, "low");
  EXPECT_EQ(slurm_->jobs.front().limit, 75min) << "the pool's hour, and what its start takes";
  EXPECT_EQ(open_pools().front().expires_s, 0) << "it may have waited for longer";

  const Connection way = cloud->connection(life.cluster, life.instances[1]);
  EXPECT_TRUE(way.shell);
  EXPECT_THAT(way.command, IsSupersetOf({"srun", "--jobid=17", "--nodelist=n2"}));
  const Bootstrap bootstrap = cloud->bootstrap(life.cluster, life.instances[1]);
  EXPECT_THAT(bootstrap.script, StartsWith(claim_script(kKeeperDirectory)));
  EXPECT_EQ(bootstrap.end_command, end_keeper_words(kKeeperDirectory));
  ASSERT_TRUE(cloud->teardown(life.cluster, soon()));
  EXPECT_EQ(slurm_->standing(), 0);
  EXPECT_THAT(open_pools(), IsEmpty());
}

// A shorter job starts earlier, and does not outlive the pool by much.
TEST_F(SlurmPool, AReplacementAsksForTheTimeThatIsLeft) {
  spec_.timeout = 24h;
  slurm_->most_time = 48h;
  const auto [cloud, life] = opened();
  const auto limit_after = [&](Duration awake, Duration asleep) {
    fixture_.now += awake;
    fixture_.asleep += asleep;
    const auto another = cloud->provision(life.cluster, 1, 0, soon());
    EXPECT_TRUE(another) << another.error().message;
    return slurm_->jobs.back().limit;
  };
  EXPECT_EQ(slurm_->jobs.back().limit, 24h);
  EXPECT_EQ(limit_after(20h, 3h), 75min) << "an hour, and what the pool's end takes";
  EXPECT_EQ(limit_after(74min, 0s), 5min) << "at least some minutes";
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(SlurmPool, ALoginNodeIsReachedBySsh) {
  Words command;
  fixture_.world.run_with_input = [&](const io::SpawnOptions& options, Duration,
                                      std::string_view) -> Result<io::CommandResult> {
    command = options.command;
    io::CommandResult out;
    out.status.code = 255;
    out.err = "me@login: Permission denied (publickey).\n";
    return out;
  };
  spec_.provider.settings["login"] = "me@login";
  const auto offers = provider()->offers(spec_, soon());
  ASSERT_FALSE(offers);
  EXPECT_THAT(offers.error().message, HasSubstr("Permission denied (publickey)"));
  ASSERT_GT(command.size(), 3U);
  EXPECT_EQ(command.front(), "ssh");
  EXPECT_EQ(command.back(),
            "env -u SBATCH_CLUSTERS -u SLURM_CLUSTERS sh -c 'printf skyward-user= && id -un && "
            "scontrol show config'");
  spec_.provider.settings["login"] = "-oProxyCommand=x";
  EXPECT_FALSE(make_slurm(spec_.provider, fixture_.world));
}

TEST_F(SlurmPool, WhatItWaitsForIsTold) {
  slurm_->queue = 2h;
  spec_.timeout = 0s;
  const auto cloud = provider();
  const Life life = open_from_queue(*cloud);
  ASSERT_TRUE(life.status) << life.status.error().message;
  ASSERT_FALSE(told_.empty());
  EXPECT_EQ(told_.front(), "Slurm: job 17: 2 nodes wait in the queue: Priority");
  EXPECT_LE(told_.size(), 13U) << "every ten minutes, as long as nothing changes";
  EXPECT_LT(requests(), 260) << "others use the controller, too";
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

// The scheduler's estimate moves all night.
TEST_F(SlurmPool, WhenItMayStartIsToldNowAndThen) {
  slurm_->queue = 2h;
  slurm_->estimates = true;
  spec_.timeout = 0s;
  const auto cloud = provider();
  const Life life = open_from_queue(*cloud);
  ASSERT_TRUE(life.status) << life.status.error().message;
  ASSERT_THAT(told_, SizeIs(::testing::Ge(10U)));
  EXPECT_LE(told_.size(), 13U) << "every ten minutes";
  EXPECT_THAT(told_[0], HasSubstr("Priority, expected to start at 2026-11-24T12:"));
  EXPECT_NE(told_[0], told_[1]) << "with the newest time";
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(SlurmPool, AJobThatHasEndedIsNotConnectedToAgain) {
  spec_.provider.settings["time"] = "30";
  const auto [cloud, life] = opened();
  EXPECT_TRUE(cloud->capabilities().gateway) << "what refuses is the login node";
  EXPECT_EQ(cloud->capabilities().tend_interval, 30s);
  const auto is_limit_told = [&] {
    const Error why =
        cloud->explain(life.instances[0], {ErrorKind::denied, "Slurm job 17 has expired", {}});
    return why.message.contains("time= limits it to 30 min");
  };
  const auto signs = cloud->connection(life.cluster, life.instances[0]).permanent_errors;
  for (const std::string said :
       {"srun: error: Slurm job 17 has expired\n",
        "srun: error: Unable to confirm allocation for job 17: Invalid job id specified\n",
        "srun: error: Unable to create step for job 17: Job/step already completing or "
        "completed\n"}) {
    EXPECT_TRUE(std::ranges::any_of(signs, [&](const std::string& sign) {
      return said.contains(sign);
    })) << said;
    const Error why = cloud->explain(life.instances[0], {ErrorKind::denied, said, {}});
    EXPECT_EQ(why.kind, ErrorKind::lost);
    EXPECT_THAT(why.message, StartsWith("its job 17 has ended: "));
    EXPECT_THAT(why.hint, HasSubstr("sacct -j 17"));
  }
  fixture_.now += 20min;
  EXPECT_FALSE(is_limit_told()) << "somebody has cancelled it";
  fixture_.asleep += 10min;
  EXPECT_TRUE(is_limit_told());
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(SlurmPool, ATimeLimitBelowTheTimeoutIsTold) {
  const auto told_with = [&](const std::string& time) {
    spec_.provider.settings["time"] = time;
    told_.clear();
    const auto cloud = provider();
    const Life life = open(*cloud);
    EXPECT_TRUE(life.status);
    EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
    return told_.empty() ? std::string() : told_.front();
  };
  EXPECT_THAT(told_with("30"), StartsWith("Slurm: time= ends each job after 30 min, before the "
                                          "pool's timeout of 1 h"));
  EXPECT_EQ(told_with("60"), "");
  EXPECT_EQ(told_with(""), "");
  spec_.timeout = 0s;
  EXPECT_EQ(told_with("30"), "") << "how to wait in a long queue";
}

TEST_F(SlurmPool, AControllerThatRestartsCostsNoJobItsPlace) {
  slurm_->queue = 2h;
  spec_.timeout = 0s;
  slurm_->on_request = [this](int number, bool after) {
    if (!after && number > 20) slurm_->busy = number < 80;
  };
  const auto cloud = provider();
  const Life life = open_from_queue(*cloud);
  ASSERT_TRUE(life.status) << life.status.error().message;
  EXPECT_THAT(slurm_->jobs, SizeIs(1));
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(SlurmPool, WhatCannotBeIsRefusedBeforeAnythingIsSubmitted) {
  spec_.provider.settings["partition"] = "nosuch";
  EXPECT_THAT(refusal_of_opening().message,
              HasSubstr("there is no partition \"nosuch\" that accepts jobs"));
  spec_.provider.settings = {};
  spec_.accelerator = Accelerator{.name = "A100"};
  EXPECT_THAT(refusal_of_opening().hint, HasSubstr("gres=\"gpu:NAME:1\""));
  spec_.accelerator.reset();
  spec_.nodes = 9;
  EXPECT_THAT(refusal_of_opening().message,
              HasSubstr("no partition has more than 4 identical nodes"));
  spec_.nodes = 2;
  spec_.timeout = 48h;
  const Error late = refusal_of_opening();
  EXPECT_THAT(late.message, AllOf(HasSubstr("at most 1 d"), HasSubstr("timeout= asks for 2 d")));
  spec_.timeout = 24h;
  {
    const auto cloud = provider();
    const Life life = open(*cloud);
    ASSERT_TRUE(life.status) << "the limit itself is allowed";
    EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
  }
  spec_.architecture = own_architecture();
  const Error unknown = refusal_of_opening();
  EXPECT_THAT(unknown.message, HasSubstr("does not say which architecture nodes have"));
  EXPECT_THAT(unknown.hint, HasSubstr("name a partition="));
  spec_.provider.settings["partition"] = "low";
  EXPECT_TRUE(provider()->check(spec_)) << "the user knows what its nodes are";
  spec_.volumes = {Volume{}};
  EXPECT_THAT(refusal_of_opening().message, HasSubstr("volumes cannot be mounted"));
}

TEST_F(SlurmPool, JobsOfADeadDriverAreFound) {
  const auto cloud = provider();
  ASSERT_TRUE(open(*cloud).status);
  slurm_->queue = 4h;
  std::vector<Swept> told = gc();
  EXPECT_THAT(told, SizeIs(2));
  EXPECT_EQ(slurm_->standing(), 2) << "its driver holds the lock of the pool";
}

TEST_F(SlurmPool, WithoutSlurmNothingIsSwept) {
  const auto here = [&] { return is_reachable(fixture_.world, spec_.provider, soon()); };
  EXPECT_TRUE(here());
  EXPECT_EQ(requests(), 0) << "its settings are where they usually are";
  fixture_.variables.erase("SLURM_CONF");
  fixture_.world.exists = [this](const std::string& path) {
    return path.starts_with(home_) && std::filesystem::exists(path);
  };
  EXPECT_TRUE(here()) << "a cluster without such files answers all the same";
  EXPECT_EQ(requests(), 1);
  fixture_.world.run_with_input = [](const io::SpawnOptions&, Duration,
                                     std::string_view) -> Result<io::CommandResult> {
    io::CommandResult out;
    out.status.code = 1;
    out.err = "scontrol: fatal: Could not establish a configuration source\n";
    return out;
  };
  EXPECT_THAT(here().error().message,
              AllOf(HasSubstr("is not part of a cluster"), HasSubstr("a configuration source")));
  std::filesystem::remove(home_ + "/bin/sbatch");
  EXPECT_THAT(here().error().message, HasSubstr("there is no sbatch"));
  EXPECT_THAT(here().error().hint, HasSubstr("login=\"me@login\""));
  spec_.provider.settings["login"] = "me@login";
  EXPECT_TRUE(here());
}

// A laptop away from its site, whose user has set login= once.
TEST_F(SlurmPool, ALoginNodeThatIsOutOfReachFailsNoSweep) {
  fixture_.variables["SKYWARD_SLURM_LOGIN"] = "me@login";
  fixture_.world.run_with_input = [](const io::SpawnOptions&, Duration,
                                     std::string_view) -> Result<io::CommandResult> {
    io::CommandResult out;
    out.status.code = 255;
    out.err = "ssh: connect to host login port 22: No route to host\n";
    return out;
  };
  const std::vector<Swept> swept = gc();
  ASSERT_THAT(swept, SizeIs(1));
  EXPECT_EQ(swept[0].action, SweepAction::skipped);
  EXPECT_EQ(swept[0].resource.id, "slurm");
  EXPECT_THAT(swept[0].why, HasSubstr("No route to host"));
  EXPECT_FALSE(sweep(fixture_.world, {.is_named = true}, [](const Swept&) {}, soon()));
}

// A program that runs in a job itself.
TEST(SlurmAccess, TheMarksOfAnotherJobAreNotPassedOn) {
  Words command = outside_jobs();
  command.insert(command.end(),
                 {"sh", "-c", "echo \"[$SLURM_JOB_ID$SBATCH_CLUSTERS|$SLURM_CONF|$KEPT|$1]\"", "x",
                  "two words"});
  io::SpawnOptions options;
  options.command = command;
  options.environment = {{"SLURM_JOB_ID", "9"},
                         {"SBATCH_CLUSTERS", "all"},
                         {"SLURM_CONF", "/etc/s.conf"},
                         {"KEPT", "yes"}};
  const auto ran = io::run_command(options, 10s);
  ASSERT_TRUE(ran);
  EXPECT_EQ(ran->out, "[|/etc/s.conf|yes|two words]\n");
}

}  // namespace
}  // namespace skyward::provider::slurm

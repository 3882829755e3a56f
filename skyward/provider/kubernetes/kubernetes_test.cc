#include "skyward/provider/kubernetes/kubernetes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "skyward/provider/kubernetes/diagnose.h"
#include "skyward/provider/kubernetes/kubernetes_computer_fixture.h"
#include "skyward/provider/kubernetes/manifest.h"
#include "skyward/provider/kubernetes/sweep.h"

namespace skyward::provider::kubernetes {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

class KubernetesPool : public ::testing::Test, public KubernetesComputer {
 protected:
  void TearDown() override { EXPECT_EQ(violations(), ""); }

  Stage stage(Provider& cloud, const Life& life, std::size_t at = 0) {
    const auto found = cloud.get_instance(life.cluster, life.instances[at].id, soon());
    EXPECT_TRUE(found) << found.error().message;
    return found && *found ? Stage::running : Stage::terminated;
  }
};

TEST_F(KubernetesPool, ItsMachinesArePods) {
  spec_.accelerator = Accelerator{.name = "H100"};
  spec_.accelerator->count = 2;
  const std::int64_t begin_s = fixture_.world.wall_s();
  const auto [cloud, life] = opened();
  ASSERT_THAT(life.instances, SizeIs(2));
  EXPECT_THAT(life.cluster.id, StartsWith("kubernetes-"));
  EXPECT_NEAR(static_cast<double>(open_pools().front().expires_s - begin_s), 75 * 60, 60);
  EXPECT_EQ(life.cluster.region, "x1");
  const nlohmann::json& pod = cloud_->machines.front().request;
  EXPECT_EQ(pod["spec"]["nodeSelector"]["nvidia.com/gpu.product"], "NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(pod["spec"]["activeDeadlineSeconds"], 75 * 60) << "the pool's hour, and its end";

  const Connection way = cloud->connection(life.cluster, life.instances[1]);
  EXPECT_TRUE(way.shell);
  EXPECT_THAT(way.command,
              ElementsAre("kubectl", "--context=x1", "--namespace=default", "exec", "--stdin",
                          life.instances[1].id, "--container", "node", "--", "sh", "-c"));
  EXPECT_TRUE(cloud->capabilities().gateway);
  EXPECT_EQ(cloud->capabilities().tend_interval, 30s);
  EXPECT_THAT(way.permanent_errors, Contains("container not found (\"node\")"));
  const Bootstrap bootstrap = cloud->bootstrap(life.cluster, life.instances[1]);
  EXPECT_THAT(bootstrap.script, StartsWith(claim_script(kKeeperDirectory)));
  EXPECT_EQ(bootstrap.end_command, end_keeper_words(kKeeperDirectory));
  ASSERT_TRUE(cloud->teardown(life.cluster, soon()));
  EXPECT_EQ(standing(), 0);
  EXPECT_THAT(open_pools(), IsEmpty());
}

TEST_F(KubernetesPool, AReplacementEndsWithItsPoolThoughThisComputerSlept) {
  const auto [cloud, life] = opened();
  fixture_.asleep = 30min;
  const auto another = cloud->provision(life.cluster, 1, 0, soon());
  ASSERT_TRUE(another) << another.error().message;
  const nlohmann::json& pod = cloud_->machines.back().request;
  EXPECT_NEAR(pod["spec"]["activeDeadlineSeconds"].get<double>(), 45 * 60, 60);
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(KubernetesPool, WhatItWaitsForIsTold) {
  spec_.accelerator = Accelerator{.name = "H100"};
  spec_.accelerator->count = 4;
  spec_.nodes = 4;
  const auto first = provider();
  const Life taken = open(*first);
  ASSERT_TRUE(taken.status) << taken.status.error().message;
  cloud_->on_request = [this](int, bool) {
    // Somebody else's pods end by and by.
    if (told_.empty()) return;
    for (std::size_t at = 0; at < 4; ++at) cloud_->machines[at].off = fixture_.now;
    cloud_->on_request = nullptr;
  };
  spec_.nodes = 2;
  const auto second = provider();
  const Life life = open(*second);
  ASSERT_TRUE(life.status) << life.status.error().message;
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_EQ(told_[0],
            "Kubernetes: 2 pods wait: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu.");
  EXPECT_TRUE(second->teardown(life.cluster, soon()));
  EXPECT_TRUE(first->teardown(taken.cluster, soon()));
}

TEST_F(KubernetesPool, AnImageThatTakesLongIsTold) {
  cloud_->dials.boot = 90s;
  const auto [cloud, life] = opened();
  EXPECT_THAT(told_, ElementsAre("Kubernetes: 2 pods still start: their node pulls the image"));
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(KubernetesPool, PodsThatGetNoNodeAreRolledBackWithTheReason) {
  cloud_->add_node("n5", {{"cpu", "64"}, {"memory", "64Gi"}}, {},
                   nlohmann::json::array({{{"key", "a"}, {"effect", "NoSchedule"}}}));
  spec_.cpus = 8;
  spec_.nodes = 4;
  const auto first = provider();
  const Life taken = open(*first);
  ASSERT_TRUE(taken.status) << taken.status.error().message;
  const auto second = provider();
  spec_.nodes = 1;
  const Life life = open(*second);
  ASSERT_FALSE(life.status);
  EXPECT_EQ(life.status.error().kind, ErrorKind::timeout);
  EXPECT_THAT(life.status.error().message,
              HasSubstr("0/5 nodes are available: 1 node(s) had untolerated taint {a: }, 4 "
                        "Insufficient cpu."));
  EXPECT_THAT(life.status.error().hint, HasSubstr("kubectl describe nodes"));
  EXPECT_TRUE(second->teardown(life.cluster, soon()));
  EXPECT_EQ(standing(), 4);
  EXPECT_TRUE(first->teardown(taken.cluster, soon()));
}

TEST_F(KubernetesPool, AnImageThatIsNotThereFailsAtOnce) {
  spec_.provider.settings["image"] = "nosuch/image:1";
  cloud_->unpullable = {{"nosuch/image:1",
                         "failed to pull and unpack image \"docker.io/nosuch/image:1\": not "
                         "found"}};
  const Error missing = refusal_of_opening();
  EXPECT_THAT(missing.message, AllOf(HasSubstr("ErrImagePull"), HasSubstr("nosuch/image:1")));
  EXPECT_THAT(missing.hint, HasSubstr("imagePullSecrets"));
  EXPECT_LT(took_, 20s);
  cloud_->unpullable = {{"nosuch/image:1", "toomanyrequests: slow down"}};
  EXPECT_THAT(refusal_of_opening().message, HasSubstr("toomanyrequests: slow down"));
  EXPECT_GT(took_, 59s) << "a registry may fail for moments";
}

TEST_F(KubernetesPool, NothingIsLeftOfAPoolThatTheLedgerDoesNotTake) {
  const auto cloud = provider();
  const auto offers = cloud->offers(spec_, soon());
  ASSERT_TRUE(offers) << offers.error().message;
  ledger_watch_.trouble = fail(ErrorKind::unavailable, "the disk is full");
  EXPECT_THAT(cloud->prepare(spec_, offers->front(), soon()).error().message,
              HasSubstr("the disk is full"));
  ledger_watch_.trouble = {};
  EXPECT_TRUE(std::filesystem::is_empty(home_ + "/state/skyward/clouds"));
}

TEST_F(KubernetesPool, AQuotaThatIsReachedHalfwayLeavesNothing) {
  cloud_->quotas["default/gpus"] = {{"requests.cpu", "3"}};
  const Error full = refusal_of_opening();
  EXPECT_THAT(full.message, HasSubstr("exceeded quota: gpus, requested: requests.cpu=2, used: "
                                      "requests.cpu=2, limited: requests.cpu=3"));
  EXPECT_THAT(full.message, HasSubstr(" in default: "));
  EXPECT_EQ(full.kind, ErrorKind::exhausted);
  EXPECT_THAT(full.hint, HasSubstr("kubectl describe quota"));
  EXPECT_LT(took_, 20s);
}

TEST_F(KubernetesPool, WhatCannotBeIsRefusedBeforeAnythingIsCreated) {
  cloud_->forbidden = {"create pods/exec", "delete pods"};
  const Error rights = refusal_of_opening();
  EXPECT_EQ(rights.kind, ErrorKind::denied);
  EXPECT_THAT(rights.message,
              HasSubstr("in the namespace default, you may not delete pods, create pods/exec"));
  cloud_->forbidden = {};
  spec_.provider.settings = {{"context", "nosuch"}};
  EXPECT_THAT(refusal_of_opening().message, HasSubstr("context: nosuch"));
  spec_.provider.settings = {};
  spec_.accelerator = Accelerator{.name = "A100"};
  EXPECT_THAT(refusal_of_opening().hint, HasSubstr("gpu=\"nvidia.com/gpu\""));
  spec_.accelerator.reset();
  spec_.nodes = 99;
  EXPECT_THAT(refusal_of_opening().message, HasSubstr("hold at most 16 such pods"));
  spec_.nodes = 2;
  spec_.volumes = {Volume{}};
  EXPECT_THAT(refusal_of_opening().message, HasSubstr("volumes cannot be mounted"));
  spec_.volumes.clear();
  spec_.image.pip = {::testing::TempDir()};
  EXPECT_THAT(refusal_of_opening().message, HasSubstr("is on this computer"));
  EXPECT_THAT(cloud_->machines, IsEmpty());
}

TEST_F(KubernetesPool, WhatTheClusterRefusesIsSaidInItsWords) {
  spec_.provider.settings = {{"namespace", "nosuch"}};
  EXPECT_THAT(refusal_of_opening().message, HasSubstr("namespaces \"nosuch\" not found"));
  spec_.provider.settings = {{"service_account", "nosuch"}};
  EXPECT_THAT(refusal_of_opening().hint, HasSubstr("kubectl get serviceaccounts"));
  spec_.provider.settings = {};
  cloud_->namespaces["default"]["metadata"]["labels"] = {
      {"pod-security.kubernetes.io/enforce", "restricted"}};
  EXPECT_THAT(refusal_of_opening().hint, HasSubstr("run_as_user="));
  spec_.provider.settings = {{"run_as_user", "1000"}};
  const auto cloud = provider();
  const Life life = open(*cloud);
  EXPECT_TRUE(life.status) << life.status.error().message;
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(KubernetesPool, WithoutKubectlItSaysSo) {
  fixture_.world.run_with_input = [](const io::SpawnOptions&, Duration,
                                     std::string_view) -> Result<io::CommandResult> {
    return fail(ErrorKind::invalid, "kubectl: no such program");
  };
  const auto offers = provider()->offers(spec_, soon());
  ASSERT_FALSE(offers);
  EXPECT_EQ(offers.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(offers.error().hint, HasSubstr("install kubectl"));
}

// Most users of a namespace.
TEST_F(KubernetesPool, WhoMayNotListNodesSaysWhatTheyHave) {
  cloud_->forbidden = {"list nodes", "list pods in all namespaces"};
  {
    const auto [cloud, life] = opened();
    EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
  }
  spec_.accelerator = Accelerator{.name = "H100"};
  EXPECT_THAT(refusal_of_opening().message, HasSubstr("you may not list nodes"));
  spec_.provider.settings = {{"gpu", "nvidia.com/gpu"}};
  const auto [cloud, life] = opened();
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(KubernetesPool, AnAutoscaledPoolWaitsForNodesThatDoNotExistYet) {
  spec_.accelerator = Accelerator{.name = "A100"};
  spec_.provider.settings = {
      {"gpu", "nvidia.com/gpu"}, {"node_selector", "pool=a100"}, {"autoscaled", "true"}};
  cloud_->on_request = [this](int, bool) {
    if (told_.empty()) return;
    cloud_->on_request = nullptr;
    cloud_->add_node(
        "new", {{"cpu", "8"}, {"memory", "32Gi"}, {"nvidia.com/gpu", "8"}}, {{"pool", "a100"}},
        nlohmann::json::array(
            {{{"key", "nvidia.com/gpu"}, {"value", "present"}, {"effect", "NoSchedule"}}}));
  };
  const auto [cloud, life] = opened();
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(KubernetesPool, PodsThatEndAreLostAndDeletedAndTheirEndIsTold) {
  const auto [cloud, life] = opened();
  EXPECT_EQ(stage(*cloud, life), Stage::running);
  cloud_->machines[0].failed = fixture_.now;  // its node evicts it
  EXPECT_EQ(stage(*cloud, life), Stage::terminated);
  EXPECT_THAT(told_, Contains(HasSubstr("was ended: Evicted: The node was low on resource")));
  ASSERT_TRUE(cloud->terminate(life.cluster, {life.instances[0].id}, soon()));
  EXPECT_EQ(standing(), 1);
  cloud_->reply(
      {.method = "POST",
       .url = "http://c/api/v1/namespaces/default/pods/" + life.instances[1].id + "/eviction",
       .body = "{}"},
      fixture_.now);
  EXPECT_EQ(stage(*cloud, life, 1), Stage::terminated);
  EXPECT_THAT(told_, Contains(HasSubstr("EvictionByEvictionAPI")));
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
  EXPECT_THAT(told_, SizeIs(2)) << "once each";
}

TEST_F(KubernetesPool, ANodeThatDoesNotAnswerKeepsNobodyWaiting) {
  const auto cloud = provider();
  const Life life = open(*cloud);
  ASSERT_TRUE(life.status);
  cloud_->dials.ending = 24h;  // its kubelet is off
  const Time begun = fixture_.now;
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
  EXPECT_LT(fixture_.now - begun, 90s);
  EXPECT_THAT(open_pools(), IsEmpty());
}

TEST_F(KubernetesPool, AContextThatIsSwitchedMeanwhileChangesNothing) {
  const auto cloud = provider();
  const Life life = open(*cloud);
  ASSERT_TRUE(life.status);
  for (const auto& command : commands_) {
    if (command[1] == "config") continue;
    EXPECT_EQ(command[1], "--context=x1");
    EXPECT_EQ(command[2], "--namespace=default");
  }
  EXPECT_EQ(open_pools()[0].setting("context"), "x1");
  EXPECT_EQ(open_pools()[0].setting("kubeconfig"), home_ + "/config");
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(KubernetesPool, AClusterThatIsOffFailsNoSweepUnlessAPoolIsThere) {
  cloud_->dials.lose_reply = 1;
  std::vector<Swept> told = gc();
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].action, SweepAction::skipped);
  EXPECT_THAT(told[0].why, HasSubstr("this computer has nothing there"));
  EXPECT_FALSE(sweep(fixture_.world, {.is_named = true}, [](const Swept&) {}, soon()));
  cloud_->dials.lose_reply = 0;
  const auto cloud = provider();
  const Life life = open(*cloud);
  ASSERT_TRUE(life.status);
  cloud_->dials.lose_reply = 1;
  EXPECT_FALSE(sweep(fixture_.world, {}, [](const Swept&) {}, soon()));
  cloud_->dials.lose_reply = 0;
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

// As a job of the cluster sees it whose pools were opened from outside.
TEST_F(KubernetesPool, APodIsSweptThroughAnotherAddressOfTheCluster) {
  std::string pool;
  {
    const auto there = opened();
    pool = there.life.cluster.id;
  }
  forget_pools();
  const auto run = fixture_.world.run_with_input;
  fixture_.world.run_with_input = [&](const io::SpawnOptions& options, Duration timeout,
                                      std::string_view input) {
    auto reply = run(options, timeout, input);
    constexpr std::string_view kOutside = "https://cluster";
    const std::size_t at = reply ? reply->out.find(kOutside) : std::string::npos;
    if (at != std::string::npos) reply->out.replace(at, kOutside.size(), "https://10.0.0.1");
    return reply;
  };
  const auto all_are = [](SweepAction action) {
    return AllOf(SizeIs(2), Each(Field(&Swept::action, action)));
  };
  EXPECT_THAT(gc(), all_are(SweepAction::kept)) << "it may be in use";
  EXPECT_THAT(gc({.dry_run = true, .pool = pool}), all_are(SweepAction::would_remove));
  fixture_.now += 2h;
  EXPECT_THAT(gc(), all_are(SweepAction::removed)) << "its deadline has ended it";
  EXPECT_THAT(cloud_->leftovers(), IsEmpty());
}

TEST_F(KubernetesPool, ItsSetUpIsChecked) {
  cloud_->forbidden = {"delete pods"};
  std::vector<std::string> good;
  std::vector<std::string> bad;
  const Status done = diagnose(
      fixture_.world, {},
      [&](const Finding& one) { (one.good ? good : bad).push_back(one.what + ": " + one.detail); },
      soon());
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_THAT(bad, ElementsAre("delete pods: you may not"));
  EXPECT_THAT(good, Contains("context: x1, namespace default"));
  EXPECT_THAT(good, Contains("nodes: p5:nvidia-h100-80gb-hbm3 (4)"));
}

}  // namespace
}  // namespace skyward::provider::kubernetes

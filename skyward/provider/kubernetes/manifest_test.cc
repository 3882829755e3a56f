#include "skyward/provider/kubernetes/manifest.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "doubles/kubernetes_facts.h"
#include "skyward/io/machine.h"
#include "skyward/io/process.h"

namespace skyward::provider::kubernetes {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using ::testing::IsEmpty;
using ::testing::Not;

PodRequest full_request() {
  return {.image = "python:3.12-slim",
          .cpus = 1.5,
          .memory_mb = 2500,
          .gpu_resource = "nvidia.com/gpu",
          .gpus = 2,
          .selector = {{"disktype", "ssd"}},
          .tolerations = {{.key = "dedicated", .value = "ml", .effect = "NoSchedule"},
                          {.key = "nvidia.com/gpu", .value = std::nullopt, .effect = {}}},
          .life = 1h,
          .keeper = keeper_script({.limit = 15min})};
}
json pod_of(const PodRequest& request) {
  return json::parse(manifest_of(request, {"a"}, {.pool = "kubernetes-1a2b3c4d"}))["items"][0];
}

TEST(KubernetesManifest, FollowsTheRulesOfTheApi) {
  const json pod = pod_of(full_request());
  EXPECT_THAT(doubles::wrong_form(pod), IsEmpty());
  EXPECT_THAT(doubles::broken_rules(pod), IsEmpty());
  EXPECT_EQ(pod["spec"]["activeDeadlineSeconds"], 3600);
  const json resources = pod["spec"]["containers"][0]["resources"];
  EXPECT_EQ(resources["limits"],
            json({{"cpu", "1500m"}, {"memory", "2500Mi"}, {"nvidia.com/gpu", "2"}}));
  EXPECT_EQ(resources["requests"], resources["limits"]) << "such pods are evicted last";
  EXPECT_EQ(pod["spec"]["tolerations"][1],
            json({{"key", "nvidia.com/gpu"}, {"operator", "Exists"}}));
  EXPECT_EQ(pod["spec"]["automountServiceAccountToken"], false);
  EXPECT_EQ(pod["spec"]["nodeSelector"], json({{"disktype", "ssd"}}));
}

TEST(KubernetesManifest, AutoscalersLeaveThePodWhereItIs) {
  const json annotations = pod_of(full_request())["metadata"]["annotations"];
  EXPECT_EQ(annotations["karpenter.sh/do-not-disrupt"], "true");
  EXPECT_EQ(annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"], "false");
}

TEST(KubernetesManifest, MeshesAddNoContainerThatWouldOutliveOurs) {
  const json metadata = pod_of(full_request())["metadata"];
  EXPECT_EQ(metadata["labels"]["sidecar.istio.io/inject"], "false");
  EXPECT_EQ(metadata["labels"]["kuma.io/sidecar-injection"], "disabled");
  EXPECT_EQ(metadata["annotations"]["sidecar.istio.io/inject"], "false");
  EXPECT_EQ(metadata["annotations"]["linkerd.io/inject"], "disabled");
  EXPECT_EQ(metadata["annotations"]["consul.hashicorp.com/connect-inject"], "false");
}

TEST(KubernetesManifest, APodThatAsksForNothingTakesSomethingAllTheSame) {
  const json pod = pod_of({.image = "x", .service_account = "robot", .life = -5s});
  const json resources = pod["spec"]["containers"][0]["resources"];
  EXPECT_EQ(resources["requests"], json({{"cpu", "1000m"}, {"memory", "1024Mi"}}));
  EXPECT_FALSE(resources.contains("limits"));
  EXPECT_EQ(pod["spec"]["activeDeadlineSeconds"], 1);
  EXPECT_EQ(pod["spec"]["serviceAccountName"], "robot");
  EXPECT_FALSE(pod["spec"].contains("automountServiceAccountToken"));
}

TEST(KubernetesManifest, WithAUserItIsAllowedWhereRootIsNot) {
  PodRequest request = full_request();
  EXPECT_THAT(doubles::insecure_parts(pod_of(request), "restricted"), Not(IsEmpty()));
  request.user = 1000;
  const json pod = pod_of(request);
  EXPECT_THAT(doubles::insecure_parts(pod, "restricted"), IsEmpty());
  EXPECT_THAT(doubles::wrong_form(pod), IsEmpty());
  EXPECT_THAT(doubles::broken_rules(pod), IsEmpty());
  EXPECT_EQ(pod["spec"]["containers"][0]["env"][0]["name"], "HOME");
}

// ---- The keeper, with another directory

// What `script` prints beside a keeper, whose process is $keeper and whose directory is $d.
std::string beside_keeper(const std::string& script) {
  const std::string directory =
      std::filesystem::temp_directory_path().string() + "/skyward-pod-" + io::random_hex(8);
  std::string keeper = keeper_script({.limit = 15min, .look_every = 50ms});
  const std::size_t at = keeper.find(kKeeperDirectory);
  keeper.replace(at, kKeeperDirectory.size(), directory);
  const std::string line = fmt::format(
      "d={0}\nsh -c '{1}' &\nkeeper=$!\n"
      "while [ ! -e $d/claimed ]; do :; done\n{2}\nrm -rf $d",
      directory,
      [&] {
        std::string quoted;
        for (const char c : keeper) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
        return quoted;
      }(),
      script);
  const auto ran = io::run_command({.command = {"sh", "-c", line}}, 20s);
  EXPECT_TRUE(ran) << ran.error().message;
  return ran ? ran->out + ran->err : "";
}

TEST(KubernetesKeeper, EndsItsPodWhenItsAgentIsSilent) {
  EXPECT_EQ(beside_keeper("kill -0 $keeper && echo alive\n"
                          "touch -d '1 hour ago' $d/claimed; wait $keeper; echo over $?"),
            "alive\nover 0\n");
}

TEST(KubernetesKeeper, EndsItsPodWhenTheAgentSaysSo) {
  EXPECT_EQ(beside_keeper("touch $d/over; wait $keeper; echo over $?"), "over 0\n");
}

TEST(KubernetesKeeper, WritesANoticeAtTheSignalAndGoesOn) {
  EXPECT_EQ(beside_keeper("kill -TERM $keeper\nwhile [ ! -e $d/notice ]; do :; done\n"
                          "cat $d/notice; kill -0 $keeper && echo alive\n"
                          "touch $d/over; wait $keeper; echo over $?"),
            "28000 the cluster ends this pod\nalive\nover 0\n");
}

TEST(KubernetesKeeper, FailsWhereItsDirectoryCannotBe) {
  const auto ran = io::run_command({.command = {"sh", "-c",
                                                "d=/proc/nosuch/x; " +
                                                    [] {
                                                      const std::string all =
                                                          keeper_script({.limit = 15min});
                                                      return all.substr(all.find('\n'));
                                                    }()}},
                                   10s);
  ASSERT_TRUE(ran);
  EXPECT_EQ(ran->status.code, 1);
}

}  // namespace
}  // namespace skyward::provider::kubernetes

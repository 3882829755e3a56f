#include "skyward/provider/kubernetes/nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "skyward/provider/keeping/standard_image.h"

namespace skyward::provider::kubernetes {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

ClusterNode node(const std::string& name, const std::string& product = {}, double gpus = 0) {
  ClusterNode out{
      .name = name,
      .labels = {{"node.kubernetes.io/instance-type", "big"}, {"kubernetes.io/arch", "amd64"}},
      .allocatable = {{"cpu", 16}, {"memory", 64 * 0x1p30}, {"pods", 110}},
      .takes_pods = true};
  if (gpus > 0) out.allocatable["nvidia.com/gpu"] = gpus;
  if (!product.empty()) out.labels["nvidia.com/gpu.product"] = product;
  return out;
}
PoolSpec pool(int nodes, const std::string& accelerator = {}, double count = 1) {
  PoolSpec spec;
  spec.nodes = nodes;
  if (!accelerator.empty()) {
    spec.accelerator = Accelerator{.name = accelerator};
    spec.accelerator->count = count;
  }
  return spec;
}
std::vector<std::string> types_of(const Result<std::vector<Offer>>& offers) {
  std::vector<std::string> out;
  if (!offers) return {offers.error().message, offers.error().hint};
  for (const Offer& one : *offers) out.push_back(one.instance_type);
  return out;
}

TEST(KubernetesQuantities, AreReadAsTheApiWritesThem) {
  EXPECT_EQ(read_quantity("8"), 8);
  EXPECT_EQ(read_quantity("7910m"), 7.91);
  EXPECT_EQ(read_quantity("32Gi"), 32 * 0x1p30);
  EXPECT_EQ(read_quantity("131072Ki"), 131072 * 1024.0);
  EXPECT_EQ(read_quantity("5k"), 5000);
  EXPECT_EQ(read_quantity("2M"), 2e6);
  for (const char* wrong : {"", "x", "8 ", "8Qi", "8Kib", "nan"}) {
    EXPECT_FALSE(read_quantity(wrong)) << wrong;
  }
}

TEST(KubernetesNodes, ModelsAreReadFromTheLabelsOfSeveralVendors) {
  constexpr std::pair<const char*, const char*> kProducts[] = {{"NVIDIA-H100-80GB-HBM3", "H100"},
                                                               {"NVIDIA-A100-SXM4-40GB", "A100"},
                                                               {"Tesla-T4", "T4"},
                                                               {"NVIDIA-L4", "L4"},
                                                               {"NVIDIA-A10G-SHARED", "A10G"},
                                                               {"NVIDIA-H200", "H200"}};
  for (const auto& [product, model] : kProducts) {
    const auto candidates = candidates_of({node("n", product, 1)}, {}, {}, "c");
    ASSERT_THAT(candidates, SizeIs(1));
    EXPECT_THAT(candidates[0].offer.accelerator, HasSubstr(model)) << product;
  }
  constexpr std::pair<const char*, const char*> kGoogles[] = {{"nvidia-h100-80gb", "H100"},
                                                              {"nvidia-tesla-t4", "T4"},
                                                              {"nvidia-a100-80gb", "A100"},
                                                              {"nvidia-l4", "L4"}};
  for (const auto& [product, model] : kGoogles) {
    ClusterNode google = node("n", {}, 1);
    google.labels["cloud.google.com/gke-accelerator"] = product;
    EXPECT_THAT(candidates_of({google}, {}, {}, "c")[0].offer.accelerator, HasSubstr(model))
        << product;
  }
}

TEST(KubernetesNodes, TheMemoryOfGpusIsInTheirNamesOrInALabel) {
  std::vector<ClusterNode> nodes{node("a", "NVIDIA-A100-SXM4-40GB", 1),
                                 node("b", "NVIDIA-A100-SXM4-80GB", 1)};
  nodes[1].labels["nvidia.com/gpu.memory"] = "81920";
  const auto candidates = candidates_of(nodes, {}, {}, "c");
  EXPECT_EQ(candidates[0].offer.accelerator_memory_gb, 40);
  EXPECT_EQ(candidates[1].offer.accelerator_memory_gb, 80);
  PoolSpec spec = pool(1, "A100");
  spec.accelerator->memory = "80GB";
  spec.accelerator->memory_required = true;
  EXPECT_THAT(types_of(fitting_candidates(candidates, {}, spec)),
              ElementsAre("big:nvidia-a100-sxm4-80gb"));
}

TEST(KubernetesNodes, APoolAsksForTheLabelOfItsGpus) {
  const auto candidates = candidates_of(
      {node("a", "NVIDIA-H100-80GB-HBM3", 8), node("b", "Tesla-T4", 4), node("c")}, {}, {}, "c");
  ASSERT_THAT(candidates, SizeIs(3));
  const PoolSpec spec = pool(1, "H100", 2);
  EXPECT_THAT(types_of(fitting_candidates(candidates, {}, spec)),
              ElementsAre("big:nvidia-h100-80gb-hbm3"));
  const PodRequest request = request_of(candidates[0], {}, spec);
  EXPECT_EQ(request.gpu_resource, "nvidia.com/gpu");
  EXPECT_EQ(request.gpus, 2);
  EXPECT_THAT(request.selector,
              ElementsAre(std::pair("kubernetes.io/arch", "amd64"),
                          std::pair("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3")));
  EXPECT_THAT(request.tolerations, SizeIs(1));
  EXPECT_EQ(count_pods(request, candidates, false), 4);
}

TEST(KubernetesNodes, AllPodsOfAPoolHaveOneArchitecture) {
  const bool on_arm = own_architecture() == "arm64";
  const std::string own = on_arm ? "arm64" : "amd64";
  const std::string other = on_arm ? "amd64" : "arm64";
  std::vector<ClusterNode> nodes{node("a"), node("b"), node("c")};
  nodes[0].labels["kubernetes.io/arch"] = nodes[1].labels["kubernetes.io/arch"] = other;
  nodes[2].labels["kubernetes.io/arch"] = own;
  const auto candidates = candidates_of(nodes, {}, {}, "c");
  ASSERT_THAT(candidates, SizeIs(2)) << "of the same type";
  const auto chosen_for = [&](const PoolSpec& spec) {
    const auto offers = fitting_candidates(candidates, {}, spec);
    EXPECT_TRUE(offers) << offers.error().message;
    if (!offers) return std::string();
    const Candidate* const candidate = candidate_for(candidates, offers->front());
    return request_of(*candidate, {}, spec).selector.at("kubernetes.io/arch");
  };
  EXPECT_EQ(chosen_for(pool(1)), own);
  PoolSpec large = pool(2);
  large.cpus = 12;
  EXPECT_EQ(chosen_for(large), other) << "one node of the own architecture does not hold it";
  for (const bool named : {false, true}) {
    PoolSpec asked = pool(1);
    asked.architecture = on_arm ? "x86_64" : "arm64";
    if (named) asked.machine = "big";
    EXPECT_EQ(chosen_for(asked), other);
    EXPECT_EQ(count_pods(request_of(candidates[1], {}, asked), candidates, false), 32)
        << "those of the two nodes";
  }
  PoolSpec both = pool(3);
  both.cpus = 12;
  EXPECT_THAT(types_of(fitting_candidates(candidates, {}, both)),
              ElementsAre(HasSubstr("hold at most 2 such pods"), HasSubstr("ask for fewer")));
}

TEST(KubernetesNodes, AnArchitectureThatNoNodeOfTheTypeHasIsRefused) {
  PoolSpec spec = pool(1);
  spec.machine = "big";
  spec.architecture = "arm64";
  EXPECT_THAT(
      types_of(fitting_candidates(candidates_of({node("a")}, {}, {}, "c"), {}, spec)),
      ElementsAre(HasSubstr("machine=\"big\" is not offered for arm64"), HasSubstr("offers list")));
  EXPECT_EQ(request_of(unseen_candidate(spec, {}, "c"), {}, spec).selector.at("kubernetes.io/arch"),
            "arm64");
}

TEST(KubernetesNodes, WhatNodesKeepForThemselvesIsNotThere) {
  ClusterNode small = node("a");
  small.allocatable = {{"cpu", 1.93}, {"memory", 3.4 * 0x1p30}, {"pods", 17}};
  const auto candidates = candidates_of({small}, {}, {}, "c");
  EXPECT_TRUE(fitting_candidates(candidates, {}, pool(1)));
  PoolSpec two = pool(1);
  two.cpus = 2;
  EXPECT_THAT(types_of(fitting_candidates(candidates, {}, two)),
              ElementsAre(HasSubstr("hold at most 0 such pods"), HasSubstr("ask for fewer")));
}

TEST(KubernetesNodes, WhatIsFreeNowComesFirst) {
  std::vector<ClusterNode> nodes{node("a", "NVIDIA-H100-80GB-HBM3", 8),
                                 node("b", "NVIDIA-H100-80GB-HBM3", 4)};
  nodes[1].labels["node.kubernetes.io/instance-type"] = "small";
  const Usage busy{{"b", {{"nvidia.com/gpu", 4}}}};
  EXPECT_THAT(
      types_of(fitting_candidates(candidates_of(nodes, busy, {}, "c"), {}, pool(2, "H100", 2))),
      ElementsAre("small:nvidia-h100-80gb-hbm3", "big:nvidia-h100-80gb-hbm3"))
      << "pods may be on either";
  PoolSpec small = pool(1, "H100", 2);
  small.machine = "small";
  EXPECT_THAT(types_of(fitting_candidates(candidates_of(nodes, busy, {}, "c"), {}, small)),
              ElementsAre("small:nvidia-h100-80gb-hbm3"))
      << "what is taken may become free";
}

TEST(KubernetesNodes, AnAutoscalerMayAddNodesOfATypeThatIsThere) {
  PoolSpec four = pool(4);
  four.machine = "big";
  four.cpus = 12;
  auto candidates = candidates_of({node("a")}, {}, {}, "c");
  EXPECT_FALSE(fitting_candidates(candidates, {}, four));
  candidates.push_back(unseen_candidate(four, {}, "c"));
  EXPECT_THAT(types_of(fitting_candidates(candidates, {}, four)), Each(std::string("big")));
}

TEST(KubernetesNodes, WhatNoNodeHoldsIsRefused) {
  const auto candidates =
      candidates_of({node("a", "Tesla-T4", 4), node("b", "Tesla-T4", 4)}, {}, {}, "");
  EXPECT_THAT(types_of(fitting_candidates(candidates, {}, pool(1, "H100"))),
              ElementsAre(HasSubstr("Kubernetes: "), HasSubstr("gpu=\"nvidia.com/gpu\"")));
  EXPECT_THAT(types_of(fitting_candidates(candidates, {}, pool(5, "T4", 2))),
              ElementsAre(HasSubstr("hold at most 4 such pods"), HasSubstr("autoscaled=True")));
  EXPECT_THAT(types_of(fitting_candidates({}, {}, pool(1))),
              ElementsAre(HasSubstr("no node of the cluster"), HasSubstr("kubectl get nodes")));
}

TEST(KubernetesNodes, TaintsAndSelectorsKeepPodsAway) {
  std::vector<ClusterNode> nodes{node("gpu", "Tesla-T4", 4), node("mine"), node("off")};
  nodes[0].taints = {{"nvidia.com/gpu", "present", "NoSchedule"}};
  nodes[1].taints = {{"dedicated", "ml", "NoSchedule"}};
  nodes[2].takes_pods = false;
  auto candidates = candidates_of(nodes, {}, {}, "c");
  ASSERT_THAT(candidates, SizeIs(1)) << "the GPUs' taint is tolerated by those that ask for some";
  EXPECT_FALSE(fitting_candidates(candidates, {}, pool(1)));
  EXPECT_TRUE(fitting_candidates(candidates, {}, pool(1, "T4")));
  Wishes wishes{.tolerations = {*read_toleration("dedicated=ml:NoSchedule")}};
  EXPECT_TRUE(fitting_candidates(candidates_of(nodes, {}, wishes, "c"), wishes, pool(1)));
  wishes.selector = {{"disktype", "ssd"}};
  EXPECT_THAT(candidates_of(nodes, {}, wishes, "c"), SizeIs(0));
  nodes[1].labels["disktype"] = "ssd";
  EXPECT_THAT(candidates_of(nodes, {}, wishes, "c"), SizeIs(1));
}

TEST(KubernetesNodes, WithAResourceTheUserSaysWhatAGpuIs) {
  ClusterNode other = node("a");
  other.allocatable["nvidia.com/mig-1g.5gb"] = 7;
  const Wishes wishes{.gpu = "nvidia.com/mig-1g.5gb"};
  const auto candidates = candidates_of({other}, {}, wishes, "c");
  ASSERT_TRUE(fitting_candidates(candidates, wishes, pool(3, "A100", 2)));
  EXPECT_FALSE(fitting_candidates(candidates, wishes, pool(4, "A100", 2)));
  EXPECT_EQ(request_of(candidates[0], wishes, pool(3, "A100", 2)).gpu_resource,
            "nvidia.com/mig-1g.5gb");
}

TEST(KubernetesSettings, AreReadStrictly) {
  const auto read = [](const char* name, const char* value) {
    return read_wishes({.name = "kubernetes", .settings = {{name, value}}});
  };
  EXPECT_THAT(read("node_selector", "a=b,c.d/e=f")->selector,
              ElementsAre(std::pair("a", "b"), std::pair("c.d/e", "f")));
  EXPECT_EQ(
      read("tolerations", "a=b:NoSchedule,c:NoExecute,d")->tolerations,
      (std::vector<Toleration>{
          {"a", "b", "NoSchedule"}, {"c", std::nullopt, "NoExecute"}, {"d", std::nullopt, ""}}));
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, const char*>>{{"node_selector", "a"},
                                                                  {"node_selector", "=b"},
                                                                  {"node_selector", "a=b c"},
                                                                  {"tolerations", "a:Never"},
                                                                  {"tolerations", ":NoSchedule"},
                                                                  {"gpu", "h100"},
                                                                  {"gpu", "nvidia.com/gpu "},
                                                                  {"image", "a b"},
                                                                  {"run_as_user", "0"},
                                                                  {"run_as_user", "me"}}) {
    const auto refused = read(name, value);
    ASSERT_FALSE(refused) << name << "=" << value;
    EXPECT_THAT(refused.error().message, AllOf(HasSubstr(name), HasSubstr(value)));
    EXPECT_FALSE(refused.error().hint.empty());
  }
}

TEST(KubernetesImages, HaveThePythonOfTheProgram) {
  PoolSpec spec;
  EXPECT_EQ(standard_image(spec), "debian:bookworm-slim");
  spec.runtime.python = "/usr/bin/python3";
  spec.runtime.environment["SKYWARD_CLIENT_PYTHON"] = "3.12.4";
  spec.image.python = "auto";
  EXPECT_EQ(standard_image(spec), "python:3.12-slim");
  spec.image.python = "3.11";
  EXPECT_EQ(standard_image(spec), "python:3.11-slim");
}

}  // namespace
}  // namespace skyward::provider::kubernetes

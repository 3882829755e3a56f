#include "skyward/provider/slurm/partitions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace skyward::provider::slurm {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ProviderSpec with(const std::string& name, const std::string& value) {
  return {.name = "slurm", .settings = {{name, value}}};
}

TEST(SlurmGpus, AreReadAsSitesWriteThem) {
  const auto read = [](std::string_view gres) {
    const Gpus gpus = gpus_in(gres);
    return gpus.type + "/" + std::to_string(gpus.count);
  };
  EXPECT_EQ(read("gpu:h100:4"), "h100/4");
  EXPECT_EQ(read("gpu:h100:4(S:0-1)"), "h100/4");
  EXPECT_EQ(read("shard:8,gpu:a100_80gb:2(S:0,2)"), "a100_80gb/2");
  EXPECT_EQ(read("gpu:8"), "/8");
  EXPECT_EQ(read("gpu:titan"), "titan/1");
  EXPECT_EQ(read("gpu"), "/1");
  EXPECT_EQ(read(""), "/0");
  EXPECT_EQ(read("gpuish:3"), "/0");
}

TEST(SlurmWishes, AreCheckedBeforeAnythingIsAsked) {
  EXPECT_EQ(read_wishes(with("time", "8:00:00"))->time, 8h);
  EXPECT_FALSE(read_wishes(with("time", "tomorrow")));
  EXPECT_FALSE(read_wishes(with("time", "0")));
  EXPECT_TRUE(read_wishes(with("extra", "--constraint=a,b\n--reservation=x")));
  for (const char* word : {"--job-name=x", "-Jx", "-N", "--array=1-3", "--requeue", "sleep"}) {
    EXPECT_FALSE(read_wishes(with("extra", word))) << word;
  }
  EXPECT_THAT(read_wishes(with("extra", "sleep")).error().hint, HasSubstr("--constraint=a100"));
  for (const char* word : {"--ntasks=8", "-n8", "-n", "--ntasks-per-node=4", "--gpus-per-task=1"}) {
    const auto crowded = read_wishes(with("extra", word));
    ASSERT_FALSE(crowded) << word;
    EXPECT_THAT(crowded.error().hint, HasSubstr("use concurrency=")) << word;
  }
  EXPECT_TRUE(read_wishes(with("extra", "--nodelist=n1\n--ntasks-per-core=1")));
  for (const char* word : {"--clusters=gpu", "--cluster=gpu", "-Mgpu", "-M"}) {
    const auto elsewhere = read_wishes(with("extra", word));
    ASSERT_FALSE(elsewhere) << word;
    EXPECT_THAT(elsewhere.error().hint, HasSubstr("a login node of that cluster")) << word;
  }
}

std::vector<NodeGroup> two_partitions() {
  return {{.partition = "cpu", .up = true, .nodes = 9, .cpus = 64, .memory_mb = 256'000},
          {.partition = "gpu",
           .up = true,
           .nodes = 3,
           .cpus = 96,
           .memory_mb = 1'024'000,
           .gres = "gpu:h100_80gb_hbm3:8",
           .most_time = 8h},
          {.partition = "old", .up = false, .nodes = 9, .cpus = 4, .memory_mb = 9'000}};
}

TEST(SlurmShelves, AreThePartitionsThatTakeJobs) {
  const auto all = candidates_of(two_partitions(), {}, "c1");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].offer.instance_type, "cpu");
  EXPECT_EQ(all[1].offer.instance_type, "gpu:h100_80gb_hbm3");
  EXPECT_EQ(all[1].offer.accelerator, "H100");
  EXPECT_EQ(candidates_of(two_partitions(), {.partition = "gpu,other"}, "c1").size(), 1U);
}

TEST(SlurmShelves, OfOneTypeCountWhereTheyHaveWhatTheJobTakes) {
  const auto group = [](int nodes, int cpus, const char* gres) {
    return NodeGroup{.partition = "mixed",
                     .up = true,
                     .nodes = nodes,
                     .cpus = cpus,
                     .memory_mb = 65'536,
                     .gres = gres};
  };
  const std::vector<NodeGroup> groups = {group(2, 16, "gpu:2"), group(5, 64, "gpu:8")};
  const auto all = candidates_of(groups, {}, "c1");
  ASSERT_EQ(all[0].offer.instance_type, all[1].offer.instance_type);
  Offer offer{.instance_type = "mixed", .cpus = 8, .memory_gb = 32, .accelerator_count = 1};
  EXPECT_EQ(nodes_for(all, {}, offer), 7);
  offer.accelerator_count = 4;
  EXPECT_EQ(nodes_for(all, {}, offer), 5);
  EXPECT_EQ(nodes_for(all, {.gres = "gpu:4"}, offer), 7) << "the user's own affair";
  offer.cpus = 32;
  EXPECT_EQ(nodes_for(all, {.gres = "gpu:4"}, offer), 5);
  offer.memory_gb = 65;
  EXPECT_EQ(nodes_for(all, {}, offer), 0);
}

std::vector<std::string> names_of(const Result<std::vector<Offer>>& offers) {
  std::vector<std::string> names;
  if (!offers) return names;
  for (const Offer& offer : *offers) names.push_back(offer.instance_type);
  return names;
}

TEST(SlurmShelves, PartitionsOfAGpuAreNotSoldAsWholeOnes) {
  std::vector<NodeGroup> groups = two_partitions();
  PoolSpec spec;
  for (const auto& [gres, model] :
       {std::pair("gpu:nvidia_h100_80gb_hbm3_1g.10gb:8", "H100"),
        std::pair("gpu:a100_3g.20gb:4", "A100"), std::pair("gpu:a30_1g.6gb+me:4", "A30")}) {
    groups[1].gres = gres;
    const auto all = candidates_of(groups, {}, "c1");
    spec.accelerator = *catalogue_accelerator(model);
    EXPECT_FALSE(fitting_candidates(all, {}, spec)) << all[1].offer.accelerator;
  }
  groups[1].gres = "gpu:a100_3g.20gb:4";
  const auto all = candidates_of(groups, {}, "c1");
  EXPECT_EQ(all[1].offer.accelerator, "a100 3g.20gb");
  spec.accelerator = Accelerator{.name = "a100_3g.20gb", .custom = true};
  EXPECT_THAT(names_of(fitting_candidates(all, {}, spec)), ElementsAre("gpu:a100_3g.20gb"));
  EXPECT_EQ(request_of(all[1], {}, spec)->gres, "gpu:a100_3g.20gb:1");
}

TEST(SlurmShelves, ThatEndJobsTooSoonAreLeftOutWhileAnotherFits) {
  const auto group = [](const char* name, Duration most, int cpus = 64) {
    return NodeGroup{.partition = name,
                     .up = true,
                     .nodes = 3,
                     .cpus = cpus,
                     .memory_mb = 65'536,
                     .most_time = most};
  };
  std::vector<NodeGroup> groups = {group("debug", 30min), group("main", 48h), group("open", 0s)};
  auto all = candidates_of(groups, {}, "c1");
  PoolSpec spec;
  spec.timeout = 1h;
  EXPECT_THAT(names_of(fitting_candidates(all, {}, spec)), ElementsAre("main", "open"));
  EXPECT_THAT(names_of(fitting_candidates(all, {.time = 20min}, spec)),
              ElementsAre("debug", "main", "open"));
  spec.timeout = 0s;
  EXPECT_THAT(names_of(fitting_candidates(all, {}, spec)), ElementsAre("debug", "main", "open"));
  // Only the first two have what the pool needs.
  spec.timeout = 72h;
  spec.cpus = 32;
  groups.back() = group("small", 0s, 16);
  all = candidates_of(groups, {}, "c1");
  EXPECT_THAT(names_of(fitting_candidates(all, {}, spec)), ElementsAre("debug", "main"));
  EXPECT_THAT(request_of(all[1], {}, spec).error().message, HasSubstr("at most 2 d"));
}

TEST(SlurmShelves, OfTheDefaultPartitionComeFirst) {
  std::vector<NodeGroup> groups = two_partitions();
  groups.push_back({.partition = "main",
                    .is_default = true,
                    .up = true,
                    .nodes = 9,
                    .cpus = 128,
                    .memory_mb = 512'000});
  const auto all = candidates_of(groups, {}, "c1");
  EXPECT_THAT(names_of(fitting_candidates(all, {}, {})), ElementsAre("main", "cpu"));
}

TEST(SlurmRequests, SpellGpusAsTheSiteDoes) {
  const auto all = candidates_of(two_partitions(), {}, "c1");
  PoolSpec spec;
  spec.accelerator = Accelerator{.name = "H100"};
  spec.accelerator->count = 2;
  spec.timeout = 1h;
  auto request = request_of(all[1], {}, spec);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->gres, "gpu:h100_80gb_hbm3:2");
  EXPECT_EQ(request->time, 75min);
  request = request_of(all[1], {.gres = "gpu:1,license:2"}, spec);
  EXPECT_EQ(request->gres, "gpu:1,license:2");
  spec.timeout = 8h;
  EXPECT_EQ(request_of(all[1], {}, spec)->time, 8h) << "the limit, without the grace";
  spec.timeout = 0s;
  EXPECT_EQ(request_of(all[1], {}, spec)->time, 8h) << "all that the partition gives";
  EXPECT_EQ(request_of(all[0], {}, spec)->time, 24h);
  EXPECT_EQ(request_of(all[0], {.time = 72h}, spec)->time, 72h);
  EXPECT_THAT(request_of(all[1], {.time = 9h}, spec).error().message,
              HasSubstr("accepts jobs of at most 8 h, but time= asks for 9 h"));
}

}  // namespace
}  // namespace skyward::provider::slurm

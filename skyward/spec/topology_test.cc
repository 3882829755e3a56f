#include "skyward/spec/topology.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>

namespace skyward {
namespace {

using Shards = std::vector<std::vector<std::size_t>>;

Shards shards(std::size_t count, int total, const ShardOptions& options) {
  Shards out;
  for (int index = 0; index < total; ++index) {
    out.push_back(shard_indices(count, index, total, options));
  }
  return out;
}

struct Vector {
  std::size_t count;
  int total;
  std::optional<std::uint64_t> seed;
  Shards strided;
  Shards blocks;
};

TEST(Shard, IsWhatPythonWouldGive) {
  const Vector vectors[] = {
      {10, 3, 42, {{7, 8, 9, 1}, {3, 5, 4}, {2, 6, 0}}, {{7, 3, 2}, {8, 5, 6}, {9, 4, 0}}},
      {10, 3, 0, {{7, 5, 2, 6}, {8, 3, 0}, {1, 4, 9}}, {{7, 8, 1}, {5, 3, 4}, {2, 0, 9}}},
      {9, 3, 0, {{7, 3, 0}, {5, 4, 8}, {1, 2, 6}}, {{7, 5, 1}, {3, 4, 2}, {0, 8, 6}}},
      {7, 2, 7, {{5, 4, 3, 2}, {6, 0, 1}}, {{5, 6, 4}, {0, 3, 1}}},
      {5, 4, 1, {{2, 1}, {3}, {4}, {0}}, {{2}, {3}, {4}, {0}}},
      {3, 5, 0, {{0}, {2}, {1}, {}, {}}, {{}, {}, {}, {}, {}}},
      {10, 3, {}, {{0, 3, 6, 9}, {1, 4, 7}, {2, 5, 8}}, {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}}},
      {0, 2, 0, {{}, {}}, {{}, {}}},
  };
  for (const Vector& v : vectors) {
    SCOPED_TRACE(testing::Message() << v.count << " over " << v.total);
    EXPECT_EQ(shards(v.count, v.total, {.shuffle_seed = v.seed}), v.strided);
    EXPECT_EQ(shards(v.count, v.total, {.shuffle_seed = v.seed, .drop_last = true}), v.blocks);
  }
}

// random.Random(seed).shuffle over 1000 positions, first eight, as CPython prints them.
TEST(Shard, LargeSeedsUseEveryDigit) {
  const auto front = [](std::uint64_t seed) {
    auto all = shard_indices(1000, 0, 1, {.shuffle_seed = seed});
    all.resize(8);
    return all;
  };
  using Positions = std::vector<std::size_t>;
  EXPECT_EQ(front(0xFFFFFFFFu), (Positions{562, 555, 979, 769, 629, 829, 352, 424}));
  EXPECT_EQ(front(0x100000000u), (Positions{965, 826, 276, 153, 54, 689, 734, 84}));
  EXPECT_EQ(front(UINT64_MAX), (Positions{172, 647, 434, 134, 67, 825, 373, 201}));
}

TEST(Shard, LosesAndDoublesNothing) {
  std::vector<int> seen(1001);
  for (const auto& shard : shards(seen.size(), 7, {.shuffle_seed = 3})) {
    for (const std::size_t position : shard) ++seen.at(position);
  }
  EXPECT_EQ(seen, std::vector<int>(1001, 1));
}

TEST(InstanceInfo, IsOneJsonObjectInTheAgreedOrder) {
  InstanceInfo info{.node = 1,
                    .worker = 0,
                    .total_nodes = 2,
                    .workers_per_node = 1,
                    .accelerators = {"H100-80GB", "H100-80GB"},
                    .total_accelerators = 4,
                    .head_addr = "10.0.0.5",
                    .head_port = 29500,
                    .job_id = "1a2b3c4d",
                    .peers = {{0, "10.0.0.5"}, {1, "10.0.0.6"}}};
  EXPECT_EQ(to_json(info),
            R"({"node":1,"worker":0,"total_nodes":2,"workers_per_node":1,)"
            R"("accelerators":["H100-80GB","H100-80GB"],"total_accelerators":4,)"
            R"("head_addr":"10.0.0.5","head_port":29500,"job_id":"1a2b3c4d",)"
            R"("peers":[{"node":0,"private_ip":"10.0.0.5"},{"node":1,"private_ip":"10.0.0.6"}],)"
            R"("accelerator":{"type":"H100-80GB","count":2,"is_trainium":false},"network":{}})");
  info.accelerators = {"Trainium2"};
  EXPECT_TRUE(
      to_json(info).contains(R"("accelerator":{"type":"Trainium2","count":1,"is_trainium":true})"));
}

TEST(InstanceInfo, WithoutAccelerators) {
  EXPECT_EQ(to_json(InstanceInfo{.head_addr = "127.0.0.1", .head_port = 1, .job_id = "00000000"}),
            R"({"node":0,"worker":0,"total_nodes":1,"workers_per_node":1,"accelerators":[],)"
            R"("total_accelerators":0,"head_addr":"127.0.0.1","head_port":1,"job_id":"00000000",)"
            R"("peers":[],"accelerator":null,"network":{}})");
  EXPECT_TRUE(to_json(InstanceInfo{.no_network_of = "Command"})
                  .ends_with(R"("network":{"missing":"Command"}})"));
}

TEST(InstanceInfo, RanksCountWorkersNotNodes) {
  const InstanceInfo info{.node = 1, .worker = 2, .total_nodes = 3, .workers_per_node = 4};
  EXPECT_EQ(info.global_worker_index(), 6);
  EXPECT_EQ(info.total_workers(), 12);
  EXPECT_FALSE(info.is_head());
  EXPECT_FALSE((InstanceInfo{.worker = 1, .workers_per_node = 2}).is_head());
  EXPECT_TRUE(InstanceInfo{}.is_head());
}

TEST(InstanceInfo, DevicesAreFilledInOnTheNode) {
  InstanceInfo info{.node = 1, .total_nodes = 3, .head_addr = "\"accelerators\":[]", .job_id = "1"};
  const std::string before = to_json(info);
  EXPECT_EQ(with_accelerators(before, {}), before);
  info.accelerators = {"H100-80GB", "H100-80GB"};
  info.total_accelerators = 6;
  EXPECT_EQ(with_accelerators(before, info.accelerators), to_json(info));
  info.accelerators = {"Trainium2"};
  info.total_accelerators = 3;
  EXPECT_EQ(with_accelerators(before, info.accelerators), to_json(info));
}

TEST(InstanceInfo, ANodeGetsAnotherAddress) {
  InstanceInfo info{.node = 1,
                    .total_nodes = 3,
                    .head_addr = "10.0.0.1",
                    .job_id = R"("head_addr":"","peers":[{"node":2,"private_ip":""}])",
                    .peers = {{0, "10.0.0.1"}, {1, "10.0.0.2"}, {2, ""}}};
  const std::string before = to_json(info);
  info.peers[2].private_ip = "10.0.0.33";
  EXPECT_EQ(with_peer(before, {2, "10.0.0.33"}), to_json(info));
  EXPECT_EQ(with_peer(to_json(info), {2, ""}), before);
  info.peers[0].private_ip = info.head_addr = "fd00::1";
  EXPECT_EQ(with_peer(with_peer(before, {2, "10.0.0.33"}), {0, "fd00::1"}), to_json(info));
  EXPECT_EQ(with_peer(before, {3, "10.0.0.4"}), before);
}

TEST(InstanceInfo, InALargePoolOnlyTheHeadIsKnown) {
  InstanceInfo info{.node = 1, .total_nodes = 2000, .head_addr = "10.0.0.1", .job_id = "1"};
  const std::string before = to_json(info);
  EXPECT_EQ(with_peer(before, {7, "10.0.0.9"}), before);
  info.head_addr = "10.0.0.9";
  EXPECT_EQ(with_peer(before, {0, "10.0.0.9"}), to_json(info));
}

}  // namespace
}  // namespace skyward

#include "skyward/provider/local/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace skyward::provider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kAnswer =
    "0, Tesla T4, 15360, GPU-0aa0, [N/A], 0\n"
    "1, NVIDIA H100 80GB HBM3, 81559, GPU-1bb1, Disabled, 400\n"
    "2, NVIDIA H100 80GB HBM3, 81559, GPU-1bc2, Disabled, 4\r\n"
    "3, NVIDIA H100 80GB HBM3, [N/A], GPU-3dd3, Disabled, [N/A]\n"
    "\nNo devices were found\n";

TEST(Devices, AreReadFromRows) {
  const auto devices = parse_devices(kAnswer);
  ASSERT_EQ(devices.size(), 4U);
  EXPECT_EQ(devices[0], (Device{0, "T4", 15, "GPU-0aa0"}));
  EXPECT_EQ(devices[2].name, "H100-80GB");
  EXPECT_NEAR(devices[2].memory_gb, 79.6, 0.1);
  EXPECT_EQ(devices[3].memory_gb, 0);
  EXPECT_TRUE(parse_devices("").empty());
}

TEST(Devices, TheProgramMayBeConfinedToSome) {
  const auto seen = [](std::string_view variable) {
    std::vector<int> indices;
    for (const Device& device : visible_devices(parse_devices(kAnswer), variable)) {
      indices.push_back(device.index);
    }
    return indices;
  };
  EXPECT_THAT(seen("3"), ElementsAre(3));
  EXPECT_THAT(seen("2, 0"), ElementsAre(2, 0));
  EXPECT_THAT(seen("GPU-3dd3,GPU-1b"), ElementsAre(3, 1));
  EXPECT_THAT(seen("1,-1,2"), ElementsAre(1));
  EXPECT_THAT(seen("1,9,2"), ElementsAre(1));
  EXPECT_TRUE(seen("").empty());
  EXPECT_TRUE(seen("MIG-1bb1").empty());
  const auto confined = visible_devices(parse_devices(kAnswer), "0,2");
  EXPECT_THAT(
      choose_devices(confined, {.name = "H100", .count = 2}, 1, false).error().message,
      HasSubstr("needs 2 on this machine, where CUDA_VISIBLE_DEVICES leaves 1 H100-80GB, 1"));
}

TEST(Devices, EveryNodeGetsItsOwn) {
  const auto devices = parse_devices(kAnswer);
  const Accelerator one{.name = "H100"};
  const auto chosen = choose_devices(devices, one, 3);
  ASSERT_TRUE(chosen);
  EXPECT_THAT(*chosen, ElementsAre(1, 2, 3));
  EXPECT_EQ(devices_of_node(*chosen, 1, 0), "1");
  EXPECT_EQ(devices_of_node(*chosen, 1, 2), "3");
  EXPECT_EQ(devices_of_node(*chosen, 2, 0), "1,2");
  EXPECT_EQ(devices_of_node(*choose_devices(devices, {.name = "T4"}, 1), 1, 0), "0");
}

TEST(Devices, ThoseThatOthersUseComeLast) {
  const auto devices = parse_devices(
      "0, NVIDIA H100 80GB HBM3, 81559, GPU-0, Disabled, 70000\n"
      "1, NVIDIA H100 80GB HBM3, 81559, GPU-1, Disabled, 490\n"
      "2, NVIDIA H100 80GB HBM3, 81559, GPU-2, Disabled, 900\n"
      "3, NVIDIA H100 80GB HBM3, 81559, GPU-3, Disabled, 1\n");
  EXPECT_THAT(*choose_devices(devices, {.name = "H100"}, 4), ElementsAre(1, 3, 2, 0));
}

TEST(Devices, SharesOfOneAreSharedByNodes) {
  const auto devices = parse_devices(kAnswer);
  const Accelerator half{.name = "H100", .count = 0.5};
  const auto chosen = choose_devices(devices, half, 3);
  ASSERT_TRUE(chosen);
  EXPECT_THAT(*chosen, ElementsAre(1, 2));
  EXPECT_EQ(devices_of_node(*chosen, 0.5, 0), "1");
  EXPECT_EQ(devices_of_node(*chosen, 0.5, 1), "1");
  EXPECT_EQ(devices_of_node(*chosen, 0.5, 2), "2");
  EXPECT_EQ(choose_devices(devices, {.name = "T4", .count = 0.1}, 10)->size(), 1U);
}

TEST(Devices, NoMoreNodesShareOneThanFit) {
  struct Row {
    double count;
    int nodes;
    std::vector<std::string> of_nodes;
  };
  const auto devices = parse_devices(kAnswer);
  for (const auto& [count, nodes, of_nodes] :
       {Row{.count = 0.6, .nodes = 2, .of_nodes = {"1", "2"}},
        Row{.count = 0.4, .nodes = 5, .of_nodes = {"1", "1", "2", "2", "3"}},
        Row{.count = 0.3, .nodes = 4, .of_nodes = {"1", "1", "1", "2"}}}) {
    const auto chosen = choose_devices(devices, {.name = "H100", .count = count}, nodes);
    ASSERT_TRUE(chosen) << chosen.error().message;
    std::vector<std::string> given;
    given.reserve(of_nodes.size());
    for (int node = 0; node < nodes; ++node) given.push_back(devices_of_node(*chosen, count, node));
    EXPECT_EQ(given, of_nodes) << count;
    EXPECT_EQ(of_nodes.back(), std::to_string(chosen->back())) << count;
  }
  EXPECT_THAT(choose_devices(devices, {.name = "T4", .count = 0.6}, 2).error().message,
              HasSubstr("need 2 on this machine"));
}

TEST(Devices, SplitOnesAreForThosePartitionsOnly) {
  auto devices = parse_devices(
      "0, NVIDIA H100 80GB HBM3, 81559, GPU-0, Enabled, 0\n"
      "1, NVIDIA H100 80GB HBM3, 81559, GPU-1, Disabled, 0\n"
      "2, NVIDIA H100 80GB HBM3, 81559, GPU-2, Enabled, 0\n"
      "3, NVIDIA H100 80GB HBM3, 81559, GPU-3, Enabled, 0\n");
  const Accelerator whole{.name = "H100"};
  EXPECT_THAT(*choose_devices(devices, whole, 1), ElementsAre(1));
  const Error too_few = choose_devices(devices, whole, 2).error();
  EXPECT_THAT(too_few.message,
              HasSubstr("has 4 H100-80GB; GPU 0 is split; GPU 2 is split; GPU 3 is split"));
  EXPECT_THAT(too_few.hint, HasSubstr("'sudo nvidia-smi -i 0,2,3 -mig 0'"));

  add_partitions(devices,
                 "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)\n"
                 "  MIG 4g.40gb     Device  0: (UUID: MIG-a)\n"
                 "  MIG 2g.20gb     Device  1: (UUID: MIG-b)\n"
                 "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n"
                 "GPU 2: NVIDIA H100 80GB HBM3 (UUID: GPU-2)\n"
                 "  MIG 3g.40gb     Device  0: (UUID: MIG-c)\n"
                 "  MIG 3g.40gb     Device  1: (UUID: MIG-d)\n"
                 "GPU 3: NVIDIA H100 80GB HBM3 (UUID: GPU-3)\n");
  EXPECT_THAT(devices[0].partitions, ElementsAre("2g.20gb", "4g.40gb"));
  const Accelerator halves{.name = "H100", .mig = "3g.40gb"};
  EXPECT_THAT(*choose_devices(devices, halves, 3), ElementsAre(2, 1, 3));
  const Error others = choose_devices(devices, halves, 4).error();
  EXPECT_THAT(others.message, HasSubstr("; GPU 0 is split into 2g.20gb, 4g.40gb"));
  EXPECT_THAT(others.hint,
              HasSubstr("'sudo nvidia-smi mig -i 0 -dci; sudo nvidia-smi mig -i 0 -dgi'"));
  const Accelerator mixed{.name = "H100", .mig = std::vector<std::string>{"4g.40gb", "2g.20gb"}};
  EXPECT_THAT(*choose_devices(devices, mixed, 1), ElementsAre(0));
}

TEST(Devices, TooFewAreNamed) {
  const auto devices = parse_devices(kAnswer);
  const Error error = choose_devices(devices, {.name = "H100", .count = 2}, 2).error();
  EXPECT_EQ(error.kind, ErrorKind::invalid);
  EXPECT_EQ(error.message,
            "accelerator: 2 nodes with 2 H100 need 4 on this machine, which has 3 H100-80GB, 1 T4");
  EXPECT_THAT(choose_devices({}, {.name = "A100"}, 1).error().message,
              HasSubstr("1 node with 1 A100 needs 1 on this machine, which has none"));
}

}  // namespace
}  // namespace skyward::provider

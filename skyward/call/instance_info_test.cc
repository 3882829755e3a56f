#include "skyward/call/instance_info.h"

#include <gtest/gtest.h>

#include <string>

#include "skyward/call/error.h"

namespace skyward {
namespace {

TEST(InstanceInfo, ReadsComputePool) {
  InstanceInfo told{.node = 1,
                    .worker = 2,
                    .total_nodes = 2,
                    .workers_per_node = 3,
                    .accelerators = {"H100", "H100"},
                    .total_accelerators = 4,
                    .head_addr = "10.0.0.5",
                    .head_port = 29501,
                    .job_id = "1a2b3c4d",
                    .peers = {{0, "10.0.0.5"}, {1, "10.0.0.6"}},
                    .no_network_of = "a \"cloud\""};
  EXPECT_EQ(parse_instance_info(to_json(told)), told);
  told.accelerators = {};
  told.no_network_of = {};
  EXPECT_EQ(parse_instance_info(to_json(told)), told);
  EXPECT_FALSE(told.is_head());
  EXPECT_EQ(parse_instance_info("{}").error().kind, ErrorKind::invalid);
  EXPECT_EQ(parse_instance_info("not JSON").error().kind, ErrorKind::invalid);
}

TEST(InstanceInfo, IsAsTheAgentHasToldItLast) {
  const std::string before = instance_info_text();
  const InstanceInfo& first = instance_info();
  const int nodes = first.total_nodes;
  InstanceInfo told{.node = 1, .total_nodes = 7, .head_addr = "10.0.0.9", .job_id = "1a2b3c4d"};
  set_instance_info(to_json(told));
  EXPECT_EQ(instance_info(), told);
  EXPECT_EQ(instance_info_text(), to_json(told));
  EXPECT_EQ(first.total_nodes, nodes) << "what was returned before stays";
  set_instance_info("not JSON");
  EXPECT_THROW(instance_info(), ConfigurationError);
  set_instance_info(before);
  EXPECT_EQ(instance_info().total_nodes, nodes);
}

}  // namespace
}  // namespace skyward

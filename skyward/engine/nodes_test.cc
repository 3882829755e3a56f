#include "skyward/engine/nodes.h"

#include <gtest/gtest.h>

namespace skyward::engine {
namespace {

// The rest is told of whole pools, in core_pool_test.cc.
TEST(Nodes, AMachineGoesUpAndIsReplacedOrNot) {
  using enum NodeState;
  EXPECT_TRUE(may_follow(absent, connecting));
  EXPECT_TRUE(may_follow(connecting, bootstrapping));
  EXPECT_TRUE(may_follow(bootstrapping, ready));
  for (const NodeState up : {connecting, bootstrapping, ready}) {
    EXPECT_TRUE(may_follow(up, absent)) << "lost";
    EXPECT_TRUE(may_follow(up, gone)) << "lost for good";
  }
  for (const NodeState next : {absent, connecting, bootstrapping, ready, stopping, gone}) {
    EXPECT_FALSE(may_follow(gone, next));
    EXPECT_EQ(may_follow(stopping, next), next == gone || next == absent);
  }
}

TEST(NodesDeathTest, AWrongStepIsABug) {
  Nodes nodes(1);
  EXPECT_DEATH(nodes.lose(NodeId{0}, Time{}), "node 0: 0 after 0");
}

}  // namespace
}  // namespace skyward::engine

#include "skyward/cli/clouds.h"

#include <gtest/gtest.h>

#include "skyward/provider/world_fixture.h"

namespace skyward::cli {
namespace {

using namespace std::chrono_literals;

TEST(CloudsHere, AClusterIsInUseWhereDockerAloneProvesNothing) {
  provider::WorldFixture fixture;
  fixture.variables["PATH"] = "/usr/bin";
  fixture.files["/usr/bin/docker"] = "";
  const auto docker = clouds_here(fixture.world, "", fixture.now + 1min);
  ASSERT_TRUE(docker) << docker.error().message;
  EXPECT_FALSE(docker->in_use);
  fixture.files["/usr/bin/kubectl"] = "";
  fixture.files["/home/.kube/config"] = "";
  const auto cluster = clouds_here(fixture.world, "", fixture.now + 1min);
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_TRUE(cluster->in_use);
}

}  // namespace
}  // namespace skyward::cli

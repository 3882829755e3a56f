#include "skyward/spec/pool_spec.h"

#include <gtest/gtest.h>

#include <cmath>

#include "skyward/spec/limits.h"

namespace skyward {
namespace {

PoolSpec good() {
  PoolSpec spec;
  spec.runtime.command = {"{python}", "-m", "skyward.worker"};
  spec.agent_path = "/opt/skyward-agent";
  return spec;
}

// The message of the one thing that is wrong.
std::string refusal(const PoolSpec& spec) {
  const Status status = validate(spec);
  if (status) return "accepted";
  EXPECT_EQ(status.error().kind, ErrorKind::invalid);
  EXPECT_FALSE(status.error().hint.empty()) << status.error().message;
  return status.error().message;
}

TEST(PoolSpec, TheBoundsThemselvesAreAllowed) {
  PoolSpec spec = good();
  EXPECT_TRUE(validate(spec));
  spec.nodes = kMaxNodes;
  spec.concurrency = kMaxConcurrency;
  spec.timeout = 1h;
  spec.env = {{"A_1", "x y"}};
  EXPECT_TRUE(validate(spec));
}

TEST(PoolSpec, RefusalsNameTheValueAndWhatIsAllowed) {
  PoolSpec spec = good();
  spec.nodes = 0;
  EXPECT_EQ(refusal(spec), "nodes=0 is out of range: it must be 1 to 10000");
  spec.nodes = kMaxNodes + 1;
  EXPECT_EQ(refusal(spec), "nodes=10001 is out of range: it must be 1 to 10000");

  spec = good();
  spec.concurrency = -2;
  EXPECT_EQ(refusal(spec), "concurrency=-2 is out of range: it must be 1 to 1024");
  spec.concurrency = 1025;
  EXPECT_EQ(refusal(spec), "concurrency=1025 is out of range: it must be 1 to 1024");

  spec = good();
  spec.timeout = -1500ms;
  EXPECT_EQ(refusal(spec), "timeout=-1.5 s is negative: it is the lifetime of the pool's machines");

  spec = good();
  spec.env = {{"1A", ""}};
  EXPECT_EQ(refusal(spec), "env: \"1A\" is not a valid environment variable name");

  spec = good();
  spec.runtime.environment = {{"A=", ""}};
  EXPECT_EQ(refusal(spec), "runtime.environment: \"A=\" is not a valid environment variable name");

  spec = good();
  spec.image.pip = {"-r"};
  EXPECT_EQ(refusal(spec), "Image(pip=[\"-r\"]) is not a package requirement");

  spec = good();
  spec.provider.name.clear();
  EXPECT_EQ(refusal(spec), "no provider is named");

  spec = good();
  spec.runtime.command.clear();
  EXPECT_EQ(refusal(spec), "runtime.command is empty: nothing says how to start a worker");

  spec = good();
  spec.agent_path.clear();
  EXPECT_EQ(refusal(spec), "agent_path is empty: the skyward-agent program was not found");

  spec = good();
  spec.heartbeat_timeout = {};
  EXPECT_EQ(refusal(spec), "heartbeat_timeout=0 s is out of range: it must be 0.01 to 1e+07 s");
  spec = good();
  spec.lease = -std::chrono::seconds(1);
  EXPECT_EQ(refusal(spec), "lease=-1 s is out of range: it must be 0.01 to 1e+07 s");
  spec.lease = std::chrono::seconds(20'000'000);
  EXPECT_EQ(refusal(spec), "lease=2e+07 s is out of range: it must be 0.01 to 1e+07 s");
}

TEST(PoolSpec, WhatEachMachineMustHave) {
  PoolSpec spec = good();
  spec.accelerator = Accelerator{.name = "H100", .count = 2, .mig = "3g.40gb"};
  spec.cpus = 4;
  spec.memory_mb = 1024;
  spec.architecture = "arm64";
  spec.max_hourly_cost = 12.5;
  spec.volumes = {{.mount_path = "/data", .bucket = "my-bucket"}};
  EXPECT_TRUE(validate(spec));
  EXPECT_EQ(workers_per_node(spec), 4);
  EXPECT_EQ(workers_per_node(good()), 1);

  spec.accelerator->name = "H1OO";
  EXPECT_EQ(refusal(spec), "there is no accelerator named \"H1OO\"");
  spec = good();
  spec.cpus = -1;
  EXPECT_EQ(refusal(spec), "cpu=-1 is out of range");
  spec = good();
  spec.memory_mb = -1;
  EXPECT_EQ(refusal(spec), "memory=-1 MB is negative");
  spec = good();
  spec.architecture = "vax";
  EXPECT_EQ(refusal(spec), "architecture=\"vax\" is not known");
  spec = good();
  spec.max_hourly_cost = 0;
  EXPECT_EQ(refusal(spec), "max_hourly_cost=0 is not an amount of money");
  spec = good();
  spec.budget = -5;
  EXPECT_EQ(refusal(spec), "budget=-5 is not an amount of money");
  spec.budget = std::nan("");
  EXPECT_EQ(refusal(spec), "budget=nan is not an amount of money");
  spec = good();
  spec.spot = Spot::Percent(2);
  EXPECT_EQ(refusal(spec), "spot=2 is not a share: it must be from 0 to 1");
  spec = good();
  spec.volumes = {{.mount_path = "/", .bucket = "my-bucket"}};
  EXPECT_EQ(refusal(spec), "volume: mount_path=\"/\" would hide a part of the system");
  spec = good();
  spec.provider = {.name = "aws", .settings = {{"use_ssm", "perhaps"}}};
  EXPECT_EQ(refusal(spec), "AWS(use_ssm=\"perhaps\") is not valid");
}

}  // namespace
}  // namespace skyward

#include "skyward/spec/event.h"

#include <gtest/gtest.h>

namespace skyward {
namespace {

TEST(Event, EachIsCalledWhatTheFaceCallsIt) {
  EXPECT_EQ(event_name(PoolStarted{}), "PoolStarted");
  EXPECT_EQ(event_name(InfraCreating{}), "InfraCreating");
  EXPECT_EQ(event_name(InfraCreated{}), "InfraCreated");
  EXPECT_EQ(event_name(RegionAutoSelected{}), "RegionAutoSelected");
  EXPECT_EQ(event_name(InstanceLaunching{}), "InstanceLaunching");
  EXPECT_EQ(event_name(InstanceProvisioned{}), "InstanceProvisioned");
  EXPECT_EQ(event_name(ProvisioningCompleted{}), "ProvisioningCompleted");
  EXPECT_EQ(event_name(BootstrapStarting{}), "BootstrapStarting");
  EXPECT_EQ(event_name(BootstrapProgress{}), "BootstrapProgress");
  EXPECT_EQ(event_name(BootstrapCompleted{}), "BootstrapCompleted");
  EXPECT_EQ(event_name(TaskPoolInitCompleted{}), "TaskPoolInitCompleted");
  EXPECT_EQ(event_name(ClusterSetupCompleted{}), "ClusterSetupCompleted");
  EXPECT_EQ(event_name(Metrics{}), "Metrics");
  EXPECT_EQ(event_name(LogLine{}), "LogLine");
  EXPECT_EQ(event_name(TaskStarted{}), "TaskStarted");
  EXPECT_EQ(event_name(TaskFinished{}), "TaskFinished");
  EXPECT_EQ(event_name(TaskFailed{}), "TaskFailed");
  EXPECT_EQ(event_name(PoolStopping{}), "PoolStopping");
  EXPECT_EQ(event_name(InstanceStopping{}), "InstanceStopping");
  EXPECT_EQ(event_name(InstancePreempted{}), "InstancePreempted");
  EXPECT_EQ(event_name(InstanceReplaced{}), "InstanceReplaced");
  EXPECT_EQ(event_name(CostUpdate{}), "CostUpdate");
  EXPECT_EQ(event_name(BudgetWarning{}), "BudgetWarning");
  EXPECT_EQ(event_name(CostFinal{}), "CostFinal");
  EXPECT_EQ(event_name(PoolStopped{}), "PoolStopped");
  EXPECT_EQ(event_name(Notice{}), "Notice");
  EXPECT_EQ(event_name(ErrorEvent{}), "Error");
}

}  // namespace
}  // namespace skyward

#include "doubles/kubernetes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "doubles/cloud_fixture.h"
#include "doubles/kubectl.h"

namespace skyward::doubles {
namespace {

using ::testing::HasSubstr;

class KubernetesDouble : public ::testing::Test {
 protected:
  KubernetesDouble() {
    cluster_.namespaces["team"] = {{"metadata", {{"name", "team"}, {"labels", Json::object()}}}};
    cluster_.add_node("n1", {{"cpu", "8"}, {"memory", "32Gi"}, {"nvidia.com/gpu", "2"}});
  }
  void TearDown() override { EXPECT_EQ(asking_.violations(), ""); }

  static Json pod(const std::string& name, Json resources) {
    const Json container{
        {"name", "node"}, {"image", "any"}, {"resources", {{"limits", std::move(resources)}}}};
    return {{"apiVersion", "v1"},
            {"kind", "Pod"},
            {"metadata", {{"name", name}}},
            {"spec", {{"containers", Json::array({container})}}}};
  }
  std::string phase(const std::string& name) {
    return asking_.get(kPods + ("/" + name)).body["status"]["phase"];
  }

  static constexpr const char* kPods = "/api/v1/namespaces/team/pods";
  Kubernetes cluster_;
  Asking asking_{cluster_};
};

TEST_F(KubernetesDouble, PodsWaitForWhatOthersHaveAsked) {
  EXPECT_EQ(asking_.post(kPods, pod("a", {{"nvidia.com/gpu", "2"}})).status, 201);
  EXPECT_EQ(asking_.post(kPods, pod("b", {{"nvidia.com/gpu", "1"}})).status, 201);
  asking_.wait(std::chrono::minutes(1));
  EXPECT_EQ(phase("a"), "Running");
  EXPECT_EQ(phase("b"), "Pending");
  EXPECT_THAT(asking_.get(std::string(kPods) + "/b").text,
              HasSubstr("0/1 nodes are available: 1 Insufficient nvidia.com/gpu."));
  EXPECT_EQ(asking_.remove(std::string(kPods) + "/a").status, 200);
  asking_.wait(std::chrono::minutes(1));
  EXPECT_EQ(asking_.get(std::string(kPods) + "/a").status, 404);
  asking_.wait(std::chrono::minutes(1));
  EXPECT_EQ(phase("b"), "Running");
}

TEST_F(KubernetesDouble, APodEndsWhenItsDeadlineIsOver) {
  Json one = pod("a", {{"cpu", "1"}});
  one["spec"]["activeDeadlineSeconds"] = 60;
  EXPECT_EQ(asking_.post(kPods, one).status, 201);
  asking_.wait(std::chrono::seconds(80));
  EXPECT_EQ(phase("a"), "Running");
  asking_.wait(std::chrono::seconds(20));
  EXPECT_THAT(asking_.get(std::string(kPods) + "/a").text, HasSubstr("DeadlineExceeded"));
}

TEST_F(KubernetesDouble, WhatNoApiServerTakesIsAViolation) {
  Json one = pod("a", {{"cpu", "1"}});
  one["spec"]["activeDeadlineSecond"] = 60;
  EXPECT_EQ(asking_.post(kPods, one).status, 400);
  EXPECT_THAT(asking_.violations(), HasSubstr("activeDeadlineSecond"));
  EXPECT_EQ(asking_.post(kPods, pod("A", {{"cpu", "1"}})).status, 422);
  EXPECT_THAT(asking_.violations(), HasSubstr("metadata.name"));
}

// tests/kubernetes/test_api.py holds the real kubectl to the same table.
TEST_F(KubernetesDouble, KubectlSaysWhatTheRealOneSays) {
  std::ifstream file(SKYWARD_KUBECTL_SAYS);
  const Json steps = Json::parse(file, nullptr, false);
  ASSERT_TRUE(steps.is_array());
  Kubectl kubectl(cluster_, [this] { return asking_.now; }, [](Duration) {});
  kubectl.context = "lab";
  kubectl.name_space = "team";
  for (const Json& step : steps) {
    SCOPED_TRACE(step["words"].dump());
    cluster_.forbidden = step.value("forbidden", std::set<std::string>());
    cluster_.dials.fail = step.value("/dials/fail"_json_pointer, 0.0);
    Kubectl::Words words{"kubectl", "--request-timeout=30s"};
    for (const Json& word : step["words"]) words.push_back(word);
    const CommandReply said = kubectl.run(words, step.value("input", Json()).dump());
    EXPECT_EQ(said.code, step.value("code", 0));
    std::string out;
    for (const Json& line : step.value("out", Json::array())) {
      out += line.get<std::string>() + "\n";
    }
    EXPECT_EQ(said.out, out);
    for (const Json& line : step.value("err", Json::array())) {
      std::string err = said.err;
      const std::string creating = "error when creating \"STDIN\": ";
      if (const auto at = err.find(creating); at != std::string::npos) {
        err.erase(at, creating.size());
      }
      EXPECT_EQ(err, line.get<std::string>() + "\n");
    }
  }
}

}  // namespace
}  // namespace skyward::doubles

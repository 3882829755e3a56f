#include "skyward/provider/kubernetes/kubernetes_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace skyward::provider::kubernetes {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(KubernetesReplies, APodIsReadFromItsStatus) {
  const auto pods = read_pods(R"({"kind": "List", "items": [
    {"metadata": {"name": "a", "deletionTimestamp": "2023-11-14T22:13:20Z"},
     "spec": {"nodeName": "n1"},
     "status": {"phase": "Running", "podIP": "10.1.0.7",
      "conditions": [{"type": "PodScheduled", "status": "True"},
                     {"type": "DisruptionTarget", "status": "True", "reason": "R", "message": "m"}],
      "containerStatuses": [{"name": "node", "state": {"running": {}}}]}},
    {"metadata": {"name": "b"},
     "status": {"phase": "Failed",
      "containerStatuses": [{"name": "node",
                             "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}},
    {"metadata": {}}]})");
  ASSERT_THAT(pods, SizeIs(2));
  EXPECT_EQ(pods[0], (Pod{.name = "a",
                          .node = "n1",
                          .phase = "Running",
                          .ip = "10.1.0.7",
                          .deleted_s = 1'700'000'000,
                          .disrupted = Reason{"R", "m"},
                          .runs = true}));
  EXPECT_EQ(pods[1].ended, (Reason{"OOMKilled", "exit code 137"}));
}

TEST(KubernetesReplies, TheContainerOfAMeshSaysNothingAboutOurs) {
  const auto beside_mesh = [](const std::string& ours) {
    const auto pods = read_pods(R"({"kind": "Pod", "metadata": {"name": "a"}, "status": {
        "phase": "Running", "containerStatuses": [
          {"name": "istio-proxy", "state": {"running": {}}},
          {"name": "node", "state": {)" +
                                ours + "}}]}}");
    return pods.empty() ? Pod{} : pods.front();
  };
  const Pod waits = beside_mesh(R"("waiting": {"reason": "ErrImagePull", "message": "no"})");
  EXPECT_EQ(waits.waiting, (Reason{"ErrImagePull", "no"}));
  EXPECT_FALSE(waits.runs);
  const Pod over = beside_mesh(R"("terminated": {"exitCode": 0, "reason": "Completed"})");
  EXPECT_EQ(over.ended, (Reason{"Completed", "exit code 0"}));
  EXPECT_FALSE(over.runs);
  EXPECT_TRUE(beside_mesh(R"("running": {})").runs);
}

TEST(KubernetesReplies, WhatIsNoneOrOfAnotherFormIsNoPod) {
  for (const char* text : {"", "[]", "{}", "null", R"({"items": 3})", R"({"items": [[], 3, null]})",
                           R"({"kind": "Pod", "metadata": {"name": 7}})"}) {
    EXPECT_THAT(read_pods(text), IsEmpty()) << text;
    EXPECT_FALSE(read_user(text)) << text;
  }
  EXPECT_THAT(read_pods(R"({"kind": "Pod", "metadata": {"name": "a"}, "status": {
      "conditions": [7], "containerStatuses": [
      {"name": "node", "state": {"waiting": 3, "terminated": []}}]}})"),
              ElementsAre(Pod{.name = "a"}));
}

TEST(KubernetesReplies, TheRequestsOfPodsAreAddedUpByNode) {
  const Usage usage = read_usage(
      "n1\t{\"cpu\":\"1\",\"nvidia.com/gpu\":\"2\"} {\"cpu\":\"500m\"}\n"
      "\t{\"cpu\":\"9\"}\n"
      "n1\t\n"
      "n2\t{\"cpu\":\"x\"} {\n"
      "n2");
  ASSERT_THAT(usage, SizeIs(2));
  EXPECT_EQ(usage.at("n1"), (Quantities{{"cpu", 1.5}, {"nvidia.com/gpu", 2}, {"pods", 2}}));
  EXPECT_EQ(usage.at("n2"), (Quantities{{"pods", 1}}));
}

TEST(KubernetesReplies, AContextWithoutANamespaceHasTheDefaultOne) {
  const auto user = read_user(R"({"contexts": [{"name": "x", "context": {"user": "jane"}}],
      "clusters": [{"cluster": {"server": "https://c"}}]})");
  EXPECT_EQ(user, (ClusterUser{"x", "https://c", "jane", "default"}));
}

// ---- Commands

class KubernetesCommands : public ::testing::Test {
 protected:
  Api api() {
    return Api(
        [this](const Words& words, std::string_view, Duration) -> Result<io::CommandResult> {
          commands_.push_back(words);
          io::CommandResult out = replies_.empty() ? io::CommandResult{} : replies_.front();
          if (!replies_.empty()) replies_.erase(replies_.begin());
          return out;
        },
        {.now = [this] { return now_; }, .pause = [this](Duration time) { now_ += time; }});
  }
  void reply(std::string out, std::string err = {}) {
    io::CommandResult one;
    one.status.code = err.empty() ? 0 : 1;
    one.out = std::move(out);
    one.err = std::move(err);
    replies_.push_back(std::move(one));
  }

  Time now_{};
  std::vector<Words> commands_;
  std::vector<io::CommandResult> replies_;
};

TEST_F(KubernetesCommands, WhatAnEarlierTryHasCreatedCountsAsCreated) {
  reply("pod/a\n", "unexpected error when reading response body. Please retry: unexpected EOF\n");
  reply("",
        "Error from server (AlreadyExists): pods \"a\" already exists\n"
        "Error from server (AlreadyExists): error when creating \"STDIN\": pods \"b\" already "
        "exists\n");
  const Api::Created made = api().create("{}", 2, now_ + 60s);
  EXPECT_FALSE(made.trouble) << made.trouble->message;
  EXPECT_THAT(made.names, ElementsAre("a", "b"));
}

TEST_F(KubernetesCommands, ARefusalIsNotRepeated) {
  reply("pod/a\n", "Error from server (Forbidden): pods \"b\" is forbidden: exceeded quota: q\n");
  const Api::Created made = api().create("{}", 2, now_ + 60s);
  ASSERT_TRUE(made.trouble);
  EXPECT_EQ(made.trouble->refusal, Refusal::quota);
  EXPECT_THAT(made.names, ElementsAre("a"));
  EXPECT_THAT(commands_, SizeIs(1));
}

TEST_F(KubernetesCommands, OnlyThoseThatAreLeftAreDeletedAgain) {
  reply("pod/a\n",
        "Error from server (InternalError): no\n"
        "Error from server (NotFound): pods \"c\" not found\n");
  reply("pod/b\n");
  const auto heard = api().remove({"a", "b", "c"}, now_ + 60s);
  ASSERT_TRUE(heard);
  EXPECT_THAT(*heard, ElementsAre("a", "b"));
  ASSERT_THAT(commands_, SizeIs(2));
  EXPECT_THAT(commands_[1], ElementsAre("delete", "pods", "b", "--now", "--wait=false",
                                        "--output=name", "--request-timeout=30s"));
}

TEST_F(KubernetesCommands, NothingIsRunWithoutTime) {
  const auto pods = api().pods("a=b", now_);
  ASSERT_FALSE(pods);
  EXPECT_EQ(pods.error().kind(), ErrorKind::timeout);
  EXPECT_THAT(commands_, IsEmpty());
}

}  // namespace
}  // namespace skyward::provider::kubernetes

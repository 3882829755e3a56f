#include "skyward/provider/kubernetes/kubectl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "skyward/provider/world_fixture.h"

namespace skyward::provider::kubernetes {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Kubectl, IsToldWhereToGoWithEachCommand) {
  const Access access{.kubeconfig = "/k", .context = "kind", .name_space = "team"};
  EXPECT_THAT(access.words({"get", "pods"}),
              ElementsAre("kubectl", "--context=kind", "--namespace=team", "get", "pods"));
  EXPECT_THAT(access.environment(), ElementsAre(std::pair("KUBECONFIG", "/k")));
  EXPECT_THAT(Access{}.words({"get"}), ElementsAre("kubectl", "get"));
}

TEST(Kubectl, ItsLogAndItsWarningsAreNoRefusals) {
  EXPECT_THAT(
      refusals_in("E1124 14:57:21.197855    8598 memcache.go:265] \"Unhandled Error\"\n"
                  "W1124 14:57:20.655332    8576 loader.go:223] Config not found: /nonexist\n"
                  "Warning: would violate PodSecurity \"restricted:latest\"\n"
                  "Error from server (NotFound): pods \"a\" not found\n\n"),
      ElementsAre("Error from server (NotFound): pods \"a\" not found"));
}

// As kubectl 1.20 and 1.32 print them.
struct Said {
  const char* line;
  Refusal refusal;
  bool certain;
  const char* message;
  const char* hint;
};
const Said kSaid[] = {
    {"Error from server (Forbidden): error when creating \"STDIN\": pods \"a\" is forbidden: "
     "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1",
     Refusal::quota, true, "pods \"a\" is forbidden: exceeded quota", "kubectl describe quota"},
    {"Error from server (Forbidden): pods is forbidden: User \"jane\" cannot create resource "
     "\"pods\" in API group \"\" in the namespace \"team\"",
     Refusal::auth, true, "User \"jane\" cannot create", "providers check kubernetes"},
    {"Error from server (Forbidden): pods \"a\" is forbidden: violates PodSecurity "
     "\"restricted:latest\": runAsNonRoot != true",
     Refusal::invalid, true, "violates PodSecurity", "run_as_user="},
    {"Error from server (Forbidden): pods \"a\" is forbidden: failed quota: q: must specify "
     "limits.memory for: node",
     Refusal::invalid, true, "must specify limits.memory", "memory_gb="},
    {"Error from server (Forbidden): pods \"a\" is forbidden: error looking up service account "
     "team/nosuch: serviceaccount \"nosuch\" not found",
     Refusal::invalid, true, "serviceaccount \"nosuch\"", "kubectl get serviceaccounts"},
    {"Error from server (NotFound): namespaces \"nosuch\" not found", Refusal::not_found, true,
     "namespaces \"nosuch\" not found", "namespace="},
    {"Error from server (TooManyRequests): too many", Refusal::rate_limited, true, "too many", ""},
    {"Error from server (InternalError): an error on the server (\"<html>\") has prevented the "
     "request from succeeding (get nodes)",
     Refusal::transient, false, "an error on the server", "readyz"},
    {"Error from server: etcdserver: request timed out", Refusal::transient, false, "etcdserver",
     ""},
    {"The Pod \"a\" is invalid: spec.containers[0].image: Required value", Refusal::invalid, true,
     "Required value", "image="},
    {"error: You must be logged in to the server (Unauthorized)", Refusal::auth, true,
     "You must be logged in", "log in"},
    {"Unable to connect to the server: getting credentials: exec: executable gke-auth not found",
     Refusal::auth, true, "executable gke-auth not found", "kubectl get pods"},
    {"Unable to connect to the server: x509: certificate signed by unknown authority",
     Refusal::auth, true, "x509", ""},
    {"The connection to the server 127.0.0.1:1 was refused - did you specify the right host or "
     "port?",
     Refusal::transient, true, "127.0.0.1:1 was refused", "cluster-info"},
    {"Unable to connect to the server: dial tcp 192.0.2.1:443: i/o timeout", Refusal::transient,
     false, "i/o timeout", ""},
    {"error when creating \"STDIN\": unexpected error when reading response body. Please retry. "
     "Original error: unexpected EOF",
     Refusal::transient, false, "unexpected EOF", ""},
    {"Error in configuration: context was not found for specified context: nosuch",
     Refusal::invalid, true, "context: nosuch", "get-contexts"},
    {"error: cannot locate context nosuch", Refusal::invalid, true, "cannot locate context nosuch",
     "get-contexts"},
    {"The connection to the server localhost:8080 was refused - did you specify the right host or "
     "port?",
     Refusal::invalid, true, "not set up for any cluster", "$KUBECONFIG"},
};

TEST(Kubectl, WhatItRefusesHasAMeaningAndAHint) {
  for (const Said& said : kSaid) {
    const ApiError meant = meaning_of(said.line);
    EXPECT_EQ(meant.refusal, said.refusal) << said.line;
    EXPECT_EQ(is_certain(meant), said.certain) << said.line;
    EXPECT_THAT(meant.message, HasSubstr(said.message)) << said.line;
    EXPECT_THAT(meant.hint, HasSubstr(said.hint)) << said.line;
    EXPECT_FALSE(meant.hint.empty()) << said.line;
  }
}

TEST(Kubectl, OneUncertainRefusalMakesTheWholeUncertain) {
  io::CommandResult ran;
  ran.status.code = 1;
  ran.err =
      "Error from server (NotFound): pods \"a\" not found\n"
      "Unable to connect to the server: EOF\n";
  EXPECT_FALSE(is_certain(refusal_of("create", ran)));
  ran.err = "";
  EXPECT_FALSE(is_certain(refusal_of("create", ran)));
  EXPECT_THAT(refusal_of("create", ran).message, HasSubstr("'kubectl create' ended with"));
}

TEST(Kubectl, MustBeHereAndSetUp) {
  WorldFixture fixture;
  fixture.variables["PATH"] = "/bin:/usr/bin";
  EXPECT_THAT(is_reachable(fixture.world, {}).error().message, HasSubstr("no kubectl"));
  fixture.files["/usr/bin/kubectl"] = "";
  EXPECT_THAT(is_reachable(fixture.world, {}).error().message, HasSubstr("not set up"));
  EXPECT_TRUE(is_reachable(fixture.world, {.kubeconfig = "/k"}));
  fixture.files["/home/.kube/config"] = "";
  EXPECT_TRUE(is_reachable(fixture.world, {}));
}

}  // namespace
}  // namespace skyward::provider::kubernetes

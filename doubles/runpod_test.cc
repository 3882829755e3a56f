#include "doubles/runpod.h"

#include "doubles/cloud_fixture.h"

namespace skyward::doubles {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr const char* kCard = "NVIDIA GeForce RTX 4090";

struct RunPodTest : testing::Test {
  RunPodTest() {
    as(cloud.api_key);
    cloud.dials.rate_limits = false;
  }

  RunPod cloud{1};
  Asking client{cloud};

  void as(const std::string& key) { client.headers = {{"Authorization", "Bearer " + key}}; }
  static Json wish(const std::string& name) {
    return {{"name", name},
            {"image", "ubuntu"},
            {"disk", 20},
            {"gpu", {{"id", kCard}, {"count", 2}}},
            {"ports", {"22/tcp"}},
            {"env", {{"A", "1"}}},
            {"args", "bash -c 'sleep infinity'"}};
  }
  std::string make(const std::string& name, const Json& changes = Json::object()) {
    Json body = wish(name);
    body.update(changes);
    const Told told = client.post("/v2/pods", body);
    EXPECT_EQ(told.status, 201) << told.text;
    return told.body.value("id", "");
  }
  Json get(const std::string& id) { return client.get("/v2/pods/" + id).body; }
  Told graphql(const std::string& query, const Json& variables = Json::object()) {
    return client.post("/graphql", {{"query", query}, {"variables", variables}});
  }
  Told rent(Json input) {
    Json body{{"bidPerGpu", 0.4},   {"name", "bid"}, {"imageName", "ubuntu"},
              {"gpuTypeId", kCard}, {"gpuCount", 2}, {"ports", "22/tcp"}};
    body.update(input);
    return graphql(
        "mutation R($input: PodRentInterruptableInput!) "
        "{ podRentInterruptable(input: $input) { id costPerHr podType } }",
        {{"input", body}});
  }
};

TEST_F(RunPodTest, ALifeFromTheCatalogToTheInvoice) {
  const Told sold = client.get("/v2/catalog/gpus?include=AVAILABILITY&product=POD&count=2");
  const Json card =
      *std::ranges::find_if(sold.body["gpus"], [](const Json& one) { return one["id"] == kCard; });
  EXPECT_EQ(card["dataCenters"].size(), 3U);
  const std::string id = make("one");
  EXPECT_EQ(get(id)["status"], "PROVISIONING");
  EXPECT_EQ(get(id)["ssh"]["direct"], nullptr);
  client.wait(seconds(31));
  EXPECT_EQ(get(id)["status"], "RUNNING");
  EXPECT_EQ(get(id)["ssh"]["direct"], nullptr) << "the port comes later";
  client.wait(seconds(1));
  const Json pod = get(id);
  EXPECT_EQ(pod["ssh"]["direct"]["port"], pod["runtime"]["ports"][0]["public"]);
  EXPECT_EQ(pod["cost"], 2 * card["price"]["secure"].get<double>());
  EXPECT_EQ(client.get("/v2/pods").body["pods"].size(), 1U);
  client.wait(hours(1) - seconds(32));
  EXPECT_EQ(client.remove("/v2/pods/" + id).status, 204);
  EXPECT_EQ(get(id)["status"], "TERMINATED");
  client.wait(seconds(10));
  EXPECT_EQ(client.remove("/v2/pods/" + id).status, 404);
  EXPECT_EQ(client.get("/v2/pods").body["pods"].size(), 0U);
  EXPECT_NEAR(cloud.invoice(client.now), 2 * 0.59 + 20 * 0.1 / 730, 1e-6);
  EXPECT_EQ(client.violations(), "");
  EXPECT_TRUE(cloud.leftovers().empty());
}

TEST_F(RunPodTest, FormsAre422AndRules400) {
  const Json gpu{{"id", kCard}};
  for (const Json& change : {Json{{"bogus", 1}},
                             {{"disk", 0}},
                             {{"ports", {"22"}}},
                             {{"cloud", "BOTH"}},
                             {{"gpu", {{"id", kCard}, {"cores", 1}}}},
                             {{"env", {{"A", 1}}}},
                             {{"mounts", {{"persistent", {{"size", 5}, {"path", "/w"}}}}}}}) {
    Json body = wish("one");
    body.update(change);
    const Told told = client.post("/v2/pods", body);
    EXPECT_EQ(told.status, 422) << change;
    EXPECT_EQ(told.body["errors"].size(), 1U);
    EXPECT_NE(client.violations(), "") << change;
  }
  for (const Json& change :
       {Json{{"cpu", {{"id", "cpu3c"}, {"vcpuCount", 2}}}},
        {{"gpu", {{"id", "NVIDIA H999"}}}},
        {{"gpu", {{"id", "AMD Instinct MI300X OAM"}}}, {"globalNetworking", true}}}) {
    Json body = wish("one");
    body.update(change);
    EXPECT_EQ(client.post("/v2/pods", body).status, 400) << change;
    EXPECT_NE(client.violations(), "") << change;
  }
  EXPECT_EQ(client.get("/v2/catalog/gpus?include=AVAILABILITY").status, 400) << "of what?";
  EXPECT_EQ(client.get("/v2/catalog/gpus?page=1").status, 422);
  EXPECT_EQ(client.get("/v2/pods?limit=5&limit=5").status, 422);
  EXPECT_EQ(client.get("/v1/pods").status, 404) << "the old API is gone";
  EXPECT_TRUE(cloud.machines.empty());
}

TEST_F(RunPodTest, WhatIsSoldOutIsARefusalLikeAnyOther) {
  cloud.dials.capacity = {{"US-TX-3", 0}, {"EU-RO-1", 1}};
  make("one", {{"dataCenterIds", {"EU-RO-1"}}});
  Json body = wish("two");
  body["dataCenterIds"] = {"US-TX-3", "EU-RO-1"};
  const Told told = client.post("/v2/pods", body);
  EXPECT_EQ(told.status, 400);
  EXPECT_TRUE(told.body["detail"].get<std::string>().contains("no instances"));
  EXPECT_EQ(make("two").size(), 14U) << "elsewhere there are";
  cloud.dials.balance = "0";
  EXPECT_EQ(client.post("/v2/pods", wish("three")).status, 402);
  EXPECT_EQ(client.violations(), "");
}

TEST_F(RunPodTest, ADriverIsAsOldAsItMayBe) {
  const auto cuda = [&](const char* name, const Json& more) {
    Json gpu{{"id", kCard}, {"count", 1}};
    gpu.update(more);
    const std::string id = make(name, {{"gpu", gpu}});
    client.wait(cloud.dials.boot);
    return get(id)["cudaVersion"];
  };
  EXPECT_EQ(cuda("any", Json::object()), "12.8");
  EXPECT_EQ(cuda("least", {{"minCudaVersion", "12.9"}}), "13.0");
  EXPECT_EQ(cuda("named", {{"allowedCudaVersions", {"12.9", "13.0"}}}), "13.0");
  const Told sold =
      client.get("/v2/catalog/gpus?include=AVAILABILITY&product=POD&minCudaVersion=12.9");
  for (const Json& one : sold.body["gpus"]) {
    const bool nvidia = one["manufacturer"] == "NVIDIA";
    EXPECT_EQ(one.contains("cudaVersions"), nvidia) << one;
    EXPECT_EQ(one["availability"] == "NONE", !nvidia) << one;
    if (nvidia) {
      EXPECT_EQ(one["cudaVersions"].size(), 1U);
    }
  }
  Json body = wish("none");
  body["gpu"]["minCudaVersion"] = "14.0";
  EXPECT_EQ(client.post("/v2/pods", body).status, 400);
  EXPECT_EQ(client.violations(), "");
  body["gpu"]["minCudaVersion"] = "13";
  EXPECT_EQ(client.post("/v2/pods", body).status, 422);
  EXPECT_NE(client.violations(), "");
}

TEST_F(RunPodTest, GraphQLRefusesWithStatus200) {
  const Told low = rent({{"bidPerGpu", 0.1}});
  EXPECT_EQ(low.status, 200);
  EXPECT_TRUE(low.body["errors"][0]["message"].get<std::string>().contains("bid"));
  EXPECT_EQ(low.body["data"]["podRentInterruptable"], nullptr);
  EXPECT_EQ(client.violations(), "") << "no fault of form";
  for (const char* field : {"minVcpuCount", "minMemoryInGb"}) {
    const Told large = rent({{field, 1000}});
    EXPECT_EQ(large.body["errors"].size(), 1U) << field;
  }
  EXPECT_EQ(client.violations(), "");
  const Told wrong = rent({{"gpuType", kCard}});
  EXPECT_TRUE(wrong.body.contains("errors"));
  EXPECT_NE(client.violations(), "");
  EXPECT_TRUE(graphql("{ nobody { id } }").body.contains("errors"));
  EXPECT_EQ(graphql("{").status, 400);
  EXPECT_TRUE(cloud.machines.empty());
}

TEST_F(RunPodTest, ABidRunsUntilItIsPreempted) {
  const Json made = rent(Json::object()).body["data"]["podRentInterruptable"];
  EXPECT_EQ(made["podType"], "INTERRUPTABLE");
  EXPECT_DOUBLE_EQ(made["costPerHr"].get<double>(), 0.8);
  const std::string id = made["id"];
  client.wait(hours(1));
  EXPECT_EQ(get(id)["cost"], 0.8);
  client.post("/_double/machines/" + id, {{"act", "off"}});
  EXPECT_EQ(get(id)["status"], "EXITED");
  EXPECT_EQ(get(id)["cost"], 0.0);
  EXPECT_EQ(cloud.leftovers().size(), 1U) << "it is there until somebody ends it";
}

TEST_F(RunPodTest, APodStartsAnewWithAnotherPort) {
  const std::string id = make("one");
  client.wait(hours(1));
  const Json port = get(id)["ssh"]["direct"]["port"];
  const std::string act = "/v2/pods/" + id + "/action";
  EXPECT_EQ(client.post(act, {{"action", "start"}}).status, 409);
  EXPECT_EQ(client.post(act, {{"action", "stop"}}).body["status"], "EXITED");
  EXPECT_EQ(client.post(act, {{"action", "start"}}).status, 200);
  client.wait(hours(1));
  EXPECT_NE(get(id)["ssh"]["direct"]["port"], port);
  EXPECT_EQ(client.post(act, {{"action", "terminate"}}).status, 204);
  EXPECT_EQ(client.violations(), "");
}

TEST_F(RunPodTest, APodsKeyEndsItselfAndNothingElse) {
  const std::string id = make("one"), other = make("two");
  const Json inside = client.get("/_double/machines").body[0]["inside"];
  EXPECT_EQ(inside["RUNPOD_POD_ID"], id);
  as(inside["RUNPOD_API_KEY"]);
  EXPECT_EQ(client.get("/v2/pods").status, 403);
  EXPECT_EQ(client.remove("/v2/pods/" + id).status, 403) << "REST is not for pods";
  const auto end = [&](const std::string& pod) {
    return graphql("mutation { podTerminate(input: {podId: \"" + pod + "\"}) }").body;
  };
  EXPECT_TRUE(end(other).contains("errors"));
  EXPECT_FALSE(end(id).contains("errors"));
  as("nobody");
  EXPECT_EQ(graphql("{ myself { id } }").status, 401);
  as(cloud.api_key);
  EXPECT_EQ(cloud.leftovers(), std::vector<std::string>{"machine " + other + " two"});
  EXPECT_EQ(graphql("{ myself { id pods { id } } }").body["data"]["myself"]["id"], "user_first");
}

TEST_F(RunPodTest, CpuPodsAndVolumesHaveRulesOfTheirOwn) {
  Json body = wish("cpu");
  body.erase("gpu");
  body["cpu"] = {{"id", "cpu5c"}, {"vcpuCount", 4}};
  const Told made = client.post("/v2/pods", body);
  EXPECT_EQ(made.body["cpu"]["memory"], 8) << made.text;
  EXPECT_EQ(client.violations(), "");
  body["name"] = "large";
  body["disk"] = 50;
  EXPECT_EQ(client.post("/v2/pods", body).status, 400);
  client.violations();

  const Told volume = client.post("/v2/network-volumes",
                                  {{"name", "data"}, {"size", 100}, {"dataCenter", "EU-RO-1"}});
  EXPECT_EQ(volume.status, 201);
  const Json mount{{"network", {{{"volumeId", volume.body["id"]}, {"path", "/data"}}}}};
  make("near", {{"mounts", mount}, {"dataCenterIds", {"EU-RO-1"}}});
  Json far = wish("far");
  far["mounts"] = mount;
  far["dataCenterIds"] = {"US-TX-3"};
  EXPECT_EQ(client.post("/v2/pods", far).status, 400);
  far.erase("dataCenterIds");
  far["cloud"] = "COMMUNITY";
  EXPECT_EQ(client.post("/v2/pods", far).status, 400) << "they are in no data centre";
  EXPECT_EQ(client.violations(), "");
}

TEST_F(RunPodTest, NetworkedPodsHaveAnAddressOfTheirOwn) {
  const std::string id = make("one", {{"globalNetworking", true}});
  EXPECT_EQ(get(id)["globalNetworking"]["internalDns"], id + ".runpod.internal");
  EXPECT_NE(get(id)["globalNetworking"]["ip"], "");
  EXPECT_EQ(get(make("two"))["globalNetworking"], (Json{{"enabled", false}}));
}

TEST_F(RunPodTest, SixtyRequestsAMinuteAndNoMore) {
  cloud.dials.rate_limits = true;
  for (int i = 0; i < 60; ++i) EXPECT_EQ(client.get("/v2/pods").status, 200);
  const Told told = client.get("/v2/pods");
  EXPECT_EQ(told.status, 429);
  EXPECT_EQ(header_of({.headers = told.headers}, "Retry-After"), "1");
  client.wait(seconds(1));
  EXPECT_EQ(client.get("/v2/pods").status, 200);
  EXPECT_EQ(client.violations(), "");
}

}  // namespace
}  // namespace skyward::doubles

#include "doubles/vast.h"

#include <tuple>

#include "doubles/cloud_fixture.h"

namespace skyward::doubles {
namespace {

using std::chrono::seconds;

Json by(const char* name) { return Json::array({Json::array({name, "asc"})}); }

std::string encoded(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c == '{' ? "%7B" : c == '}' ? "%7D" : c == '"' ? "%22" : std::string(1, c);
  }
  return out;
}

struct VastTest : testing::Test {
  VastTest() {
    client.headers = {{"Authorization", "Bearer " + cloud.api_key}};
    cloud.dials.rate_limits = false;
  }

  Vast cloud{1};
  Asking client{cloud};

  Json search(const Json& filters) {
    const Told told = client.post("/api/v0/bundles/", filters);
    EXPECT_EQ(told.status, 200) << told.text;
    return told.body["offers"];
  }
  Json cheapest(const char* type = "on-demand") {
    return search({{"type", type}, {"order", by("dph_total")}})[0];
  }
  static Json wish(const std::string& label) {
    return {{"client_id", "me"}, {"image", "ubuntu"},       {"disk", 20},
            {"label", label},    {"runtype", "ssh_direct"}, {"cancel_unavail", true}};
  }
  Told take(const Json& offer, const Json& body) {
    return client.ask("PUT", "/api/v0/asks/" + offer["id"].dump() + "/", body);
  }
  std::string make(const std::string& label) {
    const Told told = take(cheapest(), wish(label));
    EXPECT_EQ(told.status, 200) << told.text;
    return told.body["new_contract"].dump();
  }
  std::string make_bid(const std::string& label, double factor) {
    const Json offer = cheapest("bid");
    Json body = wish(label);
    body["price"] = offer["min_bid"].get<double>() * factor;
    return take(offer, body).body["new_contract"].dump();
  }
  Json get(const std::string& id) {
    return client.get("/api/v0/instances/" + id + "/").body["instances"];
  }
};

TEST_F(VastTest, ALifeFromTheOfferToTheInvoice) {
  client.post("/api/v0/ssh/", {{"ssh_key", "ssh-ed25519 AAAA"}});
  const Json offer = cheapest();
  const Told told = take(offer, wish("one"));
  ASSERT_EQ(told.status, 200) << told.text;
  const std::string id = told.body["new_contract"].dump();
  EXPECT_EQ(get(id)["actual_status"], nullptr);
  client.wait(cloud.dials.boot / 2);
  EXPECT_EQ(get(id)["actual_status"], "loading");
  client.wait(cloud.dials.boot / 2);
  EXPECT_EQ(get(id)["actual_status"], "running");
  EXPECT_EQ(get(id)["ports"], nullptr) << "ports come later";
  client.wait(cloud.dials.address_lag);
  EXPECT_TRUE(get(id)["ports"]["22/tcp"][0]["HostPort"].is_string());
  client.wait(std::chrono::hours(1) - cloud.dials.address_lag);
  EXPECT_EQ(client.remove("/api/v0/instances/" + id + "/").status, 200);
  const double disk = 0.15 * 20 / 730 * 3630 / 3600;
  EXPECT_NEAR(cloud.invoice(client.now), offer["dph_base"].get<double>() + disk, 1e-9)
      << "nothing but the disk while it loads";
  client.wait(cloud.dials.ending);
  const Told again = client.remove("/api/v0/instances/" + id + "/");
  EXPECT_EQ(again.status, 404);
  EXPECT_EQ(again.body["error"], "no_such_instance");
  const Json keys = client.get("/api/v0/ssh/").body;
  EXPECT_EQ(client.remove("/api/v0/ssh/" + keys[0]["id"].dump() + "/").status, 200);
  EXPECT_EQ(cloud.leftovers(), std::vector<std::string>{});
  EXPECT_EQ(client.violations(), "");
}

TEST_F(VastTest, AnOfferHoldsOneMachineAndIsRefusedInManyWays) {
  const Json offer = cheapest();
  EXPECT_EQ(take(offer, wish("one")).status, 200);
  EXPECT_NE(cheapest()["id"], offer["id"]);
  std::set<std::pair<int, std::string>> ways;
  for (int i = 0; i < 30; ++i) {
    const Told told = take(offer, wish("two"));
    ways.emplace(told.status, told.body["error"]);
    ASSERT_EQ(told.body["success"], false);
    EXPECT_NE(told.body["msg"].get<std::string>().find("no_such_ask"), std::string::npos);
  }
  EXPECT_EQ(ways, (std::set<std::pair<int, std::string>>{{200, "no_such_ask"},
                                                         {404, "invalid_args"},
                                                         {404, "no_such_ask"},
                                                         {410, "no_such_ask"}}));
  EXPECT_EQ(cloud.machines.size(), 1U);
  EXPECT_EQ(client.violations(), "");
}

TEST_F(VastTest, ABidThatIsTooLowMakesAMachineThatIsRefused) {
  const Json offer = cheapest("bid");
  Json body = wish("low");
  body["price"] = offer["min_bid"].get<double>() / 2;
  const Told told = take(offer, body);
  EXPECT_EQ(told.status, 400);
  EXPECT_EQ(told.body["error"], "invalid_price");
  const std::string id = told.body["new_contract"].dump();
  client.wait(cloud.dials.boot);
  EXPECT_EQ(get(id)["cur_state"], "stopped");
  client.wait(std::chrono::hours(1));
  EXPECT_GT(cloud.invoice(client.now), 0) << "its disk";
  EXPECT_LT(cloud.invoice(client.now), 0.01);
  EXPECT_EQ(cloud.leftovers().size(), 1U);
  EXPECT_EQ(client.remove("/api/v0/instances/" + id + "/").status, 200);
}

TEST_F(VastTest, WhoIsOutbidPausesAndResumesWithAHigherBid) {
  const std::string id = make_bid("spot", 1.5);
  client.wait(cloud.dials.boot + std::chrono::hours(1));
  const double hour = cloud.invoice(client.now);
  client.post("/_double/machines/" + id, {{"act", "off"}});
  EXPECT_EQ(get(id)["actual_status"], "exited");
  EXPECT_EQ(get(id)["intended_status"], "stopped");
  client.wait(std::chrono::hours(1));
  const double paused = cloud.invoice(client.now);
  EXPECT_LT(paused - hour, hour / 5);
  EXPECT_GT(paused, hour);
  const Json bid{{"client_id", "me"}, {"price", 0.5}};
  EXPECT_EQ(client.ask("PUT", "/api/v0/instances/bid_price/" + id + "/", bid).status, 200);
  EXPECT_EQ(get(id)["actual_status"], "running");
  EXPECT_EQ(get(id)["is_bid"], true);
  EXPECT_EQ(client.violations(), "");
}

TEST_F(VastTest, FiltersAreReadStrictly) {
  for (const Json& one : search({{"gpu_name", {{"in", {"H100 SXM", "H100 NVL"}}}},
                                 {"num_gpus", {{"gte", 2}}},
                                 {"geolocation", {{"in", {"US", "CA"}}}},
                                 {"limit", 500}})) {
    EXPECT_TRUE(one["gpu_name"].get<std::string>().starts_with("H100"));
    EXPECT_GE(one["num_gpus"], 2);
    EXPECT_EQ(one["verified"], true) << "unless others are asked for";
  }
  EXPECT_EQ(search({{"limit", 3}}).size(), 3U);
  EXPECT_EQ(search({{"num_gpus", {{"gte", "4"}}}}), search({{"num_gpus", {{"gte", 4}}}}));
  EXPECT_GT(search({{"num_gpus", {{"gte", "4"}}}}).size(), 0U);
  EXPECT_EQ(client.violations(), "");
  for (const Json& wrong : {Json{{"gpu", {{"eq", "H100"}}}},
                            {{"num_gpus", {{"least", 2}}}},
                            {{"num_gpus", 2}},
                            {{"gpu_name", {{"eq", "none"}}}, {"rented", {{"least", false}}}},
                            {{"type", "spot"}},
                            {{"order", by("price")}},
                            {{"limit", 0}}}) {
    EXPECT_EQ(client.post("/api/v0/bundles/", wrong).status, 400) << wrong;
    EXPECT_NE(client.violations(), "") << wrong;
  }
}

TEST_F(VastTest, AnOfferMayHaveNoPlace) {
  Json filters{{"gpu_name", {{"eq", "H200"}}}, {"num_gpus", {{"eq", 8}}}};
  const Json all = search(filters);
  const auto placeless =
      std::ranges::find_if(all, [](const Json& one) { return one["geolocation"].is_null(); });
  ASSERT_NE(placeless, all.end());
  EXPECT_EQ(take(*placeless, wish("one")).status, 200);
  filters["geolocation"] = {{"in", Json::array({""})}};
  EXPECT_EQ(search(filters), Json::array());
}

TEST_F(VastTest, DiskIsPartOfThePrice) {
  const Json small = search({{"allocated_storage", 0}, {"order", by("id")}})[0];
  const Json large = search({{"allocated_storage", 730}, {"order", by("id")}})[0];
  EXPECT_NEAR(large["dph_total"].get<double>() - small["dph_total"].get<double>(), 0.15, 1e-9);
  EXPECT_EQ(small["dph_total"], small["dph_base"]);
}

TEST_F(VastTest, FormsAreReadStrictly) {
  const Json offer = cheapest();
  for (const Json& change : {Json{{"runtype", "telnet"}},
                             {{"args", {"sleep"}}},
                             {{"disk", "20"}},
                             {{"disk", 0}},
                             {{"env", 5}},
                             {{"price", 0.0001}},
                             {{"hostname", "one"}}}) {
    Json body = wish("one");
    body.update(change);
    EXPECT_EQ(take(offer, body).status, 400) << change;
    EXPECT_NE(client.violations(), "") << change;
  }
  Json body = wish("one");
  body["disk"] = 1e6;
  EXPECT_EQ(take(offer, body).status, 400);
  cloud.dials.balance = "0";
  EXPECT_EQ(take(offer, wish("one")).body["error"], "insufficient_credit");
  EXPECT_EQ(client.violations(), "") << "these are no faults of form";
  EXPECT_EQ(cloud.machines.size(), 0U);
}

TEST_F(VastTest, PagesHoldTwentyFiveByKey) {
  for (int i = 0; i < 30; ++i) make("n" + std::to_string(i));
  const Json first = client.get("/api/v1/instances/?limit=25").body;
  EXPECT_EQ(first["instances"].size(), 25U);
  EXPECT_EQ(first["total_instances"], 30);
  const std::string token = first["next_token"];
  const Json last = client.get("/api/v1/instances/?after_token=" + token).body;
  EXPECT_EQ(last["instances"].size(), 5U);
  EXPECT_EQ(last["next_token"], nullptr);
  const std::string filters = encoded(R"({"label":{"in":["n3","n4"]}})");
  EXPECT_EQ(client.get("/api/v1/instances/?select_filters=" + filters).body["total_instances"], 2);
  EXPECT_EQ(client.violations(), "");
  EXPECT_EQ(client.get("/api/v1/instances/?limit=26").status, 400);
  EXPECT_EQ(client.get("/api/v1/instances/?limit=25&limit=25").status, 400);
  EXPECT_NE(client.violations(), "");
  const std::string price = encoded(R"({"dph_total":{"lt":1}})");
  EXPECT_EQ(client.get("/api/v1/instances/?select_filters=" + price).status, 400);
}

TEST_F(VastTest, AMachineEndsItselfWithItsOwnKeyAndNothingElse) {
  const std::string id = make("one"), other = make("two");
  const Json inside = client.get("/_double/machines").body[0]["inside"];
  EXPECT_EQ(inside["CONTAINER_ID"], id);
  client.headers = {{"Authorization", "Bearer " + inside["CONTAINER_API_KEY"].get<std::string>()}};
  EXPECT_EQ(client.get("/api/v0/instances/").status, 403);
  EXPECT_EQ(client.remove("/api/v0/instances/" + other + "/").status, 403);
  EXPECT_EQ(client.remove("/api/v0/instances/" + id + "/").status, 200);
  client.headers = {{"Authorization", "Bearer nobody"}};
  EXPECT_EQ(client.get("/api/v0/instances/").body["error"], "auth_error");
}

TEST_F(VastTest, KeysReachNewMachinesAlone) {
  const std::string old = make("old");
  client.post("/api/v0/ssh/", {{"ssh_key", "ssh-ed25519 AAAA"}});
  make("new");
  const Json machines = client.get("/_double/machines").body;
  EXPECT_EQ(machines[0]["inside"]["keys"], Json::array());
  EXPECT_EQ(machines[1]["inside"]["keys"], Json::array({"ssh-ed25519 AAAA"}));
  const std::string path = "/api/v0/instances/" + old + "/ssh/";
  EXPECT_EQ(client.post(path, {{"ssh_key", "ssh-ed25519 AAAA"}}).status, 200);
  EXPECT_EQ(client.post(path, {{"ssh_key", "ssh-ed25519 AAAA"}}).status, 400);
  EXPECT_EQ(client.violations(), "");
}

TEST_F(VastTest, RequestsOfOneKindNeedTimeAndNobodySaysHowMuch) {
  cloud.dials.rate_limits = true;
  EXPECT_NE(client.get("/api/v0/instances/1/").status, 429);
  client.get("/api/v0/instances/2/");
  const Told told = client.get("/api/v0/instances/3/");
  EXPECT_EQ(told.status, 429);
  EXPECT_EQ(header_of({.headers = told.headers}, "Retry-After"), "");
  const Told again = client.get("/api/v0/instances/3/");
  EXPECT_NE(told.body.is_null(), again.body.is_null()) << "as JSON or as it is";
  EXPECT_EQ(client.get("/api/v0/ssh/").status, 200) << "another kind";
  client.wait(std::chrono::milliseconds(2000));
  EXPECT_NE(client.get("/api/v0/instances/4/").status, 429);
  EXPECT_EQ(client.violations(), "");
}

TEST_F(VastTest, EachKindOfRequestHasItsOwnPace) {
  cloud.dials.rate_limits = true;
  for (const auto& [method, path, gap] : {std::tuple("PUT", "/api/v0/asks/1/", 4500),
                                          std::tuple("DELETE", "/api/v0/instances/1/", 3000),
                                          std::tuple("GET", "/api/v0/instances/1/", 2000),
                                          std::tuple("GET", "/api/v1/instances/", 1500)}) {
    const auto status = [&] {
      const Json body = std::string_view(method) == "PUT" ? wish("one") : Json();
      return client.ask(method, path, body).status;
    };
    EXPECT_NE(status(), 429) << path;
    EXPECT_NE(status(), 429) << path;
    client.wait(std::chrono::milliseconds(gap - 100));
    EXPECT_EQ(status(), 429) << path;
    client.wait(std::chrono::milliseconds(200));
    EXPECT_NE(status(), 429) << path;
  }
  EXPECT_EQ(client.violations(), "");
}

TEST_F(VastTest, AWrongKeyHasAnotherStatusInASearch) {
  client.headers = {{"Authorization", "Bearer nobody"}};
  EXPECT_EQ(client.post("/api/v0/bundles/", Json::object()).status, 404);
  EXPECT_EQ(client.get("/api/v0/users/current").status, 401);
}

TEST_F(VastTest, WhatCannotStartSaysSoInItsMessageAlone) {
  cloud.dials.fail_create = 1;
  const std::string id = make("one");
  client.wait(cloud.dials.boot);
  EXPECT_EQ(get(id)["intended_status"], "running");
  EXPECT_NE(get(id)["status_msg"].get<std::string>().find("OCI runtime create failed"),
            std::string::npos);
}

TEST_F(VastTest, ANetworkJoinsMachinesOfItsCluster) {
  const Json offers = search({{"geolocation", {{"eq", "US"}}}, {"limit", 500}});
  const Json cluster = offers[0]["cluster_id"];
  const Json network{{"cluster_id", cluster}, {"name", "net"}};
  EXPECT_EQ(client.post("/api/v0/overlay/", network).status, 200);
  const Json inside = take(offers[0], wish("in")).body["new_contract"];
  const Json far = search({{"geolocation", {{"eq", "NO"}}}})[0];
  const Json outside = take(far, wish("out")).body["new_contract"];
  const auto join = [&](const Json& id) {
    return client.ask("PUT", "/api/v0/overlay/", {{"name", "net"}, {"instance_id", id}}).status;
  };
  EXPECT_EQ(join(inside), 200);
  EXPECT_EQ(join(outside), 404);
  EXPECT_EQ(client.get("/api/v0/overlay/").body[0]["instances"], Json::array({inside}));
  EXPECT_EQ(client.ask("DELETE", "/api/v0/overlay/", {{"overlay_name", "net"}}).status, 200);
}

}  // namespace
}  // namespace skyward::doubles

#include "doubles/digitalocean.h"

#include <algorithm>

#include "doubles/cloud_fixture.h"

namespace skyward::doubles {
namespace {

using std::chrono::seconds;

constexpr const char* kKeyText = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGx0YWxsb2Zv me";

struct DigitalOceanTest : testing::Test {
  DigitalOceanTest() { client.headers = {{"Authorization", "Bearer " + cloud.token}}; }

  DigitalOcean cloud{1};
  Asking client{cloud};

  static Json droplet(const std::string& name) {
    return {{"name", name},
            {"region", "nyc1"},
            {"size", "s-1vcpu-1gb"},
            {"image", "ubuntu-24-04-x64"},
            {"tags", {"pool:one"}}};
  }
  static Json gpu_droplet(const std::string& name) {
    Json out = droplet(name);
    out.update({{"region", "tor1"}, {"size", "gpu-h100x1-80gb"}, {"image", "gpu-h100x1-base"}});
    return out;
  }
  std::string make(const Json& body) {
    const Told told = client.post("/v2/droplets", body);
    EXPECT_EQ(told.status, 202) << told.text;
    return told.body["droplet"]["id"].dump();
  }
  std::string make_running(const Json& body) {
    std::string id = make(body);
    client.wait(cloud.dials.boot + cloud.dials.address_lag);
    return id;
  }
  // The status, and that it was or was not a fault of the client.
  int refused_form(const Json& body) {
    const int status = client.post("/v2/droplets", body).status;
    EXPECT_NE(client.violations(), "") << body;
    return status;
  }
  int refused_wish(const Json& body) {
    const int status = client.post("/v2/droplets", body).status;
    EXPECT_EQ(client.violations(), "") << body;
    return status;
  }
  std::size_t count(const std::string& path) { return client.get(path).body["droplets"].size(); }
};

TEST_F(DigitalOceanTest, ALifeFromTheOfferToTheInvoice) {
  EXPECT_EQ(client.get("/v2/account").body["account"]["droplet_limit"], 100);
  const Json sizes = client.get("/v2/sizes?per_page=200").body["sizes"];
  EXPECT_TRUE(std::ranges::any_of(
      sizes, [](const Json& one) { return one.contains("gpu_info") && one["available"]; }));
  const Told key = client.post("/v2/account/keys", {{"name", "k"}, {"public_key", kKeyText}});
  ASSERT_EQ(key.status, 201) << key.text;
  Json body = droplet("one");
  body["ssh_keys"] = {key.body["ssh_key"]["id"]};
  const Told made = client.post("/v2/droplets", body);
  ASSERT_EQ(made.status, 202) << made.text;
  EXPECT_EQ(made.body["droplet"]["status"], "new");
  EXPECT_EQ(made.body["droplet"]["networks"]["v4"], Json::array());
  const std::string id = made.body["droplet"]["id"].dump();
  const std::string action = made.body["links"]["actions"][0]["id"].dump();
  EXPECT_EQ(client.get("/v2/actions/" + action).body["action"]["status"], "in-progress");
  client.wait(cloud.dials.boot);
  EXPECT_EQ(client.get("/v2/actions/" + action).body["action"]["status"], "completed");
  Json one = client.get("/v2/droplets/" + id).body["droplet"];
  EXPECT_EQ(one["status"], "active");
  EXPECT_EQ(one["networks"]["v4"], Json::array()) << "an address comes later";
  client.wait(cloud.dials.address_lag);
  one = client.get("/v2/droplets/" + id).body["droplet"];
  EXPECT_EQ(one["networks"]["v4"].size(), 2U);
  client.wait(std::chrono::hours(1) - cloud.dials.boot - cloud.dials.address_lag);
  EXPECT_EQ(client.remove("/v2/droplets/" + id).status, 204);
  EXPECT_EQ(client.get("/v2/droplets/" + id).status, 200) << "it is still ending";
  client.wait(cloud.dials.ending);
  EXPECT_EQ(client.get("/v2/droplets/" + id).status, 404);
  EXPECT_EQ(client.remove("/v2/droplets/" + id).status, 404);
  EXPECT_DOUBLE_EQ(cloud.invoice(client.now), 0.01) << "a cent at least";
  EXPECT_EQ(client.remove("/v2/account/keys/" + key.body["ssh_key"]["id"].dump()).status, 204);
  EXPECT_EQ(client.remove("/v2/tags/pool:one").status, 204);
  EXPECT_EQ(cloud.leftovers(), std::vector<std::string>{});
  EXPECT_EQ(client.violations(), "");
}

TEST_F(DigitalOceanTest, OnlyOneListShowsGpuDroplets) {
  make(droplet("plain"));
  make(gpu_droplet("fast"));
  EXPECT_EQ(count("/v2/droplets"), 1U);
  EXPECT_EQ(count("/v2/droplets?tag_name=pool:one"), 1U);
  EXPECT_EQ(count("/v2/droplets?type=droplets"), 1U);
  const Json fast = client.get("/v2/droplets?type=gpus").body["droplets"];
  ASSERT_EQ(fast.size(), 1U);
  EXPECT_EQ(fast[0]["name"], "fast");
  EXPECT_EQ(fast[0]["gpu_info"]["model"], "nvidia_h100");
  EXPECT_EQ(client.violations(), "");
  EXPECT_EQ(client.get("/v2/droplets?type=gpus&tag_name=pool:one").status, 422);
  EXPECT_NE(client.violations(), "");
  EXPECT_EQ(client.get("/v2/droplets?type=tpus").status, 422);
}

TEST_F(DigitalOceanTest, ManyAreMadeByNamesTenAtMost) {
  Json body = droplet("");
  body.erase("name");
  body["names"] = Json::array();
  for (int i = 0; i < 10; ++i) body["names"].push_back("n" + std::to_string(i));
  const Told told = client.post("/v2/droplets", body);
  ASSERT_EQ(told.status, 202) << told.text;
  EXPECT_EQ(told.body["droplets"].size(), 10U);
  EXPECT_EQ(told.body["links"]["actions"].size(), 10U);
  body["names"] = Json::array();
  EXPECT_EQ(refused_form(body), 422);
  for (int i = 0; i < 11; ++i) body["names"].push_back("m" + std::to_string(i));
  EXPECT_EQ(refused_form(body), 422);
  body["names"] = {"x"};
  body["name"] = "x";
  EXPECT_EQ(refused_form(body), 422);
}

TEST_F(DigitalOceanTest, PagesAreTwentyLongUnlessAskedFor) {
  for (int i = 0; i < 45; ++i) make(droplet("n" + std::to_string(i)));
  const Json first = client.get("/v2/droplets?tag_name=pool:one").body;
  EXPECT_EQ(first["droplets"].size(), 20U);
  EXPECT_EQ(first["meta"]["total"], 45);
  EXPECT_EQ(first["links"]["pages"]["next"], "http://double/v2/droplets?page=2&tag_name=pool:one");
  const Json last = client.get("/v2/droplets?page=3&tag_name=pool:one").body;
  EXPECT_EQ(last["droplets"].size(), 5U);
  EXPECT_FALSE(last["links"]["pages"].contains("next"));
  EXPECT_EQ(count("/v2/droplets?per_page=200"), 45U);
  EXPECT_EQ(client.violations(), "");
  EXPECT_EQ(client.get("/v2/droplets?per_page=201").status, 422);
  EXPECT_EQ(client.get("/v2/droplets?page=0").status, 422);
  EXPECT_EQ(client.get("/v2/droplets?limit=5").status, 422);
}

TEST_F(DigitalOceanTest, ACreationThatFailsShowsInItsActionAlone) {
  cloud.dials.fail_create = 1;
  const Told told = client.post("/v2/droplets", droplet("one"));
  EXPECT_EQ(told.status, 202);
  client.wait(cloud.dials.boot);
  const std::string action = told.body["links"]["actions"][0]["id"].dump();
  EXPECT_EQ(client.get("/v2/actions/" + action).body["action"]["status"], "errored");
  const std::string id = told.body["droplet"]["id"].dump();
  EXPECT_EQ(client.get("/v2/droplets/" + id).body["droplet"]["status"], "new");
  EXPECT_EQ(cloud.leftovers().size(), 2U) << "the droplet and its tag";
  EXPECT_EQ(client.remove("/v2/droplets/" + id).status, 204);
  EXPECT_EQ(cloud.invoice(client.now), 0);
}

TEST_F(DigitalOceanTest, WhatIsBeingMadeCannotBeDeleted) {
  const std::string id = make(droplet("one"));
  EXPECT_EQ(client.remove("/v2/droplets/" + id).status, 422);
  EXPECT_EQ(client.remove("/v2/droplets?tag_name=pool:one").status, 422);
  client.wait(cloud.dials.boot);
  EXPECT_EQ(client.remove("/v2/droplets?tag_name=pool:one").status, 204);
  const Told again = client.remove("/v2/droplets/" + id);
  EXPECT_EQ(again.status, 422);
  EXPECT_EQ(again.body["message"], "Droplet already has a pending event.");
  EXPECT_EQ(client.violations(), "");
}

TEST_F(DigitalOceanTest, WhatIsOffIsBilled) {
  const std::string id = make_running(gpu_droplet("one"));
  EXPECT_EQ(client.post("/v2/droplets/" + id + "/actions", {{"type", "power_off"}}).status, 201);
  EXPECT_EQ(client.remove("/v2/droplets/" + id).status, 422) << "its event is pending";
  client.wait(seconds(5));
  EXPECT_EQ(client.get("/v2/droplets/" + id).body["droplet"]["status"], "off");
  client.wait(std::chrono::minutes(1));
  const double before = cloud.invoice(client.now);
  client.wait(std::chrono::hours(1));
  EXPECT_NEAR(cloud.invoice(client.now) - before, 3.39, 1e-6);
  EXPECT_EQ(client.post("/v2/droplets/" + id + "/actions", {{"type", "fly"}}).status, 422);
}

TEST_F(DigitalOceanTest, FormsAreReadStrictly) {
  Json body = droplet("one");
  body["regoin"] = "nyc1";
  EXPECT_EQ(refused_form(body), 422);
  body = droplet("one");
  body["monitoring"] = "true";
  EXPECT_EQ(refused_form(body), 422);
  body = droplet("one");
  body.erase("image");
  EXPECT_EQ(refused_form(body), 422);
  EXPECT_EQ(refused_form(droplet("under_score")), 422);
  body = droplet("one");
  body["tags"] = {"two words"};
  EXPECT_EQ(refused_form(body), 422);
  body = droplet("one");
  body["user_data"] = std::string((64 << 10) + 1, 'x');
  EXPECT_EQ(refused_form(body), 422);
  EXPECT_EQ(cloud.machines.size(), 0U);
}

TEST_F(DigitalOceanTest, WishesAreRefusedWithoutBlame) {
  for (const auto& [field, value] : {std::pair{"size", "s-9vcpu"},
                                     {"size", "g-48vcpu-192gb-intel"},
                                     {"region", "mars1"},
                                     {"region", "sfo3"},
                                     {"image", "gpu-h100x1-base"},
                                     {"image", "ubuntu-4"}}) {
    Json body = droplet("one");
    body[field] = value;
    EXPECT_EQ(refused_wish(body), 422) << field << " " << value;
  }
  Json body = gpu_droplet("one");
  body["image"] = "gpu-amd-base";
  EXPECT_EQ(refused_wish(body), 422);
  body = droplet("one");
  body["ssh_keys"] = {12345};
  EXPECT_EQ(refused_wish(body), 422);
  cloud.dials.capacity["s-1vcpu-1gb/nyc1"] = 0;
  EXPECT_EQ(refused_wish(droplet("one")), 422);
  cloud.dials.machine_limit = 0;
  const Told told = client.post("/v2/droplets", droplet("one"));
  EXPECT_EQ(told.body["message"], "creating this/these droplet(s) will exceed your droplet limit");
}

TEST_F(DigitalOceanTest, APartOfARequestMaySell) {
  Json body = droplet("");
  body.erase("name");
  body["names"] = {"a", "b", "c"};
  cloud.dials.capacity["*"] = 2;
  EXPECT_EQ(refused_wish(body), 422);
  cloud.dials.partial = "fewer";
  EXPECT_EQ(client.post("/v2/droplets", body).body["droplets"].size(), 2U);
  cloud.dials.capacity["*"] = 4;
  cloud.dials.partial = "fail";
  body["names"] = {"d", "e", "f"};
  const Json links = client.post("/v2/droplets", body).body["links"]["actions"];
  ASSERT_EQ(links.size(), 3U);
  client.wait(cloud.dials.boot);
  const auto status = [&](const Json& link) {
    return client.get("/v2/actions/" + link["id"].dump()).body["action"]["status"];
  };
  EXPECT_EQ(status(links[1]), "completed");
  EXPECT_EQ(status(links[2]), "errored");
}

TEST_F(DigitalOceanTest, TokensMayDoWhatTheirScopesSay) {
  const std::string id = make_running(droplet("one"));
  cloud.tokens["dop_v1_node"] = {"droplet:delete"};
  client.headers = {{"Authorization", "Bearer dop_v1_node"}};
  EXPECT_EQ(client.get("/v2/droplets").status, 403);
  EXPECT_EQ(client.post("/v2/droplets", droplet("two")).status, 403);
  cloud.accounts["dop_v1_node"] = "another";
  EXPECT_EQ(client.remove("/v2/droplets/" + id).status, 404) << "as if it did not exist";
  cloud.accounts.clear();
  EXPECT_EQ(client.remove("/v2/droplets/" + id).status, 204);
  client.headers = {{"Authorization", "Bearer dop_v1_stranger"}};
  const Told told = client.get("/v2/account");
  EXPECT_EQ(told.status, 401);
  EXPECT_EQ(told.body["id"], "unauthorized");
}

TEST_F(DigitalOceanTest, AKeyIsTakenOnce) {
  const Json body{{"name", "k"}, {"public_key", kKeyText}};
  const Told first = client.post("/v2/account/keys", body);
  EXPECT_EQ(first.status, 201);
  const Told second = client.post("/v2/account/keys", body);
  EXPECT_EQ(second.status, 422);
  EXPECT_EQ(second.body["message"], "SSH Key is already in use on your account");
  EXPECT_EQ(client.violations(), "");
  const std::string fingerprint = first.body["ssh_key"]["fingerprint"];
  EXPECT_EQ(client.get("/v2/account/keys/" + fingerprint).status, 200);
  EXPECT_EQ(client.get("/v2/account/keys").body["meta"]["total"], 1);
  EXPECT_EQ(client.post("/v2/account/keys", {{"name", "k"}, {"public_key", "key"}}).status, 422);
  EXPECT_NE(client.violations(), "");
}

TEST_F(DigitalOceanTest, ANewKeyIsKnownEverywhereLater) {
  cloud.dials.key_lag = seconds(45);
  const Json body{{"name", "k"}, {"public_key", kKeyText}};
  const Json key = client.post("/v2/account/keys", body).body["ssh_key"];
  const Json twin = client.post("/v2/account/keys", body).body["ssh_key"];
  EXPECT_EQ(key["fingerprint"], twin["fingerprint"]);
  EXPECT_NE(key["id"], twin["id"]) << "it is registered twice";
  EXPECT_EQ(client.get("/v2/account/keys").body["meta"]["total"], 0);
  Json one = droplet("one");
  one["ssh_keys"] = {key["id"]};
  EXPECT_EQ(refused_wish(one), 422);
  client.wait(cloud.dials.key_lag);
  EXPECT_EQ(client.get("/v2/account/keys").body["meta"]["total"], 2);
  EXPECT_EQ(client.post("/v2/account/keys", body).status, 422);
  EXPECT_EQ(client.post("/v2/droplets", one).status, 202);
}

TEST_F(DigitalOceanTest, KeysAreListedTenTimesAMinute) {
  for (int i = 0; i < 10; ++i) EXPECT_EQ(client.get("/v2/account/keys").status, 200);
  EXPECT_EQ(client.get("/v2/account/keys").status, 429);
  EXPECT_EQ(client.get("/v2/account").status, 200);
}

TEST_F(DigitalOceanTest, AMinuteHasTwoHundredAndFiftyRequests) {
  for (int i = 0; i < 250; ++i) ASSERT_EQ(client.get("/v2/account").status, 200);
  EXPECT_EQ(client.get("/v2/account").status, 429);
  cloud.dials.rate_limits = false;
  EXPECT_EQ(client.get("/v2/account").status, 200);
}

TEST_F(DigitalOceanTest, AFirewallNamesTagsThatExist) {
  const Json body{
      {"name", "fw"},
      {"tags", {"pool:one"}},
      {"inbound_rules",
       {{{"protocol", "tcp"}, {"ports", "22"}, {"sources", {{"addresses", {"203.0.113.7/32"}}}}}}}};
  EXPECT_EQ(client.post("/v2/firewalls", body).status, 422) << "the tag comes first";
  EXPECT_EQ(client.post("/v2/tags", {{"name", "pool:one"}}).status, 201);
  const Told made = client.post("/v2/firewalls", body);
  ASSERT_EQ(made.status, 202) << made.text;
  EXPECT_EQ(client.post("/v2/firewalls", body).status, 409);
  EXPECT_EQ(client.violations(), "");
  make(droplet("one"));
  const std::string path = "/v2/firewalls/" + made.body["firewall"]["id"].get<std::string>();
  EXPECT_EQ(client.get(path).body["firewall"]["status"], "waiting");
  client.wait(seconds(3));
  EXPECT_EQ(client.get(path).body["firewall"]["status"], "succeeded");
  for (const auto& [field, value] : {std::pair{"ports", "70000"}, {"protocol", "sctp"}}) {
    Json wrong = body;
    wrong["name"] = "other";
    wrong["inbound_rules"][0][field] = value;
    EXPECT_EQ(client.post("/v2/firewalls", wrong).status, 422);
    EXPECT_NE(client.violations(), "") << field;
  }
  EXPECT_EQ(client.remove(path).status, 204);
  EXPECT_EQ(client.remove(path).status, 404);
}

TEST_F(DigitalOceanTest, PathsThatAreNoneAreViolations) {
  EXPECT_EQ(client.get("/v2/dropplets").status, 404);
  EXPECT_NE(client.violations(), "");
  EXPECT_EQ(client.ask("PATCH", "/v2/droplets").status, 404);
  EXPECT_NE(client.violations(), "");
}

}  // namespace
}  // namespace skyward::doubles

#include "doubles/verda.h"

#include "doubles/cloud_fixture.h"

namespace skyward::doubles {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

struct VerdaTest : testing::Test {
  VerdaTest() { log_in(); }

  Verda cloud{1};
  Asking client{cloud};

  Told token(const Json& more) {
    client.headers.clear();
    return client.post("/v1/oauth2/token", more);
  }
  Json credentials() const {
    return {{"grant_type", "client_credentials"},
            {"client_id", cloud.client_id},
            {"client_secret", cloud.client_secret}};
  }
  void use(const Told& told) {
    client.headers = {{"Authorization", "Bearer " + told.body["access_token"].get<std::string>()}};
  }
  void log_in() { use(token(credentials())); }

  static std::string id_in(const Told& told) {
    return told.text.starts_with('"') ? Json::parse(told.text).get<std::string>() : told.text;
  }
  std::string make_key() {
    return id_in(client.post("/v1/ssh-keys", {{"name", "k"}, {"key", "ssh-ed25519 AAAA"}}));
  }
  Json instance(const std::string& name) {
    return {{"instance_type", "1H100.80S.30V"},
            {"image", "ubuntu-24.04"},
            {"hostname", name},
            {"description", "a test"},
            {"ssh_key_ids", Json::array()},
            {"location_code", "FIN-01"}};
  }
  Json spot_instance(const std::string& name, const std::string& policy) {
    Json out = instance(name);
    out["is_spot"] = true;
    out["os_volume"] = {{"name", "os"}, {"size", 100}, {"on_spot_discontinue", policy}};
    return out;
  }
  std::string make(const Json& body) {
    const Told told = client.post("/v1/instances", body);
    EXPECT_EQ(told.status, 202) << told.text;
    return id_in(told);
  }
  std::string make_running(const Json& body) {
    std::string id = make(body);
    client.wait(cloud.dials.boot + cloud.dials.address_lag);
    return id;
  }
  Json get(const std::string& id) { return client.get("/v1/instances/" + id).body; }
  Told act(const Json& body) { return client.ask("PUT", "/v1/instances", body); }
  int refused_form(const Json& body) {
    const int status = client.post("/v1/instances", body).status;
    EXPECT_NE(client.violations(), "") << body;
    return status;
  }
  int refused_wish(const Json& body) {
    const int status = client.post("/v1/instances", body).status;
    EXPECT_EQ(client.violations(), "") << body;
    return status;
  }
};

TEST_F(VerdaTest, ALifeFromTheLoginToTheInvoice) {
  Json body = instance("one");
  body["ssh_key_ids"] = {make_key()};
  const std::string script =
      id_in(client.post("/v1/scripts", {{"name", "s"}, {"script", "#!/bin/sh"}}));
  body["startup_script_id"] = script;
  body["tags"] = {{{"key", "pool"}, {"value", "one"}}};
  const std::string id = make(body);
  EXPECT_EQ(get(id)["status"], "ordered");
  EXPECT_EQ(get(id)["os_volume_id"], nullptr);
  client.wait(cloud.dials.boot / 2);
  EXPECT_EQ(get(id)["status"], "provisioning");
  client.wait(cloud.dials.boot / 2);
  EXPECT_EQ(get(id)["status"], "running");
  EXPECT_EQ(get(id)["ip"], nullptr) << "an address comes later";
  client.wait(cloud.dials.address_lag);
  EXPECT_TRUE(get(id)["ip"].is_string());
  const Json volumes = get(id)["volume_ids"];
  ASSERT_EQ(volumes.size(), 1U);
  client.wait(minutes(15));
  const Told told = act(
      {{"id", {id}}, {"action", "delete"}, {"volume_ids", volumes}, {"delete_permanently", true}});
  EXPECT_EQ(told.status, 202) << told.text;
  EXPECT_EQ(get(id)["status"], "deleting");
  client.wait(cloud.dials.ending);
  EXPECT_EQ(client.get("/v1/instances/" + id).status, 404);
  EXPECT_EQ(client.get("/v1/instances").body, Json::array());
  const double volume = 50 * 0.2 / 730 * (15 * 60 + 32) / 3600;
  EXPECT_NEAR(cloud.invoice(client.now), 2.29 / 3 + volume, 1e-6) << "two times ten minutes";
  EXPECT_EQ(client.remove("/v1/scripts/" + script).status, 200);
  EXPECT_EQ(client.ask("DELETE", "/v1/ssh-keys", {{"keys", body["ssh_key_ids"]}}).status, 200);
  EXPECT_EQ(cloud.leftovers(), std::vector<std::string>{});
  EXPECT_EQ(client.violations(), "");
}

TEST_F(VerdaTest, ATokenExpiresAndARefreshTokenIsGoodForOneUse) {
  EXPECT_EQ(client.get("/v1/locations").status, 200);
  client.wait(cloud.dials.token_life);
  const Told refused = client.get("/v1/locations");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.body["code"], "unauthorized_request");
  const Told fresh = token(credentials());
  EXPECT_EQ(fresh.body["expires_in"], 3600);
  const Json refresh{{"grant_type", "refresh_token"},
                     {"refresh_token", fresh.body["refresh_token"]}};
  const Told second = token(refresh);
  ASSERT_EQ(second.status, 200);
  EXPECT_EQ(token(refresh).status, 400);
  use(second);
  EXPECT_EQ(client.get("/v1/locations").status, 200);
  Json wrong = credentials();
  wrong["client_secret"] = "guess";
  EXPECT_EQ(token(wrong).status, 401);
  wrong["scope"] = "all";
  EXPECT_EQ(token(wrong).status, 400);
  EXPECT_NE(client.violations(), "");
}

TEST_F(VerdaTest, ALoginMayBeAForm) {
  const io::HttpReply reply =
      cloud.reply({.method = "POST",
                   .url = "http://double/v1/oauth2/token",
                   .headers = {{"Content-Type", "application/x-www-form-urlencoded"}},
                   .body = "grant_type=client_credentials&client_id=" + cloud.client_id +
                           "&client_secret=" + cloud.client_secret},
                  client.now);
  EXPECT_EQ(reply.status, 200) << reply.body;
}

TEST_F(VerdaTest, IdsAndPricesComeInTwoForms) {
  int quoted = 0;
  for (int i = 0; i < 20; ++i) {
    const Told told = client.post("/v1/instances", instance("n" + std::to_string(i)));
    ASSERT_EQ(told.status, 202);
    quoted += told.text.starts_with('"') ? 1 : 0;
  }
  EXPECT_GT(quoted, 0);
  EXPECT_LT(quoted, 20);
  int texts = 0;
  const Json types = client.get("/v1/instance-types?currency=usd").body;
  for (const Json& type : types) texts += type["price_per_hour"].is_string() ? 1 : 0;
  EXPECT_GT(texts, 0);
  EXPECT_LT(texts, static_cast<int>(types.size()));
}

TEST_F(VerdaTest, WhatIsBeingProvisionedCannotBeDiscontinued) {
  const std::string id = make(instance("one"));
  bool plain = false, partial = false;
  for (int i = 0; i < 20; ++i) {
    const Told told = act({{"id", id}, {"action", "delete"}});
    const bool whole = told.status == 400 || told.status == 403;
    (whole ? plain : partial) = true;
    const Json said = whole ? told.body["message"] : told.body[0]["error"];
    EXPECT_EQ(said, "Can't discontinue a provisioning instance");
  }
  EXPECT_TRUE(plain && partial) << "either way to say it";
  client.wait(cloud.dials.boot);
  EXPECT_EQ(act({{"id", id}, {"action", "delete"}}).status, 202);
  EXPECT_NE(act({{"id", id}, {"action", "delete"}}).status, 202);
  EXPECT_EQ(client.violations(), "");
}

TEST_F(VerdaTest, ARequestForSeveralMaySucceedForSome) {
  const std::string old = make_running(instance("old"));
  const std::string young = make(instance("young"));
  const Told told = act({{"id", {old, young, "none"}}, {"action", "delete"}});
  ASSERT_EQ(told.status, 207);
  EXPECT_EQ(told.body[0]["status"], "success");
  EXPECT_EQ(told.body[1]["statusCode"], 403);
  EXPECT_EQ(told.body[2]["error"], "Invalid instance id");
  EXPECT_EQ(get(old)["status"], "deleting");
  EXPECT_EQ(get(young)["status"], "ordered");
}

TEST_F(VerdaTest, VolumesStayUnlessTheyAreNamedAndDeletedPermanently) {
  const std::string absent = make_running(instance("absent"));
  const std::string none = make_running(instance("none"));
  const std::string named = make_running(instance("named"));
  act({{"id", absent}, {"action", "delete"}});
  EXPECT_EQ(client.get("/v1/volumes/trash").body.size(), 1U);
  act({{"id", none}, {"action", "delete"}, {"volume_ids", Json::array()}});
  EXPECT_EQ(client.get("/v1/volumes?status=detached").body.size(), 1U);
  act({{"id", named}, {"action", "delete"}, {"volume_ids", get(named)["volume_ids"]}});
  EXPECT_EQ(client.get("/v1/volumes/trash").body.size(), 2U);
  EXPECT_EQ(cloud.leftovers().size(), 3U);
  EXPECT_EQ(client.violations(), "");
  EXPECT_EQ(act({{"id", none}, {"action", "delete"}, {"delete_permanently", true}}).status, 400);
  EXPECT_NE(client.violations(), "") << "it would do nothing";
  for (const char* path : {"/v1/volumes", "/v1/volumes/trash"}) {
    for (const Json& one : client.get(path).body) {
      if (one.value("is_permanently_deleted", false)) continue;
      const std::string id = one["id"];
      EXPECT_EQ(client.ask("DELETE", "/v1/volumes/" + id, {{"is_permanent", true}}).status, 202);
    }
  }
  EXPECT_EQ(cloud.leftovers(), std::vector<std::string>{});
}

TEST_F(VerdaTest, AVolumeBillsUntilItIsGone) {
  const std::string id = make_running(instance("one"));
  act({{"id", id}, {"action", "delete"}, {"volume_ids", Json::array()}});
  const double before = cloud.invoice(client.now);
  client.wait(std::chrono::hours(73));
  EXPECT_NEAR(cloud.invoice(client.now) - before, 50 * 0.2 / 10, 1e-6);
}

TEST_F(VerdaTest, APreemptedMachineLeavesItsVolumeUnlessToldOtherwise) {
  for (const char* policy : {"keep_detached", "move_to_trash", "delete_permanently"}) {
    const std::string id = make_running(spot_instance("spot", policy));
    EXPECT_EQ(get(id)["price_per_hour"], 0.8015);
    client.post("/_double/machines/" + id, {{"act", "end"}});
    EXPECT_EQ(get(id)["status"], "offline");
    client.wait(cloud.dials.ending);
    EXPECT_EQ(client.get("/v1/instances/" + id).status, 404);
  }
  EXPECT_EQ(client.get("/v1/volumes").body.size(), 1U);
  const Json trash = client.get("/v1/volumes/trash").body;
  ASSERT_EQ(trash.size(), 2U);
  EXPECT_NE(trash[0]["is_permanently_deleted"], trash[1]["is_permanently_deleted"]);
  cloud.dials.trash_keeps = false;
  EXPECT_EQ(client.get("/v1/volumes/trash").body.size(), 1U);
}

TEST_F(VerdaTest, AVolumeTakesItsTimeToGo) {
  cloud.dials.detach = seconds(30);
  cloud.dials.erasing = seconds(60);
  const std::string id = make_running(instance("one"));
  const std::string volume = get(id)["os_volume_id"];
  const auto status = [&] { return client.get("/v1/volumes/" + volume).body["status"]; };
  const auto remove = [&] {
    return client.ask("DELETE", "/v1/volumes/" + volume, {{"is_permanent", true}}).status;
  };
  EXPECT_EQ(status(), "attached");
  act({{"id", id}, {"action", "delete"}, {"volume_ids", Json::array()}});
  EXPECT_EQ(status(), "detaching");
  client.wait(seconds(30));
  EXPECT_EQ(remove(), 202);
  EXPECT_EQ(status(), "deleting");
  EXPECT_GE(remove(), 400);
  client.wait(seconds(60));
  EXPECT_EQ(remove(), 404);
  EXPECT_EQ(client.violations(), "");
}

TEST_F(VerdaTest, WhatIsOffIsBilled) {
  const std::string id = make_running(instance("one"));
  EXPECT_EQ(act({{"id", id}, {"action", "shutdown"}}).status, 202);
  EXPECT_EQ(get(id)["status"], "offline");
  client.wait(minutes(10));
  const double before = cloud.invoice(client.now);
  client.wait(std::chrono::hours(1));
  EXPECT_GT(cloud.invoice(client.now) - before, 2.29);
}

TEST_F(VerdaTest, ACreationWithoutCapacityMayBeAccepted) {
  cloud.dials.fail_create = 1;
  const std::string id = make(instance("one"));
  client.wait(cloud.dials.boot);
  EXPECT_EQ(get(id)["status"], "no_capacity");
  EXPECT_EQ(act({{"id", id}, {"action", "delete"}}).status, 202);
  EXPECT_EQ(cloud.leftovers(), std::vector<std::string>{});
  EXPECT_EQ(cloud.invoice(client.now), 0);
}

TEST_F(VerdaTest, FormsAreReadStrictly) {
  for (const Json& change :
       {Json{{"description", ""}},
        {{"hostname", "two words"}},
        {{"contract", "SPOT"}},
        {{"pricing", "CHEAP"}},
        {{"ssh_key_ids", "one"}},
        {{"os_volume", {{"size", 50}}}},
        {{"os_volume",
          {{"name", "os"}, {"size", 50}, {"on_spot_discontinue", "delete_permanently"}}}},
        {{"tags", {{{"key", std::string(64, 'k')}, {"value", "v"}}}}},
        {{"tags", Json(11, {{"key", "k"}, {"value", "v"}})}},
        {{"user_data", "#!/bin/sh"}}}) {
    Json body = instance("one");
    body.update(change);
    EXPECT_EQ(refused_form(body), 400) << change;
  }
  Json body = instance("one");
  body.erase("location_code");
  EXPECT_EQ(refused_form(body), 400);
  body = instance("one");
  body.update({{"coupon", nullptr}, {"os_volume", nullptr}, {"volumes", Json::array()}});
  make(body);
  EXPECT_EQ(client.violations(), "") << "as its own client says it";
}

TEST_F(VerdaTest, WishesAreRefusedWithoutBlame) {
  const auto with = [&](const char* field, const Json& value) {
    Json body = instance("one");
    body[field] = value;
    return refused_wish(body);
  };
  EXPECT_EQ(with("instance_type", "9H900"), 400);
  EXPECT_EQ(with("location_code", "MARS-1"), 400);
  EXPECT_EQ(with("location_code", "FIN-03"), 503);
  EXPECT_EQ(with("image", "windows"), 400);
  EXPECT_EQ(with("ssh_key_ids", {"none"}), 400);
  EXPECT_EQ(with("startup_script_id", "none"), 400);
  EXPECT_EQ(with("existing_volumes", {"none"}), 400);
  Json old = instance("one");
  old.update({{"instance_type", "1V100.6V"}, {"image", "ubuntu-24.04-cuda-13.0-open"}});
  EXPECT_EQ(client.post("/v1/instances", old).body["message"],
            "Operating system is not valid for this instance type");
  cloud.dials.capacity["*"] = 0;
  EXPECT_EQ(refused_wish(instance("one")), 503);
  cloud.dials.balance = "0";
  EXPECT_EQ(refused_wish(instance("one")), 402);
  EXPECT_EQ(cloud.machines.size(), 0U);
}

TEST_F(VerdaTest, AKeyAloneIsAnArray) {
  const std::string id = make_key();
  EXPECT_EQ(client.get("/v1/ssh-keys/" + id).body[0]["id"], id);
  EXPECT_EQ(client.get("/v1/sshkeys").body.size(), 1U);
  EXPECT_EQ(client.remove("/v1/sshkeys/" + id).status, 200);
  EXPECT_EQ(client.remove("/v1/sshkeys/" + id).status, 404);
  EXPECT_EQ(client.post("/v1/ssh-keys", {{"name", "k"}, {"key", "AAAA"}}).status, 400);
  EXPECT_NE(client.violations(), "");
}

TEST_F(VerdaTest, ScriptsComeInPages) {
  std::string last;
  for (int i = 0; i < 12; ++i) {
    last = id_in(client.post("/v1/scripts", {{"name", "s"}, {"script", "#!/bin/sh"}}));
  }
  EXPECT_EQ(client.get("/v1/scripts").body.size(), 10U);
  EXPECT_EQ(client.get("/v1/scripts?page=2").body.size(), 2U);
  EXPECT_EQ(client.get("/v1/scripts?page=3").body, Json::array());
  const Told all = client.get("/v1/scripts?page=1&pageSize=100");
  EXPECT_EQ(all.body.size(), 12U);
  EXPECT_EQ(header_of({.headers = all.headers}, "X-Total-Count"), "12");
  EXPECT_EQ(client.get("/v1/scripts/" + last).body[0]["id"], last);
  EXPECT_EQ(client.violations(), "");
  EXPECT_EQ(client.get("/v1/scripts?pageSize=101").status, 400);
  EXPECT_EQ(client.get("/v1/scripts?page=1&page=2").status, 400);
  EXPECT_NE(client.violations(), "");
  cloud.dials.script_limit = 12;
  EXPECT_EQ(client.post("/v1/scripts", {{"name", "s"}, {"script", "#!/bin/sh"}}).status, 400);
  EXPECT_EQ(client.violations(), "") << "no fault of form";
}

TEST_F(VerdaTest, BothSpellingsOfAQuestionAreAnswered) {
  const Json here = client.get("/v1/instance-availability?is_spot=true&location_code=FIN-01").body;
  ASSERT_EQ(here.size(), 1U);
  EXPECT_EQ(here[0]["location_code"], "FIN-01");
  EXPECT_EQ(client.get("/v1/instance-availability/1H100.80S.30V?isSpot=true").body, true);
  EXPECT_EQ(client.get("/v1/instance-availability/8B200.240V").body, false);
  EXPECT_EQ(client.violations(), "");
  EXPECT_EQ(client.get("/v1/instance-availability?spot=true").status, 400);
  EXPECT_NE(client.violations(), "");
}

}  // namespace
}  // namespace skyward::doubles

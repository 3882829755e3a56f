// What all doubles share, shown with a cloud that has one machine size and no forms.

#include "doubles/cloud_fixture.h"

namespace skyward::doubles {
namespace {

using std::chrono::seconds;

class PlainCloud final : public Cloud {
 public:
  explicit PlainCloud(std::uint64_t seed) : Cloud(seed, {.increment = seconds(10)}) {}

  std::map<std::string, std::string> environment(const std::string&) const override { return {}; }

  Machine& buy(const std::string& name) {
    return make_machine({.id = name, .name = name, .size = "s", .place = "p", .hourly = 3600},
                        false);
  }

 private:
  io::HttpReply perform(const Request& request) override {
    if (request.method == "POST") {
      if (room("s", "p") == 0) return refusal(422, "sold out");
      buy(request.body["name"]);
      return json_reply(201, Json::object());
    }
    if (request.method == "DELETE") {
      Machine* found = find_machine(request.segments.back());
      if (found == nullptr) return refusal(404, "none");
      end_machine(*found);
      return {.status = 204};
    }
    Json names = Json::array();
    for (const Machine* one : listed_machines()) names.push_back(one->name);
    return json_reply(200, names);
  }
  io::HttpReply refusal(int status, const std::string& what) override {
    return json_reply(status, {{"message", what}});
  }
  std::vector<Pace> paces(const Request& request) const override {
    if (request.path != "/slow") return {};
    return {{"slow", 2, seconds(4)}};
  }
};

struct CloudTest : testing::Test {
  PlainCloud cloud{1};
  Asking client{cloud};

  std::size_t listed() { return client.get("/machines").body.size(); }
};

TEST_F(CloudTest, EachMachineHasItsOwnLagInLists) {
  cloud.dials.listing_lag = seconds(60);
  for (int i = 0; i < 20; ++i) client.post("/machines", {{"name", "m" + std::to_string(i)}});
  EXPECT_LT(listed(), 5U);
  client.wait(seconds(30));
  EXPECT_GT(listed(), 5U);
  EXPECT_LT(listed(), 15U);
  client.wait(seconds(31));
  EXPECT_EQ(listed(), 20U);
  for (int i = 0; i < 20; ++i) client.remove("/machines/m" + std::to_string(i));
  client.wait(cloud.dials.ending + seconds(30));
  EXPECT_GT(listed(), 0U) << "a list forgets as late as it learns";
  client.wait(seconds(31));
  EXPECT_EQ(listed(), 0U);
}

TEST_F(CloudTest, ListsFlapMachineByMachine) {
  for (int i = 0; i < 20; ++i) client.post("/machines", {{"name", "m" + std::to_string(i)}});
  cloud.dials.flap = 0.5;
  const std::size_t first = listed();
  EXPECT_LT(first, 20U);
  EXPECT_GT(first, 0U);
  cloud.dials.flap = 0;
  EXPECT_EQ(listed(), 20U);
}

TEST_F(CloudTest, LostRepliesWereHeardAndLostRequestsWereNot) {
  cloud.dials.lose_reply = 1;
  EXPECT_EQ(client.post("/machines", {{"name", "a"}}).status, 0);
  cloud.dials.lose_reply = 0;
  EXPECT_EQ(listed(), 1U);
  cloud.dials.lose_request = 1;
  EXPECT_EQ(client.post("/machines", {{"name", "b"}}).status, 0);
  cloud.dials.lose_request = 0;
  EXPECT_EQ(listed(), 1U);
}

TEST_F(CloudTest, AServerErrorComesBeforeOrAfterTheDeed) {
  cloud.dials.fail = 1;
  EXPECT_EQ(client.post("/machines", {{"name", "a"}}).status, 500);
  cloud.dials.fail = 0;
  EXPECT_EQ(listed(), 0U);
  cloud.dials.fail_late = 1;
  EXPECT_EQ(client.post("/machines", {{"name", "b"}}).status, 500);
  cloud.dials.fail_late = 0;
  EXPECT_EQ(listed(), 1U);
}

TEST_F(CloudTest, WhoAsksBeforeRetryAfterIsRefusedAgain) {
  EXPECT_EQ(client.get("/slow").status, 200);
  EXPECT_EQ(client.get("/slow").status, 200);
  const Told refused = client.get("/slow");
  EXPECT_EQ(refused.status, 429);
  const io::HttpReply reply{.headers = refused.headers};
  ASSERT_EQ(header_of(reply, "retry-after"), "4");
  EXPECT_EQ(client.violations(), "") << "nobody could know";
  client.wait(seconds(3));
  EXPECT_EQ(client.get("/slow").status, 429);
  EXPECT_NE(client.violations().find("Retry-After"), std::string::npos);
  EXPECT_EQ(client.get("/other").status, 200) << "another limit";
  client.wait(seconds(1));
  EXPECT_EQ(client.get("/slow").status, 200);
  EXPECT_EQ(client.violations(), "");
}

TEST_F(CloudTest, ThrottlingSilencesAllRequests) {
  cloud.dials.throttle = 1;
  EXPECT_EQ(client.get("/machines").status, 429);
  cloud.dials.throttle = 0;
  EXPECT_EQ(client.get("/other").status, 429);
  EXPECT_NE(client.violations(), "");
  client.wait(cloud.dials.retry_after);
  EXPECT_EQ(client.get("/machines").status, 200);
}

TEST_F(CloudTest, CapacityIsWhatTheStrictestLimitLeaves) {
  cloud.dials.capacity = {{"s", 3}, {"s/p", 2}, {"elsewhere", 0}};
  EXPECT_EQ(client.post("/machines", {{"name", "a"}}).status, 201);
  EXPECT_EQ(client.post("/machines", {{"name", "b"}}).status, 201);
  EXPECT_EQ(client.post("/machines", {{"name", "c"}}).status, 422);
  client.remove("/machines/a");
  client.wait(cloud.dials.ending);
  EXPECT_EQ(client.post("/machines", {{"name", "c"}}).status, 201);
}

TEST_F(CloudTest, TwoMachinesOfOneNameAreAViolation) {
  client.post("/machines", {{"name", "a"}});
  EXPECT_EQ(client.violations(), "");
  client.post("/machines", {{"name", "a"}});
  EXPECT_NE(client.violations().find("a second machine a"), std::string::npos);
}

TEST_F(CloudTest, AnotherAccountSeesNothingOfTheFirst) {
  client.post("/machines", {{"name", "a"}});
  cloud.dials.account = "second";
  EXPECT_EQ(listed(), 0U);
  EXPECT_EQ(client.remove("/machines/a").status, 404);
  cloud.dials.account = "first";
  EXPECT_EQ(listed(), 1U);
}

TEST_F(CloudTest, TheInvoiceCountsIncrementsUntilTheEnd) {
  client.post("/machines", {{"name", "a"}});  // a dollar a second, in tens
  client.wait(seconds(11));
  client.remove("/machines/a");
  client.wait(seconds(100));
  EXPECT_DOUBLE_EQ(cloud.invoice(client.now), 20);
  EXPECT_EQ(cloud.leftovers().size(), 0U);
}

TEST_F(CloudTest, AHookMayEndItsClientBeforeOrAfterARequest) {
  struct Died {};
  cloud.on_request = [](int number, bool after) {
    if ((number == 1 && !after) || (number == 2 && after)) throw Died{};
  };
  EXPECT_THROW(client.post("/machines", {{"name", "a"}}), Died);
  EXPECT_THROW(client.post("/machines", {{"name", "b"}}), Died);
  cloud.on_request = nullptr;
  EXPECT_EQ(client.get("/machines").body, Json::array({"b"}));
}

TEST_F(CloudTest, AnswersAreWrittenDownBeforehand) {
  const Json answers = Json::array({{{"method", "POST"},
                                     {"path", "/mach*"},
                                     {"skip", 1},
                                     {"perform", true},
                                     {"status", 200},
                                     {"body", {{"error", "not really"}}}}});
  ASSERT_EQ(client.post("/_double/dials", {{"answers", answers}}).status, 200);
  EXPECT_EQ(client.post("/machines", {{"name", "a"}}).status, 201);
  const Told told = client.post("/machines", {{"name", "b"}});
  EXPECT_EQ(told.status, 200);
  EXPECT_EQ(told.body["error"], "not really");
  EXPECT_EQ(listed(), 2U);
  EXPECT_EQ(client.post("/machines", {{"name", "c"}}).status, 201);
}

TEST_F(CloudTest, DialsAreTurnedByNameOrNotAtAll) {
  EXPECT_EQ(client.post("/_double/dials", {{"boot", 7.5}, {"flap", 0.25}}).status, 200);
  EXPECT_EQ(cloud.dials.boot, std::chrono::milliseconds(7500));
  EXPECT_EQ(client.get("/_double/dials").body["flap"], 0.25);
  EXPECT_EQ(client.post("/_double/dials", {{"boot", 1}, {"bot", 2}}).status, 400);
  EXPECT_EQ(client.post("/_double/dials", {{"boot", "soon"}}).status, 400);
  EXPECT_EQ(cloud.dials.boot, std::chrono::milliseconds(7500));
}

TEST_F(CloudTest, TestsSeeAndTurnEverything) {
  client.post("/machines", {{"name", "a"}});
  client.post("/_double/advance", {{"seconds", 31}});
  EXPECT_EQ(client.get("/_double/machines").body[0]["name"], "a");
  EXPECT_EQ(client.get("/_double/leftovers").body, Json::array({"machine a a"}));
  EXPECT_DOUBLE_EQ(client.get("/_double/invoice").body["total"].get<double>(), 40);
  EXPECT_EQ(client.get("/_double/requests").body[0]["status"], 201);
  client.post("/_double/machines/a", {{"act", "end"}});
  EXPECT_EQ(client.get("/_double/leftovers").body, Json::array());
  EXPECT_EQ(client.get("/_double/nothing").status, 404);
  EXPECT_EQ(cloud.heard.size(), 1U) << "what tests ask is no request of the client";
}

TEST(Clouds, OneSeedGivesOneRun) {
  const auto run = [](std::uint64_t seed) {
    PlainCloud cloud(seed);
    Asking client(cloud);
    cloud.dials.flap = 0.5;
    cloud.dials.fail = 0.2;
    cloud.dials.listing_lag = seconds(60);
    std::string out;
    for (int i = 0; i < 20; ++i) {
      client.post("/machines", {{"name", std::to_string(i)}});
      client.wait(seconds(10));
      out += client.get("/machines").text;
    }
    return out;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

}  // namespace
}  // namespace skyward::doubles

#include "skyward/provider/vast/vast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <tuple>

#include "skyward/provider/vast/contracts.h"
#include "skyward/provider/vast/diagnose.h"
#include "skyward/provider/vast/vast_account.h"
#include "skyward/provider/vast/vast_computer_fixture.h"

namespace skyward::provider::vast {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Ne;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class VastTest : public ::testing::Test, public VastComputer {
 protected:
  VastTest() { want("RTX-4090"); }
  ~VastTest() override {
    EXPECT_EQ(violations(), "");
    if (may_leave_) return;
    EXPECT_THAT(cloud_->leftovers(), IsEmpty());
    EXPECT_THAT(open_pools(), IsEmpty());
  }
  void want(const char* accelerator, double count = 1) {
    spec_.accelerator = Accelerator{.name = accelerator, .count = count};
  }
  // Of its kind, its country has one machine.
  void want_the_only_one() {
    want("H200", 8);
    spec_.nodes = 1;
    spec_.provider.settings["geolocation"] = "NO";
  }
  void refuse_bids(int times) {
    cloud_->dials.answers = {
        {.method = "PUT",
         .path = "/api/v0/asks/*",
         .times = times,
         .status = 400,
         .body = {{"success", false}, {"error", "invalid_price"}, {"msg", "the bid is too low"}}}};
  }
  std::vector<doubles::Heard> heard_at(std::string_view part) const {
    std::vector<doubles::Heard> out;
    for (const doubles::Heard& one : cloud_->heard) {
      if (one.path.contains(part)) out.push_back(one);
    }
    return out;
  }
  std::vector<doubles::Heard> searches() const { return heard_at("bundles"); }

  bool may_leave_ = false;
};

TEST_F(VastTest, APoolLivesAndLeavesNothing) {
  const auto [cloud, life] = lived();
  ASSERT_THAT(life.instances, SizeIs(2));
  for (const Instance& one : life.instances) {
    ASSERT_TRUE(one.public_ip);
    EXPECT_EQ(one.public_ip->find_first_of(" \n"), std::string::npos);
  }
  EXPECT_GE(life.instances.front().ssh_port, 40000);
  EXPECT_THAT(cloud_->machines, SizeIs(3));
  std::set<std::string> countries;
  for (const doubles::Machine& one : cloud_->machines) countries.insert(one.place);
  EXPECT_THAT(countries, SizeIs(1)) << "a pool stays in one country";
}

TEST_F(VastTest, SecondsAreBilledWithoutAMinimum) {
  const auto [cloud, life] = lived();
  EXPECT_EQ(cloud->capabilities().billing.minimum, Duration{});
  const auto ledger = open_ledger(fixture_.world);
  ASSERT_TRUE(ledger) << ledger.error().message;
  const auto pool = (*ledger)->find_pool(life.cluster.id);
  ASSERT_TRUE(pool && *pool);
  EXPECT_EQ((*pool)->setting(kMinimumSetting), "0") << "'skyward cost' knows it, too";
}

TEST_F(VastTest, ItIsReachedAtItsPortAndCanDestroyItself) {
  const auto [cloud, life] = opened();
  const Instance& machine = life.instances.front();
  EXPECT_THAT(cloud->connection(life.cluster, machine).command,
              Contains(std::to_string(machine.ssh_port)));
  const std::string script = cloud_->machines.front().request["onstart"];
  EXPECT_THAT(script, AllOf(StartsWith("#!/bin/sh\n"), HasSubstr("own CONTAINER_API_KEY"),
                            HasSubstr("OPENSSH PRIVATE KEY"), Not(HasSubstr(cloud_->api_key))));
  EXPECT_THAT(fixture_.started, SizeIs(1)) << "a reaper, in case it does not";
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(VastTest, OnlyDataCentresAreTrustedUnlessSaidOtherwise) {
  spec_.provider.settings.clear();
  const auto cloud = provider();
  EXPECT_FALSE(cloud->capabilities().strangers);
  const Life life = open(*cloud);
  ASSERT_TRUE(life.status) << life.status.error().message;
  const auto& heard = cloud_->heard;
  const auto search = std::ranges::find_if(
      heard, [](const doubles::Heard& one) { return one.path.contains("bundles"); });
  ASSERT_NE(search, heard.end());
  EXPECT_EQ(search->body["datacenter"]["eq"], true);
  EXPECT_EQ(search->body["verified"]["eq"], true);
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(VastTest, StrangersGetNoPasswordOfAnIndex) {
  spec_.image.pip = {"numpy"};
  spec_.image.env = {};
  fixture_.variables["UV_INDEX_URL"] = "https://me:secret@packages.example.com/simple";
  const auto cloud = provider();
  const Life life = open(*cloud);
  ASSERT_FALSE(life.status);
  EXPECT_THAT(life.status.error().message, HasSubstr("the owner of the machine could read"));
  EXPECT_THAT(life.status.error().message, Not(HasSubstr("secret")));
  EXPECT_THAT(cloud_->machines, IsEmpty());
}

TEST_F(VastTest, StrangersGetNoPasswordOfAPackage) {
  const auto refusal = [&] {
    const auto cloud = provider();
    const Status status = live(*cloud).status;
    return status ? std::string() : status.error().message;
  };
  spec_.image.pip = {"mine @ git+https://me:word@example.com/mine.git"};
  EXPECT_THAT(refusal(), HasSubstr("the owner of the machine could read"));
  EXPECT_THAT(cloud_->machines, IsEmpty());
  spec_.image.pip = {"mine @ git+ssh://git@example.com/mine.git"};
  EXPECT_EQ(refusal(), "") << "a name is none";
}

// An accelerator that the user describes may need a newer driver than the setting says.
TEST_F(VastTest, DriversAreAsNewAsThePoolNeeds) {
  spec_.provider.settings["min_cuda"] = "12.6";
  const auto lowest = [&] {
    cloud_->heard.clear();
    const Life life = live(*provider());
    EXPECT_TRUE(life.status) << life.status.error().message;
    double out = 99;
    for (const doubles::Heard& one : searches()) {
      out = std::min(out, one.body["cuda_max_good"]["gte"].get<double>());
    }
    return out;
  };
  EXPECT_EQ(lowest(), 12.6);
  spec_.accelerator = Accelerator{.name = "RTX 4090", .custom = true, .cuda_min = "13.0"};
  EXPECT_EQ(lowest(), 13) << "when machines are looked for, and when they are taken";
}

TEST_F(VastTest, VolumesAreRefusedBeforeAnythingIsRented) {
  spec_.volumes = {Volume{.mount_path = "/data", .bucket = "data"}};
  const auto cloud = provider();
  const Status refused = cloud->check(spec_);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("no FUSE"));
}

// ---- When it does not go well

// Somebody takes what the search showed. The last form is an answer of a later day.
TEST_F(VastTest, AnAskThatIsGoneIsNoFailure) {
  struct Form {
    int status;
    const char* error;
    const char* message;
  };
  for (const Form& form :
       {Form{404, "no_such_ask", "no_such_ask is not available"},
        {404, "invalid_args",
         "error 404/3603: no_such_ask Instance type by id 1000001 is not available."},
        {410, "no_such_ask",
         "error 410/3907: no_such_ask Instance type 1000001 is no longer available."},
        {200, "invalid_args", "error: no_such_ask"},
        {404, "invalid_args", "the offer is gone"}}) {
    cloud_->dials.answers = {
        {.method = "PUT",
         .path = "/api/v0/asks/*",
         .status = form.status,
         .body = {{"success", false}, {"error", form.error}, {"msg", form.message}}}};
    const auto cloud = provider();
    const Life life = live(*cloud);
    EXPECT_TRUE(life.status) << form.message << ": " << life.status.error().message;
  }
}

TEST_F(VastTest, ALostReplyIsLookedForAndNotRepeated) {
  cloud_->dials.answers = {
      {.method = "PUT", .path = "/api/v0/asks/*", .perform = true, .status = 0}};
  (void)lived();
  EXPECT_THAT(cloud_->machines, SizeIs(3));
}

TEST_F(VastTest, ARequestThatComesTooSoonIsRepeatedAndMadeNothing) {
  cloud_->dials.answers = {{.method = "PUT",
                            .path = "/api/v0/asks/*",
                            .times = 3,
                            .status = 429,
                            .body = "API requests too frequent: endpoint threshold=4.5\n"}};
  const auto cloud = provider();
  const Time begin = fixture_.now;
  const Life life = open(*cloud);
  ASSERT_TRUE(life.status) << life.status.error().message;
  EXPECT_LT(fixture_.now - begin, 2min) << "nobody looks for what it may have made";
  std::set<std::string> asks;
  for (const doubles::Heard& one : heard_at("/asks/")) asks.insert(one.path);
  EXPECT_THAT(asks, SizeIs(2)) << "no other ask is taken for that";
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(VastTest, TheDaysQuotaOfSearchesIsExplained) {
  cloud_->dials.answers = {{.method = "POST",
                            .path = "/api/v0/bundles/",
                            .times = -1,
                            .status = 429,
                            .headers = {{"Retry-After", "7200"}},
                            .body = {{"success", false},
                                     {"error", "search_quota_exceeded"},
                                     {"msg", "Daily search quota exceeded."}}}};
  const auto offers = provider()->offers(spec_, soon());
  ASSERT_FALSE(offers);
  EXPECT_EQ(offers.error().kind, ErrorKind::exhausted);
  EXPECT_THAT(offers.error().message, HasSubstr("Daily search quota exceeded."));
  EXPECT_THAT(offers.error().hint, HasSubstr("today's search results"));
}

TEST_F(VastTest, AContractThatARefusalMadeIsOurs) {
  cloud_->dials.answers = {{.method = "PUT",
                            .path = "/api/v0/asks/*",
                            .perform = true,
                            .status = 400,
                            .body = {{"success", false},
                                     {"error", "invalid_price"},
                                     {"msg", "the bid is too low"},
                                     {"new_contract", 20'000'001}}}};
  (void)lived();
  EXPECT_THAT(cloud_->machines, SizeIs(3));
}

TEST_F(VastTest, NoBidIsAboveWhatThePoolMayCost) {
  spec_.spot = Spot::Always();
  spec_.max_hourly_cost = 0.02;
  const auto cloud = provider();
  const Life life = live(*cloud);
  ASSERT_FALSE(life.status);
  EXPECT_EQ(life.status.error().kind, ErrorKind::exhausted);
  EXPECT_THAT(cloud_->machines, IsEmpty());
}

// The market moves between the opening and a replacement.
TEST_F(VastTest, NoMachineIsRentedFarAboveItsOffer) {
  for (const Spot& spot : {Spot::Never(), Spot::Always(1)}) {
    spec_.spot = spot;
    const auto [cloud, life] = opened();
    const auto rented = cloud_->machines.size();
    cloud_->multiply_prices(2);
    const auto dear = cloud->provision(life.cluster, 1, 0, soon());
    ASSERT_FALSE(dear);
    EXPECT_EQ(dear.error().kind, ErrorKind::exhausted);
    EXPECT_THAT(dear.error().message, HasSubstr("no 1x RTX 4090 is left that the pool may use at"));
    EXPECT_THAT(cloud_->machines, SizeIs(rented));
    cloud_->multiply_prices(1.1 / 2);
    EXPECT_TRUE(cloud->provision(life.cluster, 1, 0, soon()));
    EXPECT_THAT(cloud_->machines, SizeIs(rented + 1));
    EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
    cloud_->multiply_prices(1 / 1.1);
  }
}

TEST_F(VastTest, AnOutbidMachineIsGone) {
  spec_.spot = Spot::Always();
  const auto [cloud, life] = opened();
  EXPECT_TRUE(life.instances.front().spot);
  const std::string id = life.instances.front().id;
  for (doubles::Machine& one : cloud_->machines) {
    if (one.id == id) one.stop(fixture_.now);
  }
  const auto seen = cloud->get_instance(life.cluster, id, soon());
  ASSERT_TRUE(seen) << seen.error().message;
  EXPECT_FALSE(*seen) << "it is paused, and costs its disk";
  EXPECT_TRUE(cloud->terminate(life.cluster, {id}, soon()));
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(VastTest, AnAskThatRefusedABidIsTakenOnDemand) {
  want_the_only_one();
  spec_.spot = Spot::IfAvailable(1);
  refuse_bids(1);
  const auto [cloud, life] = lived();
  EXPECT_FALSE(life.instances.front().spot);
}

TEST_F(VastTest, ARefusedBidIsMadeAgainInTheNextRound) {
  want_the_only_one();
  spec_.spot = Spot::Always(3);
  cloud_->dials.answers = {{.method = "PUT",
                            .path = "/api/v0/asks/*",
                            .times = 2,
                            .status = 410,
                            .body = {{"success", false}, {"error", "no_such_ask"}, {"msg", ""}}}};
  const auto [cloud, life] = lived();
  EXPECT_TRUE(life.instances.front().spot);
}

// Each bid takes seconds of the time that a launch has. There are two types of H100s.
TEST_F(VastTest, OfTheRefusedBidsOneIsMadeAgainInEachRound) {
  want("H100");
  spec_.nodes = 1;
  spec_.provider.settings["geolocation"] = "NO";
  spec_.spot = Spot::Always(3);
  refuse_bids(-1);
  const auto cloud = provider();
  EXPECT_FALSE(live(*cloud).status);
  const std::vector<doubles::Heard> bids = heard_at("/asks/");
  std::set<std::string> asks;
  for (const doubles::Heard& bid : bids) asks.insert(bid.path);
  EXPECT_GT(asks.size(), 2U);
  EXPECT_THAT(bids, SizeIs(asks.size() + 2 * 2)) << "of two types, in two rounds";
}

TEST_F(VastTest, ABrokenHostIsNotTakenAgain) {
  want_the_only_one();
  spec_.spot = Spot::IfAvailable(2);
  cloud_->dials.fail_create = 1;
  const auto cloud = provider();
  const Life life = live(*cloud);
  EXPECT_FALSE(life.status);
  EXPECT_THAT(cloud_->machines, SizeIs(1));
}

// The first of two machines ends; returns whether its replacement is on the same host.
class VastReplacementTest : public VastTest {
 protected:
  bool returns_to_its_host(const std::function<void(doubles::Machine&)>& end) {
    const auto [cloud, life] = opened();
    const std::string id = life.instances.front().id;
    doubles::Machine& lost = cloud_->machines.front();
    EXPECT_EQ(lost.id, id);
    const std::string host = lost.public_address;
    end(lost);
    EXPECT_TRUE(cloud->get_instance(life.cluster, id, soon()));
    EXPECT_TRUE(cloud->terminate(life.cluster, {id}, soon()));
    const auto replaced = cloud->provision(life.cluster, 1, 0, soon());
    EXPECT_TRUE(replaced) << replaced.error().message;
    EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
    return cloud_->machines.back().public_address == host;
  }
};

TEST_F(VastReplacementTest, AHostThatWasLostIsNotTakenAgain) {
  EXPECT_FALSE(returns_to_its_host([](doubles::Machine&) {}));
}

TEST_F(VastReplacementTest, TheOnlyHostThatIsLeftIsTakenAgain) {
  want_the_only_one();
  EXPECT_TRUE(returns_to_its_host([](doubles::Machine&) {}));
}

TEST_F(VastReplacementTest, AHostWithAHigherBidderIsTakenAgain) {
  spec_.spot = Spot::Always();
  EXPECT_TRUE(returns_to_its_host([&](doubles::Machine& one) { one.stop(fixture_.now); }));
}

TEST_F(VastTest, AReplacementNeedsItsHostOnlyForTheTimeThatIsLeft) {
  const auto [cloud, life] = opened();
  EXPECT_EQ(searches().back().body["duration"]["gte"], 3600.0);
  fixture_.now += 40min;
  fixture_.wall_s += 40 * 60;
  EXPECT_TRUE(cloud->provision(life.cluster, 1, 0, soon()));
  EXPECT_LT(searches().back().body["duration"]["gte"], 40 * 60);
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

// It pulls the image over a slow line, say.
TEST_F(VastTest, AnotherHostIsTakenForOneThatStartsTooSlowly) {
  cloud_->on_request = [this](int, bool after) {
    if (after && !cloud_->machines.empty()) cloud_->machines.front().ready = kNever;
  };
  const auto cloud = provider();
  const auto offers = cloud->offers(spec_, soon());
  ASSERT_TRUE(offers) << offers.error().message;
  const auto cluster = cloud->prepare(spec_, offers->front(), soon());
  ASSERT_TRUE(cluster) << cluster.error().message;
  const Time begin = fixture_.now;
  const auto machines =
      cloud->provision(*cluster, 2, 0, begin + cloud->capabilities().provision_timeout);
  ASSERT_TRUE(machines) << machines.error().message;
  EXPECT_LT(fixture_.now - begin, 400s) << "five minutes are the default";
  EXPECT_THAT(cloud_->machines, SizeIs(3));
  std::set<std::string> asks;
  for (const doubles::Heard& one : heard_at("/asks/")) asks.insert(one.path);
  EXPECT_THAT(asks, SizeIs(3));
  EXPECT_TRUE(cloud->teardown(*cluster, soon()));
}

TEST_F(VastTest, AnotherHostIsTakenForTheOnlyMachineThatStartsTooSlowly) {
  cloud_->on_request = [this](int, bool after) {
    if (after && !cloud_->machines.empty()) cloud_->machines.front().ready = kNever;
  };
  spec_.nodes = 1;
  const auto cloud = provider();
  const auto offers = cloud->offers(spec_, soon());
  ASSERT_TRUE(offers) << offers.error().message;
  const auto cluster = cloud->prepare(spec_, offers->front(), soon());
  ASSERT_TRUE(cluster) << cluster.error().message;
  const auto machines =
      cloud->provision(*cluster, 1, 0, fixture_.now + cloud->capabilities().provision_timeout);
  ASSERT_TRUE(machines) << machines.error().message;
  const std::vector<doubles::Heard> asks = heard_at("/asks/");
  ASSERT_THAT(asks, SizeIs(2));
  EXPECT_NE(asks[0].path, asks[1].path);
  EXPECT_TRUE(cloud->teardown(*cluster, soon()));
}

TEST_F(VastTest, AWrongKeyIsExplainedByTheFirstSearch) {
  fixture_.variables["VAST_API_KEY"] = "0123456789abcdef";
  const auto offers = provider()->offers(spec_, soon());
  ASSERT_FALSE(offers);
  EXPECT_EQ(offers.error().kind, ErrorKind::denied);
  EXPECT_THAT(offers.error().hint, HasSubstr("check the key at cloud.vast.ai"));
}

TEST_F(VastTest, NoRequestComesTooSoon) {
  spec_.nodes = 4;
  const auto [cloud, life] = opened();
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(cloud->get_instance(life.cluster, life.instances.front().id, soon()));
  }
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
  EXPECT_THAT(cloud_->heard, Each(Field(&doubles::Heard::status, Ne(429))));
}

TEST_F(VastTest, WithoutCreditNothingIsRented) {
  cloud_->dials.balance = "0";
  const auto cloud = provider();
  const Life life = live(*cloud);
  ASSERT_FALSE(life.status);
  EXPECT_THAT(life.status.error().message + life.status.error().hint, HasSubstr("credit"));
}

TEST_F(VastTest, AContractWithoutAPriceIsNotFree) {
  auto access = find_access(fixture_.world, spec_.provider);
  ASSERT_TRUE(access) << access.error().message;
  VastAccount account(fixture_.world, *access);
  for (const doubles::Json& price : {doubles::Json(), doubles::Json(0), doubles::Json(0.5)}) {
    cloud_->dials.answers = {
        {.method = "GET",
         .path = "/api/v1/instances/",
         .status = 200,
         .body = {{"instances", {{{"id", 7}, {"label", "mine"}, {"dph_total", price}}}}}}};
    const auto machines = account.machines(soon());
    ASSERT_TRUE(machines) << machines.error().message;
    ASSERT_THAT(*machines, SizeIs(1));
    const auto seen = machines->front().status.instance.price_on_demand;
    EXPECT_EQ(seen, price == 0.5 ? std::optional(0.5) : std::nullopt) << price;
  }
}

TEST_F(VastTest, TextsOfHostsLoseTheBlanksAtTheirEnds) {
  auto access = find_access(fixture_.world, spec_.provider);
  ASSERT_TRUE(access) << access.error().message;
  VastAccount account(fixture_.world, *access);
  const doubles::Json contract{
      {"id", 7},
      {"label", "mine\n"},
      {"public_ipaddr", "198.18.0.7 \n"},
      {"geolocation", "Texas, US "},
      {"actual_status", "running"},
      {"cur_state", "running"},
      {"ports", {{"22/tcp", {{{"HostIp", "0.0.0.0"}, {"HostPort", "40007"}}}}}}};
  cloud_->dials.answers = {{.method = "GET",
                            .path = "/api/v1/instances/",
                            .status = 200,
                            .body = {{"instances", doubles::Json::array({contract})}}}};
  const auto machines = account.machines(soon());
  ASSERT_TRUE(machines) << machines.error().message;
  ASSERT_THAT(*machines, SizeIs(1));
  const auto& [name, status] = machines->front();
  EXPECT_EQ(name, "mine");
  EXPECT_EQ(status.instance.public_ip, "198.18.0.7") << "ssh takes no other form of it";
  EXPECT_EQ(status.zone, "US");
}

// ---- Offers

doubles::Json asks(int first, int count, double price) {
  doubles::Json out = doubles::Json::array();
  for (int id = first; id < first + count; ++id) {
    out.push_back({{"id", id}, {"gpu_name", "RTX 4090"}, {"num_gpus", 1}, {"dph_total", price}});
  }
  return {{"offers", out}};
}

TEST_F(VastTest, OffersAreKindsInCountriesWithTheirCheapestPrice) {
  spec_.spot = Spot::Always();
  const auto cloud = provider();
  const auto offers = cloud->offers(spec_, soon());
  ASSERT_TRUE(offers) << offers.error().message;
  std::set<std::pair<std::string, std::string>> seen;
  for (const Offer& one : *offers) {
    EXPECT_TRUE(seen.emplace(one.region, one.instance_type).second);
    EXPECT_EQ(one.accelerator, "RTX 4090");
    EXPECT_THAT(one.region, SizeIs(2));
    EXPECT_LT(one.price_spot.value_or(0), one.price_on_demand.value_or(1000));
  }
}

// The host has 512000 MB and eight GPUs.
TEST_F(VastTest, MemoryIsTheShareOfTheHostThatIsRented) {
  const auto offers = provider()->offers(spec_, soon());
  ASSERT_TRUE(offers) << offers.error().message;
  EXPECT_DOUBLE_EQ(offers->front().memory_gb, 62.5);
  auto access = find_access(fixture_.world, spec_.provider);
  ASSERT_TRUE(access) << access.error().message;
  VastAccount account(fixture_.world, *access);
  for (const auto& [cores, fraction, memory_gb] :
       {std::tuple(doubles::Json(), doubles::Json(0.25), 32.0),
        std::tuple(doubles::Json(), doubles::Json(), 128.0),
        std::tuple(doubles::Json(64), doubles::Json(0.25), 16.0),
        std::tuple(doubles::Json(4), doubles::Json(), 128.0)}) {
    doubles::Json page = asks(1, 1, 0.5);
    page["offers"][0].update({{"cpu_ram", 131072},
                              {"cpu_cores", cores},
                              {"cpu_cores_effective", 8.0},
                              {"gpu_frac", fraction}});
    cloud_->dials.answers = {
        {.method = "POST", .path = "/api/v0/bundles/", .status = 200, .body = page}};
    const auto found = account.api().search({}, soon());
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_DOUBLE_EQ(found->front().memory_gb, memory_gb) << page;
  }
}

// A launch searches a country, and would find no such machine.
TEST_F(VastTest, AnAskWithoutACountryIsNoOffer) {
  spec_.nodes = 1;
  doubles::Json page = asks(1, 4, 0.1);
  int next = 0;
  for (const char* place : {"", "California, United States", "Atlantis, at", "Texas, US"}) {
    page["offers"][next++].update(
        {{"geolocation", place}, {"cpu_ram", 64000}, {"cpu_cores_effective", 8}});
  }
  page["offers"][0]["geolocation"] = nullptr;
  cloud_->dials.answers = {
      {.method = "POST", .path = "/api/v0/bundles/", .status = 200, .body = page}};
  const auto offers = provider()->offers(spec_, soon());
  ASSERT_TRUE(offers) << offers.error().message;
  EXPECT_THAT(*offers, AllOf(SizeIs(1), Each(Field(&Offer::region, "US"))));
}

TEST_F(VastTest, MoreMachinesThanACountryHasAreNoUnknownKind) {
  spec_.accelerator = Accelerator{.name = "H100"};
  spec_.nodes = 50;
  const auto cloud = provider();
  const auto offers = cloud->offers(spec_, soon());
  ASSERT_FALSE(offers);
  EXPECT_EQ(offers.error().kind, ErrorKind::exhausted);
  EXPECT_THAT(offers.error().message,
              StartsWith("Vast.ai: no country has 50 such machines available right now; one has "));
  EXPECT_THAT(offers.error().hint, StartsWith("use nodes="));
}

// A search tells 64 machines, the cheapest first.
TEST_F(VastTest, DearMachinesAreSeenBehindCheapOnes) {
  want("H200", 8);
  spec_.nodes = 1;
  const auto [cloud, life] = lived();
  EXPECT_EQ(life.instances.front().instance_type, "8x H200");
  EXPECT_THAT(searches(), SizeIs(1 + cloud_->machines.size())) << "the rate is limited";
  spec_.accelerator.reset();
  spec_.machine = "4x H200";
  const auto offers = cloud->offers(spec_, soon());
  ASSERT_TRUE(offers) << offers.error().message;
  EXPECT_THAT(*offers, Each(Field(&Offer::instance_type, "4x H200")));
}

TEST_F(VastTest, TheCatalogueHasTheWholeMarket) {
  const auto offers = provider()->catalogue(soon());
  ASSERT_TRUE(offers) << offers.error().message;
  std::set<std::string> seen;
  for (const Offer& one : *offers) seen.insert(one.accelerator);
  EXPECT_THAT(seen, SizeIs(8)) << "two forms of H100 are one";
  EXPECT_THAT(seen, Contains("H200"));
}

// Vast.ai may give a model another generation; and a custom model has none.
TEST_F(VastTest, WhatNoNarrowSearchFindsIsSoughtInTheWholeMarket) {
  cloud_->dials.answers = {{.method = "POST",
                            .path = "/api/v0/bundles/",
                            .status = 200,
                            .body = {{"offers", doubles::Json::array()}}}};
  const auto cloud = provider();
  const auto offers = cloud->offers(spec_, soon());
  ASSERT_TRUE(offers) << offers.error().message;
  cloud_->heard.clear();
  spec_.accelerator = Accelerator{.name = "Imagined"};
  spec_.accelerator->custom = true;
  EXPECT_FALSE(cloud->offers(spec_, soon()));
  EXPECT_FALSE(searches().front().body.contains("compute_cap"));
}

TEST_F(VastTest, APageOfOnePriceIsPassed) {
  auto access = find_access(fixture_.world, spec_.provider);
  ASSERT_TRUE(access) << access.error().message;
  VastAccount account(fixture_.world, *access);
  for (const auto& page : {asks(1, 64, 0.5), asks(1, 64, 0.5), asks(65, 2, 0.6)}) {
    cloud_->dials.answers.push_back(
        {.method = "POST", .path = "/api/v0/bundles/", .status = 200, .body = page});
  }
  const auto found = account.api().search({}, soon());
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(*found, SizeIs(66));
  ASSERT_THAT(searches(), SizeIs(3));
  EXPECT_FALSE(searches()[0].body.contains("dph_total"));
  EXPECT_EQ(searches()[1].body["dph_total"], (doubles::Json{{"gte", 0.5}}));
  EXPECT_EQ(searches()[2].body["dph_total"], (doubles::Json{{"gt", 0.5}}));
}

TEST_F(VastTest, ASearchEndsWhereTheCloudTellsTheSameAgain) {
  auto access = find_access(fixture_.world, spec_.provider);
  ASSERT_TRUE(access) << access.error().message;
  VastAccount account(fixture_.world, *access);
  cloud_->dials.answers = {{.method = "POST",
                            .path = "/api/v0/bundles/",
                            .times = -1,
                            .status = 200,
                            .body = asks(1, 300, 0.5)}};
  const auto found = account.api().search({}, soon());
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(*found, SizeIs(300)) << "all that a cloud without the limit has told";
  EXPECT_THAT(searches(), SizeIs(3));
}

TEST_F(VastTest, TheCountryMayBeChosen) {
  for (const char* code : {"NO", "no"}) {
    spec_.provider.settings["geolocation"] = code;
    const auto cloud = provider();
    EXPECT_TRUE(cloud->check(spec_));
    const auto offers = cloud->offers(spec_, soon());
    ASSERT_TRUE(offers) << offers.error().message;
    EXPECT_THAT(*offers, Each(Field(&Offer::region, "NO")));
  }
}

TEST_F(VastTest, ACountryIsTwoLetters) {
  for (const char* place : {"Norway", "NO,Sweden", "N0"}) {
    spec_.provider.settings["geolocation"] = place;
    const Status refused = provider()->check(spec_);
    ASSERT_FALSE(refused) << place;
    EXPECT_THAT(refused.error().message, HasSubstr(place));
    EXPECT_THAT(refused.error().hint, HasSubstr("geolocation=\"NO,SE\""));
  }
}

TEST_F(VastTest, WhatTheCountryLacksIsNotBlamedOnTrust) {
  spec_.provider.settings = {{"geolocation", "EU"}};
  const auto offers = provider()->offers(spec_, soon());
  ASSERT_FALSE(offers);
  EXPECT_THAT(offers.error().hint,
              AllOf(HasSubstr("geolocation=\"EU\" leaves out all other countries"),
                    Not(HasSubstr("trust"))));
}

// ---- What others left, and what is set up

TEST_F(VastTest, WhatADeadProgramLeftIsSwept) {
  {
    (void)opened();
  }
  const std::vector<Swept> told = gc();
  EXPECT_THAT(told, SizeIs(2));
  EXPECT_THAT(told, Each(Field(&Swept::action, SweepAction::removed)));
}

std::vector<Finding> look(VastComputer& computer) {
  std::vector<Finding> told;
  EXPECT_TRUE(diagnose(
      computer.fixture_.world, {.name = "region"}, [&](const Finding& one) { told.push_back(one); },
      computer.soon()));
  return told;
}

TEST_F(VastTest, TheCheckFindsAllWell) {
  EXPECT_THAT(look(*this), Each(Field(&Finding::good, true)));
}

TEST_F(VastTest, TheCheckTellsOfAWrongKeyAndOfNoCredit) {
  fixture_.variables["VAST_API_KEY"] = "0123456789abcdef";
  EXPECT_THAT(look(*this),
              Contains(AllOf(Field(&Finding::what, "account"), Field(&Finding::good, false))));
  fixture_.variables["VAST_API_KEY"] = cloud_->api_key;
  cloud_->dials.balance = "0";
  EXPECT_THAT(look(*this),
              Contains(AllOf(Field(&Finding::what, "credit"), Field(&Finding::good, false))));
}

}  // namespace
}  // namespace skyward::provider::vast

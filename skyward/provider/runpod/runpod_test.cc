#include "skyward/provider/runpod/runpod.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "skyward/provider/base64.h"
#include "skyward/provider/runpod/diagnose.h"
#include "skyward/provider/runpod/pods.h"
#include "skyward/provider/runpod/runpod_account.h"
#include "skyward/provider/runpod/runpod_computer_fixture.h"

namespace skyward::provider::runpod {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// Of the 70 GB that a pod has by default.
constexpr double kDisks = 70 * 0.1 / 730;

class RunPodTest : public ::testing::Test, public RunPodComputer {
 protected:
  RunPodTest() { want("RTX-4090"); }
  ~RunPodTest() override {
    EXPECT_EQ(violations(), "");
    EXPECT_THAT(cloud_->leftovers(), IsEmpty());
    EXPECT_THAT(open_pools(), IsEmpty());
  }
  void want(const char* accelerator, double count = 1) {
    spec_.accelerator = Accelerator{.name = accelerator, .count = count};
  }
  void set(const char* name, const char* value) { spec_.provider.settings[name] = value; }
  // Why the pool is not opened. Nothing was rented.
  Error refused() {
    const auto cloud = provider();
    const Life life = live(*cloud);
    EXPECT_FALSE(life.status);
    EXPECT_THAT(cloud_->machines, IsEmpty());
    return life.status ? Error{} : life.status.error();
  }
  // Whether the request with this number asks GraphQL for it.
  bool queries(int number, std::string_view what) const {
    const doubles::Json& body = cloud_->heard[static_cast<std::size_t>(number) - 1].body;
    return body.is_object() && body.contains("query") &&
           body["query"].get<std::string>().contains(what);
  }
  // Bids get this answer.
  void answer_bids(const std::string& message, const char* code = "RUNPOD", int status = 200) {
    cloud_->on_request = [this, message, code, status](int number, bool after) {
      if (after || !queries(number, "podRent")) return;
      const doubles::Json error{{"message", message}, {"extensions", {{"code", code}}}};
      cloud_->dials.answers = {{.method = "POST",
                                .path = "/graphql",
                                .status = status,
                                .body = {{"errors", {error}}, {"data", nullptr}}}};
    };
  }
  Error unchecked() {
    const Status status = provider()->check(spec_);
    EXPECT_FALSE(status);
    return status ? Error{} : status.error();
  }
};

TEST_F(RunPodTest, APoolLivesAndLeavesNothing) {
  const auto [cloud, life] = lived();
  ASSERT_THAT(life.instances, SizeIs(2));
  EXPECT_GE(life.instances.front().ssh_port, 10000);
  EXPECT_THAT(cloud_->machines, SizeIs(3));
  std::set<std::string> places;
  for (const doubles::Machine& one : cloud_->machines) places.insert(one.place);
  EXPECT_THAT(places, SizeIs(1)) << "a pool stays in one data centre";
}

TEST_F(RunPodTest, APodIsWhatTheSettingsSay) {
  set("ubuntu", "22.04");
  set("container_disk_gb", "70");
  set("volume_gb", "0");
  set("ports", "8888/http");
  set("registry_auth", "private");
  const auto [cloud, life] = opened();
  const auto& asked = cloud_->machines.front().request;
  EXPECT_THAT(asked["image"].get<std::string>(), HasSubstr("ubuntu22.04"));
  EXPECT_EQ(asked["disk"], 70);
  EXPECT_FALSE(asked.contains("mounts"));
  EXPECT_EQ(asked["ports"], (doubles::Json{"22/tcp", "8888/http"}));
  EXPECT_EQ(asked["registry"], "reg_private");
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(RunPodTest, ItsScriptBringsAnSshdAndTheEndOfThePod) {
  const auto [cloud, life] = opened();
  const std::string args = cloud_->machines.front().request["args"];
  const std::string encoded = args.substr(14, args.find(" | base64") - 14);
  EXPECT_THAT(args, HasSubstr("exec sleep infinity"));
  EXPECT_THAT(encoded, HasSubstr(base64("#!/bin/sh\n").substr(0, 12)));
  EXPECT_EQ(encoded.find_first_of(" '\"$"), std::string::npos) << "no shell reads anything into it";
  EXPECT_THAT(fixture_.started, SizeIs(1)) << "a reaper, in case it does not";
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(RunPodTest, WithoutAcceleratorItIsAPodOfProcessors) {
  spec_.accelerator.reset();
  spec_.cpus = 3;
  (void)lived();
  const auto& asked = cloud_->machines.front().request;
  EXPECT_EQ(asked["cpu"], (doubles::Json{{"id", "cpu3c"}, {"vcpuCount", 4}}));
  EXPECT_EQ(asked["disk"], 20);
}

TEST_F(RunPodTest, PodsOfProcessorsAreOnDemandWhateverSpotSays) {
  spec_.accelerator.reset();
  spec_.cpus = 3;
  for (const Spot& policy : {PoolSpec().spot, Spot::Percent(0.5)}) {
    spec_.spot = policy;
    const Life life = live(*provider());
    ASSERT_TRUE(life.status) << life.status.error().message;
    for (const Instance& one : life.instances) EXPECT_FALSE(one.spot);
  }
}

TEST_F(RunPodTest, NodesReachEachOtherWhereTheNetworkIs) {
  set("global_networking", "true");
  const auto cloud = provider();
  EXPECT_TRUE(cloud->capabilities().private_network);
  const Life life = open(*cloud);
  ASSERT_TRUE(life.status) << life.status.error().message;
  const Instance& one = life.instances.front();
  EXPECT_NE(one.private_ip, one.public_ip);
  EXPECT_TRUE(one.private_ip.starts_with("10."));
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(RunPodTest, AnAddressOfTheNetworkIsWaitedFor) {
  set("global_networking", "true");
  cloud_->dials.network_lag = 100s;
  const auto [cloud, life] = opened();
  for (const Instance& one : life.instances) EXPECT_TRUE(one.private_ip.starts_with("10."));
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(RunPodTest, ANetworkIsForPodsOnDemandAlone) {
  spec_.spot = Spot::Always();
  set("global_networking", "true");
  const auto cloud = provider();
  EXPECT_FALSE(cloud->capabilities().spot);
  const Life life = open(*cloud);
  ASSERT_TRUE(life.status) << life.status.error().message;
  for (const Instance& one : life.instances) EXPECT_FALSE(one.spot);
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

// A user and a password of Docker Hub are of no use anywhere else.
TEST_F(RunPodTest, ImagesComeFromWhereTheCredentialIsGood) {
  for (const auto& [credential, image] :
       {std::pair("none", "nvcr.io/nvidia/cuda:"), std::pair("private", "nvidia/cuda:")}) {
    set("registry_auth", credential);
    (void)lived();
    EXPECT_TRUE(cloud_->machines.back().request["image"].get<std::string>().starts_with(image));
  }
}

TEST_F(RunPodTest, AKindThatTheAccountMayNotHaveIsLeft) {
  want("H100");
  cloud_->dials.answers = {
      {.method = "POST",
       .path = "/v2/pods",
       .status = 403,
       .body = {{"title", "Forbidden"}, {"status", 403}, {"detail", "Not for you."}}}};
  (void)lived();
}

TEST_F(RunPodTest, ANetworkVolumeIsMountedWhereItIs) {
  const std::string volume = "vol0123456";
  cloud_->dials.answers = {{.method = "GET",
                            .path = "/v2/network-volumes/" + volume,
                            .times = -1,
                            .status = 200,
                            .body = {{"id", volume}, {"dataCenter", "EU-RO-1"}}}};
  set("network_volume", volume.c_str());
  const auto cloud = provider();
  const auto offers = cloud->offers(spec_, soon());
  ASSERT_TRUE(offers) << offers.error().message;
  EXPECT_THAT(*offers, Each(Field(&Offer::region, "EU-RO-1")));
}

// ---- Strangers

TEST_F(RunPodTest, CommunityMachinesAreAStrangers) {
  EXPECT_FALSE(provider()->capabilities().strangers);
  set("cloud_type", "community");
  EXPECT_TRUE(provider()->capabilities().strangers);
  const auto cloud = lived().cloud;
  EXPECT_EQ(cloud_->machines.front().request["cloud"], "COMMUNITY");
}

TEST_F(RunPodTest, StrangersGetNoPasswordOfAnIndex) {
  set("cloud_type", "community");
  spec_.image.pip = {"numpy"};
  fixture_.variables["UV_INDEX_URL"] = "https://me:secret@packages.example.com/simple";
  EXPECT_THAT(refused().message, HasSubstr("the owner of the machine could read"));
}

// ---- What is refused before anything is rented

TEST_F(RunPodTest, VolumesInstantClustersAndContradictionsAreRefused) {
  set("cluster_mode", "instant");
  EXPECT_THAT(unchecked().message, HasSubstr("instant clusters"));
  set("cluster_mode", "individual");
  set("volume_gb", "5");
  EXPECT_THAT(unchecked().message, HasSubstr("volume_gb"));
  set("volume_gb", "20");
  set("cloud_type", "community");
  set("global_networking", "true");
  EXPECT_THAT(unchecked().message, HasSubstr("global_networking"));
  set("global_networking", "false");
  set("data_center_ids", "EU-RO-1");
  EXPECT_THAT(unchecked().message, HasSubstr("no data centre"));
  set("data_center_ids", "global");
  set("network_volume", "vol0123456");
  EXPECT_THAT(unchecked().message, HasSubstr("a network volume is in a data centre"));
  spec_.provider.settings.clear();
  spec_.volumes = {Volume{.mount_path = "/data", .bucket = "data"}};
  EXPECT_THAT(unchecked().message, HasSubstr("no FUSE"));
}

TEST_F(RunPodTest, AnUnknownPlaceOrCredentialIsNamed) {
  set("data_center_ids", "EU-XX-9");
  const Error place = refused();
  EXPECT_THAT(place.message, HasSubstr("EU-XX-9"));
  EXPECT_THAT(place.hint, HasSubstr("US-TX-3"));
  spec_.provider.settings.clear();
  set("registry_auth", "nobody's");
  const Error credential = refused();
  EXPECT_THAT(credential.message, HasSubstr("nobody's"));
  EXPECT_THAT(credential.hint, HasSubstr("private"));
}

TEST_F(RunPodTest, WithoutBalanceNothingIsRented) {
  cloud_->dials.balance = "0";
  const Error why = refused();
  EXPECT_THAT(why.message + why.hint, HasSubstr("alance"));
}

// ---- When it does not go well

TEST_F(RunPodTest, ALostReplyIsLookedForAndNotRepeated) {
  cloud_->dials.answers = {{.method = "POST", .path = "/v2/pods", .perform = true, .status = 0}};
  (void)lived();
  EXPECT_THAT(cloud_->machines, SizeIs(3));
}

// What is in front of the API says so in its own words.
TEST_F(RunPodTest, ARequestThatComesTooSoonIsRepeatedAndMadeNothing) {
  cloud_->dials.answers = {{.method = "POST",
                            .path = "/v2/pods",
                            .times = 3,
                            .status = 429,
                            .body = "error code: 1015"}};
  const Time begin = fixture_.now;
  const auto [cloud, life] = opened();
  EXPECT_LT(fixture_.now - begin, 2min) << "nobody looks for what it may have made";
  EXPECT_THAT(cloud_->machines, SizeIs(2));
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(RunPodTest, AnotherPodIsRentedForOneThatStartsTooSlowly) {
  set("provision_timeout", "100");
  set("instance_timeout", "50");
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
  EXPECT_LT(fixture_.now - begin, 250s);
  EXPECT_THAT(cloud_->machines, SizeIs(3));
  EXPECT_TRUE(cloud->teardown(*cluster, soon()));
}

TEST_F(RunPodTest, AnotherPodIsRentedForTheOnlyOneWithoutAPort) {
  set("cloud_type", "community");
  spec_.nodes = 1;
  cloud_->on_request = [this](int, bool after) {
    if (after && !cloud_->machines.empty()) cloud_->machines.front().public_address.clear();
  };
  const auto [cloud, life] = opened();
  ASSERT_THAT(cloud_->machines, SizeIs(2));
  EXPECT_NE(cloud_->machines.front().ended, kNever);
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(RunPodTest, APlaceThatIsSoldOutIsLeft) {
  want("H100");
  cloud_->dials.answers = {{.method = "POST",
                            .path = "/v2/pods",
                            .status = 400,
                            .body = {{"title", "Bad Request"},
                                     {"status", 400},
                                     {"detail", "There are no instances currently available."}}}};
  (void)lived();
}

// The type that the pool chose is sold out by now.
TEST_F(RunPodTest, AnAlternativeIsCalledByItsOwnName) {
  want("H100");
  set("data_center_ids", "US-TX-3");
  const auto cloud = provider();
  const auto offers = cloud->offers(spec_, soon());
  ASSERT_TRUE(offers) << offers.error().message;
  ASSERT_EQ(offers->front().instance_type, "1x H100 PCIe");
  const auto cluster = cloud->prepare(spec_, offers->front(), soon());
  ASSERT_TRUE(cluster) << cluster.error().message;
  cloud_->dials.capacity = {{"NVIDIA H100 PCIe", 0}};
  const auto machines = cloud->provision(*cluster, 1, 0, soon());
  ASSERT_TRUE(machines) << machines.error().message;
  EXPECT_EQ(machines->front().instance_type, "1x H100 SXM");
  EXPECT_TRUE(cloud->teardown(*cluster, soon()));
}

TEST_F(RunPodTest, BidsAreMadeByGraphQLAndKnownAsSuch) {
  spec_.spot = Spot::Always();
  set("bid_multiplier", "1.5");
  const auto [cloud, life] = opened();
  const doubles::Machine& machine = cloud_->machines.front();
  EXPECT_TRUE(machine.spot);
  EXPECT_DOUBLE_EQ(machine.hourly, 0.59 / 2 * 1.5);
  doubles::Json rents;
  for (const doubles::Heard& one : cloud_->heard) {
    const std::string query = one.body.is_object() ? one.body.value("query", "") : "";
    if (query.contains("podRent")) rents = one.body["variables"]["input"];
  }
  EXPECT_EQ(rents["minVcpuCount"], 8) << "what was offered";
  EXPECT_EQ(rents["minMemoryInGb"], 41);
  ASSERT_TRUE(life.instances.front().spot);
  EXPECT_DOUBLE_EQ(life.instances.front().price_spot.value_or(0), machine.hourly + kDisks);
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(RunPodTest, ALostReplyToABidIsLookedForToo) {
  spec_.spot = Spot::Always();
  cloud_->on_request = [&](int number, bool after) {
    if (after || !queries(number, "podRent") || !cloud_->machines.empty()) return;
    cloud_->dials.answers = {{.method = "POST", .path = "/graphql", .perform = true, .status = 0}};
  };
  const auto [cloud, life] = lived();
  EXPECT_THAT(cloud_->machines, SizeIs(3));
  for (const Instance& one : life.instances) EXPECT_TRUE(one.spot);
}

TEST_F(RunPodTest, WithoutRoomForABidOtherPodsAreTried) {
  for (const auto& [message, code] :
       {std::pair("There are no longer any instances available with the requested specifications.",
                  "RUNPOD"),
        std::pair("There are not enough free GPUs on the host machine to start this pod.",
                  "RUNPOD"),
        std::pair("This machine does not have the resources to deploy your pod. Please try a "
                  "different machine",
                  "INTERNAL_SERVER_ERROR"),
        std::pair("No GPUs left.", "RUNPOD"), std::pair("Words of a later day", "RUNPOD")}) {
    answer_bids(message, code);
    spec_.spot = Spot::IfAvailable(1);
    const auto cloud = provider();
    const Life life = live(*cloud);
    EXPECT_TRUE(life.status) << message << ": " << life.status.error().message;
    for (const Instance& one : life.instances) EXPECT_FALSE(one.spot);
    spec_.spot = Spot::Always(1);
    const Life none = live(*provider());
    ASSERT_FALSE(none.status) << message;
    EXPECT_EQ(none.status.error().kind, ErrorKind::exhausted) << message;
    EXPECT_THAT(none.status.error().message, HasSubstr(message)) << "the cloud's own words";
  }
}

TEST_F(RunPodTest, ABidThatIsNotUnderstoodEndsTheLaunch) {
  spec_.spot = Spot::IfAvailable(1);
  for (const int status : {200, 400}) {
    answer_bids("Variable \"$input\" got invalid value", "BAD_USER_INPUT", status);
    const Error error = refused();
    EXPECT_EQ(error.kind, ErrorKind::invalid) << status;
    EXPECT_THAT(error.message, HasSubstr("got invalid value")) << status;
  }
  answer_bids("Insufficient funds.");
  EXPECT_EQ(refused().kind, ErrorKind::denied);
  answer_bids("Unauthorized");
  EXPECT_EQ(refused().kind, ErrorKind::denied);
}

TEST_F(RunPodTest, NoBidIsAboveWhatThePoolMayCost) {
  spec_.spot = Spot::Always();
  spec_.max_hourly_cost = 0.02;
  EXPECT_EQ(refused().kind, ErrorKind::exhausted);
}

// The market moves between the opening and a replacement.
TEST_F(RunPodTest, AReplacementBidsWhatTheMarketAsksNow) {
  spec_.spot = Spot::Always(1);
  const auto [cloud, life] = opened();
  for (const double times : {1.2, 0.8}) {
    cloud_->multiply_bids(times);
    const auto replacement = cloud->provision(life.cluster, 1, 0, soon());
    ASSERT_TRUE(replacement) << replacement.error().message;
    EXPECT_DOUBLE_EQ(cloud_->machines.back().hourly, 0.59 * 0.5 * times);
    cloud_->multiply_bids(1 / times);
  }
  const auto rented = cloud_->machines.size();
  cloud_->multiply_bids(1.6);
  const auto dear = cloud->provision(life.cluster, 1, 0, soon());
  ASSERT_FALSE(dear);
  EXPECT_EQ(dear.error().kind, ErrorKind::exhausted);
  EXPECT_THAT(dear.error().message,
              HasSubstr("with the lowest bid, a 1x RTX 4090 costs $0.4816 an hour"));
  EXPECT_THAT(cloud_->machines, SizeIs(rented));
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

// No type is bid for above its own price on demand; the price of the chosen one is not its limit.
TEST_F(RunPodTest, AnAlternativeMayCostMoreThanTheChosenTypeOnDemand) {
  want("H100");
  set("data_center_ids", "US-TX-3");
  spec_.spot = Spot::Always(1);
  cloud_->multiply_bids(1.9);
  const auto cloud = provider();
  const auto offers = cloud->offers(spec_, soon());
  ASSERT_TRUE(offers) << offers.error().message;
  ASSERT_EQ(offers->front().instance_type, "1x H100 PCIe");
  const auto cluster = cloud->prepare(spec_, offers->front(), soon());
  ASSERT_TRUE(cluster) << cluster.error().message;
  cloud_->dials.capacity = {{"NVIDIA H100 PCIe", 0}};
  const auto machines = cloud->provision(*cluster, 1, 0, soon());
  ASSERT_TRUE(machines) << machines.error().message;
  EXPECT_EQ(machines->front().instance_type, "1x H100 SXM");
  EXPECT_GT(cloud_->machines.back().hourly, offers->front().price_on_demand.value_or(0));
  cloud_->multiply_bids(1.2);
  EXPECT_FALSE(cloud->provision(*cluster, 1, 0, soon()));
  EXPECT_TRUE(cloud->teardown(*cluster, soon()));
}

TEST_F(RunPodTest, AMarketThatIsNotToldLeavesTheLastBid) {
  spec_.spot = Spot::Always(1);
  const auto [cloud, life] = opened();
  cloud_->multiply_bids(0.8);
  cloud_->on_request = [&](int number, bool after) {
    if (after || !queries(number, "lowestPrice")) return;
    cloud_->dials.answers = {{.method = "POST", .path = "/graphql", .status = 404}};
  };
  const auto replacement = cloud->provision(life.cluster, 1, 0, soon());
  ASSERT_TRUE(replacement) << replacement.error().message;
  EXPECT_DOUBLE_EQ(cloud_->machines.back().hourly, 0.59 / 2);
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(RunPodTest, AnOutbidPodIsGoneAndReleased) {
  spec_.spot = Spot::Always();
  const auto [cloud, life] = opened();
  const std::string id = life.instances.front().id;
  for (doubles::Machine& one : cloud_->machines) {
    if (one.id == id) one.stop(fixture_.now);
  }
  const auto seen = cloud->get_instance(life.cluster, id, soon());
  ASSERT_TRUE(seen) << seen.error().message;
  EXPECT_FALSE(*seen) << "it is stopped, and costs its disk";
  EXPECT_TRUE(cloud->terminate(life.cluster, {id}, soon()));
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

// A list that is cut short would pass for pods that are gone.
TEST_F(RunPodTest, ListsAreFollowedToTheirEnd) {
  auto access = find_access(fixture_.world, spec_.provider);
  ASSERT_TRUE(access) << access.error().message;
  RunPodAccount account(fixture_.world, *access);
  const auto answer = [&](const doubles::Json& body) {
    cloud_->dials.answers.push_back(
        {.method = "GET", .path = "/v2/pods", .status = 200, .body = body});
  };
  const auto pods = [](std::initializer_list<const char*> ids) {
    doubles::Json out = doubles::Json::array();
    for (const char* id : ids) out.push_back({{"id", id}, {"name", id}, {"status", "RUNNING"}});
    return out;
  };
  answer(
      {{"pods", pods({"b", "a"})}, {"pagination", {{"hasNextPage", true}, {"nextCursor", "x"}}}});
  answer({{"pods", pods({"a", "c"})},
          {"pagination", {{"hasNextPage", false}, {"nextCursor", nullptr}}}});
  const auto all = account.machines(soon());
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_THAT(*all, SizeIs(3)) << "a new pod moves others to the next page";
  answer({{"pods", pods({"a"})}});
  const auto old = account.machines(soon());
  ASSERT_TRUE(old) << old.error().message;
  EXPECT_THAT(*old, SizeIs(1));
  answer({{"pods", pods({"a"})}, {"pagination", {{"hasNextPage", true}, {"nextCursor", nullptr}}}});
  EXPECT_FALSE(account.machines(soon()));
}

// ---- Offers

TEST_F(RunPodTest, OffersAreKindsInDataCentres) {
  spec_.spot = Spot::IfAvailable();
  const auto cloud = provider();
  const auto offers = cloud->offers(spec_, soon());
  ASSERT_TRUE(offers) << offers.error().message;
  EXPECT_THAT(*offers, SizeIs(3));
  for (const Offer& one : *offers) {
    EXPECT_EQ(one.accelerator, "RTX 4090");
    EXPECT_EQ(one.instance_type, "1x RTX 4090");
    EXPECT_DOUBLE_EQ(one.price_on_demand.value_or(0), 0.59 + kDisks);
    EXPECT_DOUBLE_EQ(one.price_spot.value_or(0), 0.295 + kDisks);
  }
}

TEST_F(RunPodTest, DriversAreAsNewAsTheSettingSays) {
  set("min_cuda", "13.0");
  for (const Spot& policy : {Spot::Never(), Spot::Always()}) {
    spec_.spot = policy;
    (void)lived();
    const doubles::Json& asked = cloud_->machines.back().request["gpu"];
    if (policy.kind == SpotKind::always) {
      EXPECT_EQ(asked["allowedCudaVersions"], doubles::Json::array({"13.0"}));
    } else {
      EXPECT_EQ(asked["minCudaVersion"], "13.0");
    }
  }
  spec_.spot = Spot::Never();
  set("min_cuda", "14.0");
  EXPECT_FALSE(provider()->offers(spec_, soon())) << "no host has such a driver";
}

// An accelerator that the user describes may need a newer driver than the setting says.
TEST_F(RunPodTest, DriversAreAsNewAsTheAcceleratorNeeds) {
  spec_.accelerator = Accelerator{.name = "RTX 4090", .custom = true, .cuda_min = "12.9"};
  (void)lived();
  EXPECT_EQ(cloud_->machines.back().request["gpu"]["minCudaVersion"], "12.9");
}

TEST_F(RunPodTest, EightOfThemCostEightTimesAsMuch) {
  want("H100", 8);
  const auto cloud = provider();
  const auto offers = cloud->offers(spec_, soon());
  ASSERT_TRUE(offers) << offers.error().message;
  EXPECT_EQ(offers->front().accelerator_count, 8);
  EXPECT_DOUBLE_EQ(offers->front().price_on_demand.value_or(0), 8 * 2.39 + kDisks);
}

// ---- What others left, and what is set up

TEST_F(RunPodTest, WhatADeadProgramLeftIsSwept) {
  {
    (void)opened();
  }
  const std::vector<Swept> told = gc();
  EXPECT_THAT(told, SizeIs(2));
  EXPECT_THAT(told, Each(Field(&Swept::action, SweepAction::removed)));
}

std::vector<Finding> look(RunPodComputer& computer) {
  std::vector<Finding> told;
  EXPECT_TRUE(diagnose(
      computer.fixture_.world, {.name = "region"}, [&](const Finding& one) { told.push_back(one); },
      computer.soon()));
  return told;
}

// A pod whose port is not listed for a while may be at work.
TEST_F(RunPodTest, OnlyAPodThatIsOffIsTakenFromAnotherComputer) {
  const auto [cloud, life] = opened();
  const std::string here = std::exchange(fixture_.variables["XDG_STATE_HOME"], home_ + "/other");
  fixture_.now += 10min;
  cloud_->machines[0].public_address.clear();
  EXPECT_THAT(gc(), Each(Field(&Swept::action, SweepAction::kept)));
  cloud_->machines[1].off = fixture_.now;
  EXPECT_THAT(gc(), Contains(Field(&Swept::action, SweepAction::removed)));
  EXPECT_EQ(cloud_->machines[0].ended, kNever);
  EXPECT_NE(cloud_->machines[1].ended, kNever);
  fixture_.variables["XDG_STATE_HOME"] = here;
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

// ---- Without GraphQL, which RunPod will retire

class RetiredGraphQlTest : public RunPodTest {
 protected:
  void retire_graphql(int status = 404) {
    cloud_->dials.answers = {
        {.path = "/graphql", .times = -1, .status = status, .body = "404 page not found"}};
  }
};

TEST_F(RetiredGraphQlTest, PodsAreRentedOnDemandAndSwept) {
  for (const int status : {404, 405, 410, 501}) {
    retire_graphql(status);
    spec_.spot = Spot::IfAvailable();
    {
      const auto [cloud, life] = opened();
      EXPECT_FALSE(life.instances.front().spot);
    }
    EXPECT_THAT(gc(), AllOf(SizeIs(2), Each(Field(&Swept::action, SweepAction::removed))));
  }
}

TEST_F(RetiredGraphQlTest, BidsAreRefusedBeforeAnythingIsRented) {
  retire_graphql();
  spec_.spot = Spot::Always();
  EXPECT_THAT(refused().message, HasSubstr("retired its GraphQL API"));
}

TEST_F(RetiredGraphQlTest, AFailureOfTheServerIsNoRetirement) {
  retire_graphql(500);
  EXPECT_THAT(refused().message, HasSubstr("listing machines"));
}

// With GraphQL, the same account has another name.
TEST_F(RetiredGraphQlTest, APoolOpenedBeforeOrAfterIsRemovedByItsId) {
  for (const bool retires : {true, false}) {
    if (!retires) retire_graphql();
    Cluster cluster;
    {
      const auto [cloud, life] = opened();
      cluster = life.cluster;
    }
    cloud_->dials.answers.clear();
    if (retires) retire_graphql();
    EXPECT_THAT(gc(), Each(Field(&Swept::action, AnyOf(SweepAction::kept, SweepAction::skipped))));
    EXPECT_THAT(gc({.pool = cluster.id}), Contains(Field(&Swept::action, SweepAction::removed)));
    cloud_->dials.answers.clear();
  }
}

TEST_F(RetiredGraphQlTest, APoolOpenedBeforeIsSweptWhenItsTimeIsOver) {
  {
    (void)opened();
  }
  retire_graphql();
  fixture_.now += 24h;
  EXPECT_THAT(gc(), Contains(Field(&Swept::action, SweepAction::removed)));
  EXPECT_THAT(gc({.pool = open_pools().front().id}),
              Not(Contains(Field(&Swept::action, SweepAction::failed))));
}

TEST_F(RetiredGraphQlTest, TheCheckSaysThatTheAccountIsUnknown) {
  retire_graphql();
  const std::vector<Finding> told = look(*this);
  EXPECT_THAT(told, Each(Field(&Finding::good, true)));
  EXPECT_THAT(told, Contains(AllOf(Field(&Finding::what, "account"),
                                   Field(&Finding::detail, HasSubstr("no longer")))));
}

TEST_F(RunPodTest, TheCheckTellsWhatIsWrong) {
  EXPECT_THAT(look(*this), Each(Field(&Finding::good, true)));
  cloud_->dials.balance = "0";
  EXPECT_THAT(look(*this),
              Contains(AllOf(Field(&Finding::what, "balance"), Field(&Finding::good, false))));
  fixture_.variables["RUNPOD_API_KEY"] = "0123456789abcdef";
  EXPECT_THAT(look(*this),
              Contains(AllOf(Field(&Finding::what, "account"), Field(&Finding::good, false))));
}

}  // namespace
}  // namespace skyward::provider::runpod

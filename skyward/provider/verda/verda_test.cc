#include "skyward/provider/verda/verda.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "skyward/provider/choosing.h"
#include "skyward/provider/verda/access.h"
#include "skyward/provider/verda/verda_computer_fixture.h"
#include "skyward/provider/verda/verda_images.h"

namespace skyward::provider::verda {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class VerdaTest : public ::testing::Test, public VerdaComputer {
 protected:
  ~VerdaTest() override {
    EXPECT_EQ(violations(), "");
    EXPECT_THAT(cloud_->leftovers(), IsEmpty());
    EXPECT_THAT(open_pools(), IsEmpty());
  }
  std::string ask(const char* method, const char* path, const doubles::Json& body,
                  const std::string& token = {}) {
    const io::HttpRequest request{
        .method = method,
        .url = fmt::format("http://127.0.0.1:1/v1{}", path),
        .headers = {{"Content-Type", "application/json"}, {"Authorization", "Bearer " + token}},
        .body = body.dump()};
    return cloud_->reply(request, fixture_.now).body;
  }
  std::string log_in() {
    return doubles::Json::parse(ask("POST", "/oauth2/token",
                                    {{"grant_type", "client_credentials"},
                                     {"client_id", cloud_->client_id},
                                     {"client_secret", cloud_->client_secret}}))["access_token"];
  }
  // Somebody does it in the console, and keeps the disk.
  void others_delete(const std::string& id) {
    ask("PUT", "/instances",
        {{"id", id}, {"action", "delete"}, {"volume_ids", doubles::Json::array()}}, log_in());
  }
  std::ptrdiff_t scripts() const {
    return std::ranges::count_if(cloud_->leftovers(),
                                 [](const std::string& one) { return one.starts_with("script "); });
  }
  void want(const char* accelerator, double count = 1) {
    spec_.accelerator = Accelerator{.name = accelerator, .count = count};
  }
};

TEST_F(VerdaTest, APoolLivesAndLeavesNothing) {
  const auto cloud = provider();
  EXPECT_FALSE(cloud->capabilities().private_network) << "the internet reaches its machines, too";
  const Life life = live(*cloud);
  ASSERT_TRUE(life.status) << life.status.error().message;
  ASSERT_THAT(life.instances, SizeIs(2));
  EXPECT_TRUE(life.instances.front().public_ip);
  EXPECT_THAT(cloud_->machines, SizeIs(3));
}

TEST_F(VerdaTest, IdsInQuotesAreTheSame) {
  cloud_->dials.quote_ids = 1;
  (void)lived();
}

TEST_F(VerdaTest, ALoginThatExpiresIsRenewed) {
  cloud_->dials.token_life = 60s;
  (void)lived();
}

TEST_F(VerdaTest, EachTypeGetsASystemThatItStarts) {
  for (const char* name : {"V100", "A6000", "H100", "B200"}) {
    want(name);
    const auto cloud = provider();
    const Life life = live(*cloud);
    ASSERT_TRUE(life.status) << name << ": " << life.status.error().message;
    EXPECT_THAT(std::string(cloud_->machines.back().request["image"]), HasSubstr("cuda")) << name;
    forget();
  }
}

TEST_F(VerdaTest, SpotMachinesTakeTheirDisksWithThem) {
  want("H100");
  spec_.spot = Spot::Always();
  const auto [cloud, life] = opened();
  for (const doubles::Machine& one : cloud_->machines) {
    EXPECT_TRUE(one.spot);
    EXPECT_EQ(one.request["os_volume"]["on_spot_discontinue"], "delete_permanently");
  }
  EXPECT_TRUE(life.instances.front().spot);
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(VerdaTest, WithoutARegionThePlaceIsFound) {
  want("H200");
  const auto cloud = provider();
  const auto offers = cloud->offers(spec_, soon());
  ASSERT_TRUE(offers) << offers.error().message;
  EXPECT_EQ(offers->front().region, "FIN-03");
  spec_.provider.settings["region"] = "FIN-01";
  const auto refused = provider()->offers(spec_, soon());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("FIN-01"));
}

TEST_F(VerdaTest, GraceMachinesAreRentedAsArmMachines) {
  want("GB300");
  spec_.architecture = "x86_64";
  EXPECT_FALSE(provider()->offers(spec_, soon()));
  spec_.architecture = "arm64";
  const auto offers = provider()->offers(spec_, soon());
  ASSERT_TRUE(offers) << offers.error().message;
  EXPECT_EQ(offers->front().instance_type, "1GB300.32V");
  EXPECT_EQ(offers->front().architecture, "arm64");
}

TEST_F(VerdaTest, AnUnknownRegionIsNamedWithTheKnownOnes) {
  spec_.provider.settings["region"] = "MARS-1";
  const auto refused = provider()->offers(spec_, soon());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_EQ(refused.error().message, "Verda: there is no location MARS-1");
  EXPECT_THAT(refused.error().hint, HasSubstr("FIN-01, "));
}

TEST_F(VerdaTest, APlaceThatIsSoldOutIsLookedAtOnceMore) {
  cloud_->dials.capacity = {{"*", 0}};
  spec_.spot.retries = 1;
  const auto cloud = provider();
  const Time begin = fixture_.now;
  const Life life = open(*cloud);
  ASSERT_FALSE(life.status);
  EXPECT_EQ(life.status.error().kind, ErrorKind::exhausted) << life.status.error().message;
  EXPECT_LT(fixture_.now - begin, 30s) << "once, for all refusals together";
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

// Its code is that of an outage: "service_unavailable".
TEST_F(VerdaTest, WhyNoPlaceHasAMachineIsToldInItsWords) {
  cloud_->dials.capacity = {{"*", 0}};
  EXPECT_THAT(refusal_of_opening().message,
              AllOf(HasSubstr(": Not enough resources for this instance type in this location"),
                    Not(HasSubstr("service_unavailable"))));
}

// It cannot be deleted before it runs, and then costs ten minutes.
TEST_F(VerdaTest, AMachineThatHasNoPeersIsRentedOnce) {
  want("H200");
  spec_.spot = Spot::Always();
  cloud_->dials.capacity = {{"1H200.141S.44V", 1}};
  EXPECT_EQ(refusal_of_opening().kind, ErrorKind::exhausted);
  EXPECT_THAT(cloud_->machines, SizeIs(1));
}

TEST_F(VerdaTest, WhereASpotMachineHasNoPeersAllAreRentedOnDemand) {
  want("H200");
  spec_.spot = Spot::IfAvailable();
  cloud_->dials.capacity = {{"1H200.141S.44V", 1}};
  cloud_->on_request = [this](int, bool) {
    const auto& machines = cloud_->machines;
    if (!machines.empty() && machines.front().ended != kNever) cloud_->dials.capacity.clear();
  };
  const auto [cloud, life] = opened();
  EXPECT_THAT(cloud_->machines, SizeIs(3));
  EXPECT_FALSE(life.instances.front().spot);
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(VerdaTest, AnotherMachineIsLaunchedForOneThatDoesNotStart) {
  spec_.nodes = 4;
  for (const char* status : {"no_capacity", "error", "unknown", "offline"}) {
    cloud_->dials.failed_as = status;
    cloud_->dials.fail_create = 1;
    cloud_->on_request = [&](int number, bool after) {
      const auto& heard = cloud_->heard[static_cast<std::size_t>(number) - 1];
      const bool creates = heard.method == "POST" && heard.path == "/v1/instances";
      if (after && creates) cloud_->dials.fail_create = 0;
    };
    const auto cloud = provider();
    const Life life = open(*cloud);
    ASSERT_TRUE(life.status) << status << ": " << life.status.error().message;
    EXPECT_THAT(life.instances, SizeIs(4));
    EXPECT_THAT(cloud_->machines, SizeIs(5)) << "those that run are kept";
    EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
    EXPECT_THAT(cloud_->leftovers(), IsEmpty());
    forget();
  }
}

TEST_F(VerdaTest, TheScriptMakesTheHostKey) {
  const auto cloud = provider();
  const Life life = open(*cloud);
  ASSERT_TRUE(life.status);
  EXPECT_EQ(scripts(), 1);
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

// A project may have a hundred of them.
TEST_F(VerdaTest, AScriptStaysWhileItsMachinesMayNeedIt) {
  cloud_->dials.script_limit = 2;
  spec_.spot.retries = 1;
  const auto [cloud, life] = opened();
  cloud_->dials.capacity = {{"*", 0}};
  for (int i = 0; i < 10; ++i) {
    const auto refused = cloud->provision(life.cluster, 1, 0, soon());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::exhausted) << refused.error().message;
    EXPECT_EQ(scripts(), 1) << "that of the machines that run";
  }
  cloud_->dials.capacity.clear();
  fixture_.now += 20min;
  ASSERT_TRUE(cloud->provision(life.cluster, 1, 0, soon()));
  EXPECT_EQ(scripts(), 2);
  fixture_.now += 10min;
  EXPECT_TRUE(cloud->tend(life.cluster, soon()));
  EXPECT_EQ(scripts(), 1) << "the first ones have greeted long ago";
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(VerdaTest, AReplacementDoesNotWaitForOldScriptsToBeRemoved) {
  const auto [cloud, life] = opened();
  fixture_.now += 20min;
  ASSERT_TRUE(cloud->provision(life.cluster, 1, 0, soon()));
  fixture_.now += 10min;
  cloud_->dials.answers = {
      {.method = "DELETE", .path = "/v1/scripts/*", .times = -1, .status = 503}};
  const Time before = fixture_.now;
  ASSERT_TRUE(cloud->provision(life.cluster, 1, 0, soon()));
  EXPECT_LT(fixture_.now - before, 1min);
  EXPECT_EQ(scripts(), 3);
  cloud_->dials.answers.clear();
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(VerdaTest, AScriptThatIsGoneHoldsUpNoOther) {
  const auto [cloud, life] = opened();
  const doubles::Json first = cloud_->machines.front().request["startup_script_id"];
  ASSERT_TRUE(cloud->provision(life.cluster, 1, 0, soon()));
  ask("DELETE", "/scripts", {{"scripts", doubles::Json::array({first})}}, log_in());
  EXPECT_EQ(scripts(), 1);
  fixture_.now += 30min;
  EXPECT_TRUE(cloud->tend(life.cluster, soon()));
  EXPECT_EQ(scripts(), 0);
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(VerdaTest, AScriptIsFoundBehindThoseOfOthers) {
  cloud_->dials.quote_ids = 0;
  cloud_->dials.script_limit = 200;
  const std::string token = log_in();
  doubles::Json others = doubles::Json::array();
  for (int i = 0; i < 120; ++i) {
    others.push_back(
        ask("POST", "/scripts", {{"name", "another"}, {"script", "#!/bin/sh"}}, token));
  }
  cloud_->dials.answers = {{.method = "POST", .path = "/v1/scripts", .perform = true, .status = 0}};
  const auto [cloud, life] = opened();
  EXPECT_THAT(cloud_->leftovers(), Contains(StartsWith("script skyward-")).Times(1));
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
  ask("DELETE", "/scripts", {{"scripts", others}}, token);
}

TEST_F(VerdaTest, ALostReplyToACreationIsLookedForAndNotRepeated) {
  cloud_->dials.answers = {
      {.method = "POST", .path = "/v1/instances", .perform = true, .status = 0}};
  (void)lived();
  EXPECT_THAT(cloud_->machines, SizeIs(3));
}

// "service_unavailable" is what a type that is sold out is answered with, and a failed service.
TEST_F(VerdaTest, AMachineThatCameOfARefusalIsTaken) {
  cloud_->dials.answers = {{.method = "POST",
                            .path = "/v1/instances",
                            .perform = true,
                            .status = 503,
                            .body = {{"code", "service_unavailable"}, {"message", "sold out"}}}};
  (void)lived();
  EXPECT_THAT(cloud_->machines, SizeIs(3));
}

TEST_F(VerdaTest, AMachineThatCameOfARefusalAndIsListedLateIsDeleted) {
  cloud_->dials.listing_lag = 8s;
  cloud_->dials.answers = {{.method = "POST",
                            .path = "/v1/instances",
                            .perform = true,
                            .status = 503,
                            .body = {{"code", "service_unavailable"}, {"message", "sold out"}}}};
  const auto cloud = provider();
  const Life life = open(*cloud);
  EXPECT_EQ(life.status.error().kind, ErrorKind::exhausted);
  ASSERT_THAT(cloud_->machines, SizeIs(1));
  EXPECT_NE(cloud_->machines.front().ended, kNever);
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(VerdaTest, MachinesAreDeletedInOneRequest) {
  spec_.nodes = 8;
  const auto [cloud, life] = opened();
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
  const auto is_deletion = [](const doubles::Heard& one) { return one.method == "PUT"; };
  ASSERT_EQ(std::ranges::count_if(cloud_->heard, is_deletion), 1);
  const auto deletion = std::ranges::find_if(cloud_->heard, is_deletion);
  EXPECT_EQ(deletion->body["id"].size(), 8U);
  EXPECT_EQ(deletion->body["volume_ids"].size(), 8U);
}

// And their disks with them: those that are not known, from the trash.
TEST_F(VerdaTest, MachinesAreDeletedWhileTheListFails) {
  for (const char* failing : {"/v1/instances", "/v1/instances*"}) {
    for (const int nodes : {2, 4}) {
      spec_.nodes = nodes;
      const auto [cloud, life] = opened();
      cloud_->dials.answers = {{.method = "GET", .path = failing, .times = -1, .status = 500}};
      EXPECT_FALSE(cloud->teardown(life.cluster, soon())) << "that they are gone was not seen";
      for (const doubles::Machine& one : cloud_->machines) EXPECT_NE(one.ended, kNever) << failing;
      cloud_->dials.answers.clear();
      EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
      EXPECT_THAT(cloud_->leftovers(), IsEmpty()) << failing;
      EXPECT_EQ(violations(), "");
      forget();
    }
  }
}

// One of them does not run yet: the others go, and it follows.
TEST_F(VerdaTest, OneThatCannotBeDeletedYetHoldsUpNoOther) {
  spec_.nodes = 4;
  const auto [cloud, life] = opened();
  cloud_->machines.front().ready = fixture_.now + 150s;
  const Time begin = fixture_.now;
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
  for (const doubles::Machine& one : cloud_->machines) {
    const bool late = &one == &cloud_->machines.front();
    EXPECT_EQ(one.ended > begin + 100s, late) << one.name;
  }
}

// Such as one that support has to unlock.
TEST_F(VerdaTest, WhyAMachineIsNotDeletedIsTold) {
  const auto [cloud, life] = opened();
  cloud_->dials.answers = {
      {.method = "PUT",
       .path = "/v1/instances",
       .times = -1,
       .status = 403,
       .body = {{"code", "forbidden_action"}, {"message", "The instance is locked by support"}}}};
  const Status ended = cloud->teardown(life.cluster, fixture_.now + 60s);
  ASSERT_FALSE(ended);
  EXPECT_THAT(ended.error().message,
              HasSubstr("did not terminate in time: The instance is locked by support"));
  cloud_->dials.answers.clear();
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

// Disks stay attached for a while to a machine that is gone.
TEST_F(VerdaTest, ADiskThatIsDetachedLateIsWaitedFor) {
  cloud_->dials.detach = 60s;
  const auto [cloud, life] = opened();
  others_delete(life.instances.front().id);
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

// What asks again meanwhile is refused in two ways.
TEST_F(VerdaTest, ADiskThatIsBeingDeletedIsWaitedFor) {
  cloud_->dials.erasing = 40s;
  const auto [cloud, life] = opened();
  const std::string id = life.instances.front().id;
  const std::string token = log_in();
  const auto told = doubles::Json::parse(ask("GET", ("/instances/" + id).c_str(), {}, token));
  const std::string disk = told["os_volume_id"];
  others_delete(id);
  ask("DELETE", ("/volumes/" + disk).c_str(), {{"is_permanent", true}}, token);
  const Time begin = fixture_.now;
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
  EXPECT_GE(fixture_.now - begin, 40s);
}

// The trash may still list it for days.
TEST_F(VerdaTest, ADiskThatIsDeletedForGoodIsNoLeak) {
  ASSERT_TRUE(cloud_->dials.trash_keeps);
  (void)lived();
  EXPECT_NE(ask("GET", "/volumes/trash", {}, log_in()), "[]");
  EXPECT_THAT(gc(), IsEmpty());
}

TEST_F(VerdaTest, AnEmptyAccountIsToldBeforeALongWait) {
  cloud_->dials.balance = "0";
  const auto cloud = provider();
  const Life life = open(*cloud);
  ASSERT_FALSE(life.status);
  EXPECT_THAT(life.status.error().message, HasSubstr("Insufficient funds"));
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(VerdaTest, AWrongSecretIsToldBeforeAnythingIsMade) {
  spec_.provider.settings["client_secret"] = "wrong";
  const auto cloud = provider();
  const auto offers = cloud->offers(spec_, soon());
  ASSERT_FALSE(offers);
  EXPECT_EQ(offers.error().kind, ErrorKind::denied) << offers.error().message;
}

TEST_F(VerdaTest, WhatADeadProgramLeftIsSwept) {
  {
    (void)opened();
  }
  EXPECT_THAT(cloud_->leftovers(), SizeIs(6)) << "two machines and their disks, a key, a script";
  EXPECT_THAT(gc(), Each(Field(&Swept::action, SweepAction::removed)));
}

// ---- What others left

// A key that was replaced is another owner to everything but the user's own word.
TEST_F(VerdaTest, APoolThatIsNamedIsSweptWithOtherCredentialsOfTheAccount) {
  std::string pool;
  {
    const auto [cloud, life] = opened();
    pool = life.cluster.id;
  }
  cloud_->client_id = "0123456789abcdef0123456789abcdef";
  fixture_.variables["VERDA_CLIENT_ID"] = cloud_->client_id;
  for (const Swept& one : gc()) EXPECT_NE(one.action, SweepAction::removed) << one.why;
  EXPECT_THAT(cloud_->leftovers(), Not(IsEmpty()));
  EXPECT_THAT(gc({.pool = pool}), Each(Field(&Swept::action, SweepAction::removed)));
  EXPECT_THAT(cloud_->leftovers(), IsEmpty());
}

// A gc that runs on a schedule has a key of its own.
TEST_F(VerdaTest, APoolWhoseTimeIsOverIsSweptWithOtherCredentialsOfTheAccount) {
  {
    (void)opened();
  }
  forget_pools();
  cloud_->client_id = "0123456789abcdef0123456789abcdef";
  fixture_.variables["VERDA_CLIENT_ID"] = cloud_->client_id;
  fixture_.now += 24h;
  EXPECT_THAT(gc(), Each(Field(&Swept::action, SweepAction::removed)));
  EXPECT_THAT(cloud_->leftovers(), IsEmpty());
}

// Those of another account may have been set by mistake.
TEST_F(VerdaTest, MachinesThatOtherCredentialsDoNotShowAreNotStruckOff) {
  std::string pool;
  {
    const auto [cloud, life] = opened();
    pool = life.cluster.id;
  }
  auto account = std::exchange(cloud_, std::make_unique<doubles::Verda>());
  cloud_->client_id = "0123456789abcdef0123456789abcdef";
  const std::string own = std::exchange(fixture_.variables["VERDA_CLIENT_ID"], cloud_->client_id);
  fixture_.now += 10min;
  EXPECT_THAT(gc({.pool = pool}),
              Contains(AllOf(Field(&Swept::action, SweepAction::skipped),
                             Field(&Swept::why, HasSubstr("with other credentials")))));
  EXPECT_THAT(open_pools(), SizeIs(1));
  EXPECT_THAT(account->leftovers(), Not(IsEmpty()));

  cloud_ = std::move(account);
  fixture_.variables["VERDA_CLIENT_ID"] = own;
  EXPECT_THAT(gc({.pool = pool}), Each(Field(&Swept::action, SweepAction::removed)));
}

// ---- Credentials

TEST(VerdaAccess, AProfileMayHaveItsOwnApi) {
  WorldFixture fixture;
  const ProviderSpec spec{.name = "verda", .settings = {}};
  const auto url = [&] { return find_access(fixture.world, spec)->account.base_url; };
  const std::string profile = "[default]\nverda_client_id = i\nverda_client_secret = s\n";
  fixture.variables["VERDA_HOME"] = "/verda";
  fixture.files["/verda/credentials"] = profile;
  EXPECT_EQ(url(), kBaseUrl);
  fixture.files["/verda/credentials"] = profile + "verda_base_url = https://test.example.com/v1/\n";
  EXPECT_EQ(url(), "https://test.example.com/v1");
  fixture.variables["VERDA_BASE_URL"] = "https://other.example.com/v1";
  EXPECT_EQ(url(), "https://other.example.com/v1");
  fixture.variables.erase("VERDA_BASE_URL");
  fixture.variables["VERDA_CLIENT_ID"] = "j";
  fixture.variables["VERDA_CLIENT_SECRET"] = "t";
  EXPECT_EQ(url(), kBaseUrl) << "it is the profile's";
  fixture.variables.erase("VERDA_CLIENT_ID");
  fixture.variables.erase("VERDA_CLIENT_SECRET");
  fixture.files["/verda/credentials"] = profile + "verda_base_url = http://test.example.com\n";
  EXPECT_EQ(find_access(fixture.world, spec).error().kind, ErrorKind::invalid);
}

// ---- Words

TEST(VerdaWords, AcceleratorsAreTheCatalogues) {
  EXPECT_EQ(accelerator_in("8x H100 SXM5 80GB"), "H100");
  EXPECT_EQ(accelerator_in("1x Tesla V100"), "V100");
  EXPECT_EQ(accelerator_in("1x A100 SXM4 80GB"), "A100");
  EXPECT_EQ(accelerator_in("4x L40S"), "L40S");
  EXPECT_EQ(accelerator_in("2x H200 SXM5 141GB"), "H200");
  EXPECT_EQ(accelerator_in(""), "");
}

TEST(VerdaWords, TheArchitectureFollowsFromTheAccelerator) {
  const auto architecture_of = [](const char* gpu, int gpus) {
    return offer_of({.gpu = gpu, .gpus = gpus, .gpu_memory_gb = 288.0}, "FIN-03", {}).architecture;
  };
  EXPECT_EQ(architecture_of("2x GB300 SXM6 288GB", 2), "arm64");
  EXPECT_EQ(architecture_of("1x GH200 96GB", 1), "arm64");
  EXPECT_EQ(architecture_of("1x B300 SXM6 262GB", 1), "x86_64");
  EXPECT_EQ(architecture_of("", 0), "x86_64");
}

TEST(VerdaWords, TheNewestSystemOfTheKindIsTaken) {
  const ServerType gpu{
      .gpus = 1,
      .images = {"ubuntu-22.04", "ubuntu-22.04-cuda-12.4", "ubuntu-24.04-cuda-12.8-open-docker"}};
  EXPECT_EQ(image_for(gpu), "ubuntu-22.04-cuda-12.4") << "rather without docker";
  EXPECT_EQ(image_for({.images = {"ubuntu-22.04", "ubuntu-24.04", "ubuntu-24.04-cuda-13.0-open"}}),
            "ubuntu-24.04");
}

}  // namespace
}  // namespace skyward::provider::verda

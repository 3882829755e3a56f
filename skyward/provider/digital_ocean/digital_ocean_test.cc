#include "skyward/provider/digital_ocean/digital_ocean.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "skyward/provider/digital_ocean/digital_ocean_computer_fixture.h"

namespace skyward::provider::digital_ocean {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class DigitalOceanTest : public ::testing::Test, public DigitalOceanComputer {
 protected:
  ~DigitalOceanTest() override {
    EXPECT_EQ(violations(), "");
    if (may_leave_) return;
    EXPECT_THAT(cloud_->leftovers(), IsEmpty());
    EXPECT_THAT(open_pools(), IsEmpty());
  }
  void want(const char* accelerator, double count = 1) {
    spec_.accelerator = Accelerator{.name = accelerator, .count = count};
  }

  bool may_leave_ = false;
};

TEST_F(DigitalOceanTest, APoolLivesAndLeavesNothing) {
  const auto [cloud, life] = lived();
  EXPECT_EQ(life.cluster.region, "nyc1");
  ASSERT_THAT(life.instances, SizeIs(2));
  EXPECT_TRUE(life.instances.front().public_ip);
  EXPECT_FALSE(life.instances.front().private_ip.empty());
  EXPECT_THAT(cloud_->machines, SizeIs(3));
}

TEST_F(DigitalOceanTest, ClosingAPoolLeavesTheOthersOfTheAccountAlone) {
  const auto first = provider();
  const auto second = provider();
  const Life one = open(*first);
  const Life other = open(*second);
  ASSERT_TRUE(one.status && other.status);
  EXPECT_TRUE(first->teardown(one.cluster, soon()));
  for (const Instance& machine : other.instances) {
    EXPECT_TRUE(*second->get_instance(other.cluster, machine.id, soon())) << machine.id;
  }
  EXPECT_TRUE(second->teardown(other.cluster, soon()));
}

TEST_F(DigitalOceanTest, AProxyDoesNotSayThatAMachineIsGone) {
  const auto [cloud, life] = opened();
  const std::string id = life.instances.front().id;
  cloud_->dials.answers = {{.path = "/v2/droplets/" + id,
                            .times = -1,
                            .status = 404,
                            .body = "<html>no such site</html>"}};
  const Status ended = cloud->terminate(life.cluster, {id}, soon());
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(open_pools(), SizeIs(1));
  cloud_->dials.answers.clear();
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

// Nothing but "type=gpus" lists them.
TEST_F(DigitalOceanTest, MachinesWithGpusAreFoundWhereTheyAre) {
  want("H100");
  const auto [cloud, life] = lived();
  EXPECT_NE(life.cluster.region, "nyc1") << "it has none";
  EXPECT_EQ(life.cluster.instance_type, "gpu-h100x1-80gb");
  for (const doubles::Machine& one : cloud_->machines) {
    EXPECT_EQ(one.request["image"], "gpu-h100x1-base");
  }
}

TEST_F(DigitalOceanTest, EachKindOfGpuGetsTheImageWithItsDrivers) {
  for (const auto& [name, count, image] :
       {std::tuple("H100", 8, "gpu-h100x8-base"), std::tuple("MI300X", 1, "gpu-amd-base"),
        std::tuple("L40S", 1, "gpu-h100x1-base")}) {
    want(name, count);
    const auto cloud = provider();
    const Life life = live(*cloud);
    ASSERT_TRUE(life.status) << name << ": " << life.status.error().message;
    EXPECT_EQ(cloud_->machines.back().request["image"], image) << name;
    forget();
  }
}

TEST_F(DigitalOceanTest, SpotSizesAreTheSpotMarketOfTheirType) {
  want("H100");
  for (const auto& [policy, size] : {std::pair(Spot::Never(), "gpu-h100x1-80gb"),
                                     std::pair(Spot::Always(), "gpu-h100x1-80gb-spot")}) {
    spec_.spot = policy;
    const auto [cloud, life] = opened();
    EXPECT_EQ(life.cluster.instance_type, "gpu-h100x1-80gb");
    EXPECT_EQ(cloud_->machines.back().size, size);
    EXPECT_EQ(life.instances.front().spot, cloud_->machines.back().spot);
    EXPECT_EQ(life.instances.front().instance_type, "gpu-h100x1-80gb");
    EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
  }
}

// spot="always" is the default.
TEST_F(DigitalOceanTest, ATypeWithoutASpotMarketIsRentedOnDemand) {
  for (const Spot& policy : {PoolSpec().spot, Spot::Percent(0.5)}) {
    for (const char* accelerator : {"", "L40S"}) {
      spec_.spot = policy;
      spec_.accelerator.reset();
      if (*accelerator != '\0') want(accelerator);
      const auto cloud = provider();
      const Life life = live(*cloud);
      ASSERT_TRUE(life.status) << accelerator << life.status.error().message;
      EXPECT_FALSE(life.instances.front().spot);
      forget();
    }
  }
}

TEST_F(DigitalOceanTest, APoolStaysInItsRegionWhetherOrNotThatHasSpotMachines) {
  want("H100");
  spec_.spot = Spot::Always();
  for (const auto& [region, spot] : {std::pair("tor1", false), std::pair("nyc2", true)}) {
    spec_.provider.settings["region"] = region;
    const auto cloud = provider();
    const Life life = live(*cloud);
    ASSERT_TRUE(life.status) << region << ": " << life.status.error().message;
    EXPECT_EQ(life.cluster.region, region);
    EXPECT_EQ(life.instances.front().spot, spot) << region;
    forget();
  }
}

TEST_F(DigitalOceanTest, WithoutSpotMachinesOthersAreTaken) {
  want("H100");
  spec_.spot = Spot::IfAvailable();
  spec_.spot.retries = 1;
  cloud_->dials.capacity = {{"gpu-h100x1-80gb-spot", 0}};
  (void)lived();
  for (const doubles::Machine& one : cloud_->machines) EXPECT_EQ(one.size, "gpu-h100x1-80gb");
}

TEST_F(DigitalOceanTest, ATypeThatIsSoldAsSpotMachinesOnlyIsNoOtherKind) {
  want("B300");
  spec_.spot = Spot::Never();
  EXPECT_FALSE(provider()->offers(spec_, soon()));
  spec_.spot = Spot::IfAvailable();
  const auto [cloud, life] = lived();
  EXPECT_EQ(life.cluster.instance_type, "gpu-b300x1-288gb");
  EXPECT_TRUE(cloud_->machines.back().spot);
}

TEST_F(DigitalOceanTest, ASpotSizeThatIsNamedIsBoughtAsOne) {
  spec_.machine = "gpu-h100x1-80gb-spot";
  spec_.spot = Spot::IfAvailable();
  (void)lived();
  EXPECT_TRUE(cloud_->machines.back().spot);
}

TEST_F(DigitalOceanTest, ARegionIsOneThatTheCloudNames) {
  spec_.provider.settings["region"] = "mars1";
  const auto refused = provider()->offers(spec_, soon());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_EQ(refused.error().message, "DigitalOcean: there is no region mars1");
  EXPECT_THAT(refused.error().hint, HasSubstr("nyc1, nyc2"));
  spec_.provider.settings["region"] = "ric1";
  EXPECT_TRUE(provider()->offers(spec_, soon())) << "nothing that fits is there, and it exists";
}

TEST_F(DigitalOceanTest, ManyMachinesComeTenAtATime) {
  spec_.nodes = 64;
  const auto cloud = provider();
  const Time begin = fixture_.now;
  const Life life = open(*cloud);
  ASSERT_TRUE(life.status) << life.status.error().message;
  EXPECT_THAT(life.instances, SizeIs(64));
  EXPECT_LT(fixture_.now - begin, cloud_->dials.boot + 30s) << "64 take the time of one";
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(DigitalOceanTest, AMachineSaysWhoseItIsByItsName) {
  const auto cloud = provider();
  const Life life = open(*cloud);
  ASSERT_TRUE(life.status);
  std::set<std::string> names;
  for (const doubles::Machine& one : cloud_->machines) names.insert(one.name);
  EXPECT_THAT(names, SizeIs(2));
  const std::string digits = life.cluster.id.substr(life.cluster.id.rfind('-') + 1);
  EXPECT_THAT(names, Each(StartsWith("skyward-" + digits + "-")));
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(DigitalOceanTest, TheUserDataMakeTheHostKeyAndLetRootIn) {
  const auto cloud = provider();
  const Life life = open(*cloud);
  ASSERT_TRUE(life.status);
  const std::string data = cloud_->machines.front().request["user_data"];
  EXPECT_THAT(data, AllOf(HasSubstr("ed25519_private"), HasSubstr("\"disable_root\": false"),
                          Not(HasSubstr(cloud_->token))));
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(DigitalOceanTest, ADropletThatWaitsForItsPeersStaysOn) {
  const auto cloud = provider();
  const Life life = open(*cloud);
  ASSERT_TRUE(life.status);
  const std::string data = cloud_->machines.front().request["user_data"];
  constexpr std::string_view kWord = "lifetime=";
  const std::size_t at = data.find(kWord) + kWord.size();
  const std::string lifetime = data.substr(at, data.find_first_not_of("0123456789", at) - at);
  EXPECT_GT(std::stoi(lifetime), 3600);
  EXPECT_THAT(data, HasSubstr("unclaimed=" + lifetime));
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(DigitalOceanTest, WithATokenOfItsOwnADropletDeletesItself) {
  cloud_->tokens["dop_v1_node"] = {"droplet:read", "droplet:delete"};
  spec_.provider.settings["node_token"] = "dop_v1_node";
  const auto cloud = provider();
  EXPECT_TRUE(cloud->capabilities().stop_ends_billing);
  const Life life = open(*cloud);
  ASSERT_TRUE(life.status);
  EXPECT_THAT(fixture_.started, SizeIs(1)) << "a reaper, for when it cannot";
  EXPECT_FALSE(cloud->bootstrap(life.cluster, life.instances.front()).end_command.empty());
  const std::string data = cloud_->machines.front().request["user_data"];
  EXPECT_THAT(data, AllOf(HasSubstr("Bearer dop_v1_node"), Not(HasSubstr(cloud_->token))));
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

// ---- When it does not go well

TEST_F(DigitalOceanTest, AnotherDropletIsLaunchedForOneThatIsOff) {
  spec_.nodes = 4;
  cloud_->on_request = [this](int, bool after) {
    if (after && cloud_->machines.size() == 4) cloud_->machines.front().stop(fixture_.now);
  };
  const auto [cloud, life] = opened();
  EXPECT_THAT(life.instances, SizeIs(4));
  EXPECT_THAT(cloud_->machines, SizeIs(5)) << "those that run are kept";
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(DigitalOceanTest, ANewKeyIsWaitedForUntilDropletsCanHaveIt) {
  cloud_->dials.key_lag = 45s;
  (void)lived();
}

TEST_F(DigitalOceanTest, NoDropletIsMadeForAPoolThatGaveUpWhileItsKeySpread) {
  cloud_->dials.key_lag = 45s;
  const auto cloud = provider();
  const auto offers = cloud->offers(spec_, soon());
  const auto cluster = cloud->prepare(spec_, offers->front(), soon());
  ASSERT_TRUE(cluster);
  cloud->set_meanwhile([&] {
    cloud_->dials.key_lag = {};
    cloud->stop_launching();
  });
  EXPECT_FALSE(cloud->provision(*cluster, 2, 0, soon()));
  EXPECT_TRUE(cloud_->machines.empty());
  EXPECT_TRUE(cloud->teardown(*cluster, soon()));
}

TEST_F(DigitalOceanTest, AKeyThatIsNeverKnownIsToldAfterTwoMinutes) {
  cloud_->dials.key_lag = 10min;
  const auto cloud = provider();
  const auto offers = cloud->offers(spec_, soon());
  const auto cluster = cloud->prepare(spec_, offers->front(), soon());
  ASSERT_TRUE(cluster);
  const Time begin = fixture_.now;
  const auto machines = cloud->provision(*cluster, 2, 0, soon());
  ASSERT_FALSE(machines);
  EXPECT_THAT(machines.error().message, HasSubstr("invalid key identifiers"));
  EXPECT_LE(fixture_.now - begin, 2min);
  EXPECT_GE(fixture_.now - begin, 100s);
  EXPECT_TRUE(cloud->teardown(*cluster, soon()));
}

TEST_F(DigitalOceanTest, AKeyOfTheAccountThatIsUnknownIsToldAtOnce) {
  spec_.provider.settings["ssh_key_fingerprint"] =
      "00:11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:ff";
  const auto cloud = provider();
  const Time begin = fixture_.now;
  const Life life = open(*cloud);
  ASSERT_FALSE(life.status);
  EXPECT_THAT(life.status.error().message, HasSubstr("invalid key identifiers"));
  EXPECT_LE(fixture_.now - begin, 10s);
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(DigitalOceanTest, WhoeverIsNoLongerWantedDoesNotWaitForAKey) {
  cloud_->dials.key_lag = 10min;
  const auto cloud = provider();
  const auto offers = cloud->offers(spec_, soon());
  const auto cluster = cloud->prepare(spec_, offers->front(), soon());
  ASSERT_TRUE(cluster);
  cloud->set_meanwhile([&] { cloud->stop_launching(); });
  const Time begin = fixture_.now;
  const auto machines = cloud->provision(*cluster, 2, 0, soon());
  ASSERT_FALSE(machines);
  EXPECT_LE(fixture_.now - begin, 10s);
  EXPECT_TRUE(cloud->teardown(*cluster, soon()));
}

// Its reply is lost, and the list does not show it yet: so it is registered twice.
TEST_F(DigitalOceanTest, AKeyThatWasRegisteredTwiceIsDeletedTwice) {
  cloud_->dials.key_lag = 45s;
  cloud_->dials.answers = {
      {.method = "POST", .path = "/v2/account/keys", .perform = true, .status = 0}};
  const auto [cloud, life] = opened();
  EXPECT_THAT(cloud_->leftovers(), SizeIs(6)) << "two machines, two keys, a tag, a firewall";
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(DigitalOceanTest, ATokenThatCannotDeleteDropletsCreatesNone) {
  cloud_->tokens[cloud_->token] = {"account:read",   "actions:read",    "sizes:read",
                                   "droplet:create", "droplet:read",    "ssh_key:create",
                                   "tag:create",     "firewall:create", "image:read"};
  const auto cloud = provider();
  const Life life = open(*cloud);
  ASSERT_FALSE(life.status);
  EXPECT_EQ(life.status.error().kind, ErrorKind::denied);
  EXPECT_THAT(life.status.error().message, HasSubstr("the token cannot delete droplets"));
  EXPECT_THAT(life.status.error().hint, HasSubstr("droplet:delete"));
  EXPECT_THAT(cloud_->machines, IsEmpty());
  EXPECT_THAT(open_pools(), IsEmpty());
}

// The limit is one of the account: no other region has room.
TEST_F(DigitalOceanTest, WithTheAccountsLimitReachedNoOtherRegionIsTried) {
  cloud_->dials.machine_limit = 1;
  const auto cloud = provider();
  const Life life = live(*cloud);
  ASSERT_FALSE(life.status);
  const auto shortage = shortage_of(life.status.error());
  ASSERT_TRUE(shortage) << life.status.error().message;
  EXPECT_EQ(shortage->kind, ShortageKind::quota);
  const int asked = requests();
  const auto again = cloud->offers(spec_, soon());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().message, life.status.error().message);
  EXPECT_EQ(requests(), asked);
}

TEST_F(DigitalOceanTest, ANodeTokenThatCannotDeleteDropletsIsRefused) {
  cloud_->tokens["dop_v1_node"] = {"droplet:read"};
  spec_.provider.settings["node_token"] = "dop_v1_node";
  const auto cloud = provider();
  const Life life = open(*cloud);
  ASSERT_FALSE(life.status);
  EXPECT_THAT(life.status.error().message, HasSubstr("the node_token cannot delete droplets"));
  EXPECT_THAT(cloud_->machines, IsEmpty());
}

// It may delete the droplets of its own team.
TEST_F(DigitalOceanTest, ANodeTokenOfAnotherTeamIsRefused) {
  cloud_->tokens["dop_v1_node"] = {"droplet:read", "droplet:delete"};
  cloud_->accounts["dop_v1_node"] = "another";
  spec_.provider.settings["node_token"] = "dop_v1_node";
  const Error why = refusal_of_opening();
  EXPECT_EQ(why.kind, ErrorKind::denied);
  EXPECT_THAT(why.message, HasSubstr("the node_token belongs to another team than the token"));
  EXPECT_THAT(why.hint, HasSubstr("in the same team"));
}

TEST_F(DigitalOceanTest, ANodeTokenMayNotKnowADropletAtOnce) {
  cloud_->tokens["dop_v1_node"] = {"droplet:read", "droplet:delete"};
  spec_.provider.settings["node_token"] = "dop_v1_node";
  spec_.nodes = 4;  // the other token lists so many
  cloud_->dials.boot = 1s;
  cloud_->on_request = [&](int, bool) {
    for (doubles::Machine& one : cloud_->machines) one.reading_lag = 60s;
  };
  const auto [cloud, life] = opened();
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(DigitalOceanTest, ANodeTokenIsTriedOnce) {
  cloud_->tokens["dop_v1_node"] = {"droplet:read", "droplet:delete"};
  spec_.provider.settings["node_token"] = "dop_v1_node";
  const auto [cloud, life] = opened();
  cloud_->accounts["dop_v1_node"] = "another";
  EXPECT_TRUE(cloud->provision(life.cluster, 1, 0, soon()));
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(DigitalOceanTest, ALostReplyToACreationIsLookedForAndNotRepeated) {
  cloud_->dials.answers = {
      {.method = "POST", .path = "/v2/droplets", .perform = true, .status = 0}};
  (void)lived();
}

TEST_F(DigitalOceanTest, ACreationThatFailsAfterwardsIsReplacedAndDeleted) {
  cloud_->dials.fail_create = 1;
  const auto cloud = provider();
  const Life life = open(*cloud);
  ASSERT_FALSE(life.status);
  EXPECT_EQ(life.status.error().kind, ErrorKind::exhausted) << life.status.error().message;
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(DigitalOceanTest, APartThatWasSoldIsReleased) {
  cloud_->dials.capacity = {{"*", 1}};
  cloud_->dials.partial = "fewer";
  spec_.spot.retries = 1;
  const auto cloud = provider();
  const Life life = open(*cloud);
  EXPECT_FALSE(life.status);
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
  EXPECT_THAT(cloud_->leftovers(), IsEmpty());
  EXPECT_THAT(open_pools(), SizeIs(1)) << "the other droplet may still come";
  fixture_.now += 31min;
  EXPECT_THAT(gc(), IsEmpty());
}

// Its code for all refusals is "unprocessable_entity".
TEST_F(DigitalOceanTest, WhyNoPlaceHasADropletIsToldInItsWords) {
  cloud_->dials.capacity = {{"*", 0}};
  const Error why = refusal_of_opening();
  EXPECT_EQ(why.kind, ErrorKind::exhausted);
  EXPECT_THAT(why.message, HasSubstr("in nyc1: Size is not available in this region"));
  EXPECT_THAT(why.message, Not(HasSubstr("unprocessable_entity")));
}

TEST_F(DigitalOceanTest, ADropletThatIsBeingCreatedIsDeletedWhenItCanBe) {
  cloud_->dials.boot = 200s;
  const auto cloud = provider();
  const auto offers = cloud->offers(spec_, soon());
  const auto cluster = cloud->prepare(spec_, offers->front(), soon());
  ASSERT_TRUE(cluster);
  EXPECT_FALSE(cloud->provision(*cluster, 2, 0, fixture_.now + 20s));
  EXPECT_TRUE(cloud->teardown(*cluster, soon()));
}

TEST_F(DigitalOceanTest, WithoutATokenNothingBegins) {
  fixture_.variables.erase("DIGITALOCEAN_TOKEN");
  fixture_.variables.erase("DIGITALOCEAN_ACCESS_TOKEN");
  const auto made = make_provider(spec_.provider, fixture_.world);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::denied);
  EXPECT_THAT(made.error().message, HasSubstr("$DIGITALOCEAN_TOKEN"));
}

TEST_F(DigitalOceanTest, AWrongTokenIsToldBeforeAnythingIsMade) {
  spec_.provider.settings["token"] = "dop_v1_wrong";
  const auto cloud = provider();
  const auto offers = cloud->offers(spec_, soon());
  ASSERT_FALSE(offers);
  EXPECT_EQ(offers.error().kind, ErrorKind::denied) << offers.error().message;
  EXPECT_THAT(offers.error().message, Not(HasSubstr("dop_v1_wrong")));
}

TEST_F(DigitalOceanTest, TheTokenIsSentToNobodyElse) {
  fixture_.variables["DIGITALOCEAN_API_URL"] = "http://api.digitalocean.com.example.net";
  const auto made = make_provider(spec_.provider, fixture_.world);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::invalid);
}

// ---- What others left

TEST_F(DigitalOceanTest, WhatADeadProgramLeftIsSwept) {
  want("H100");
  {
    const auto pool = opened();
    EXPECT_THAT(cloud_->leftovers(), SizeIs(5)) << "two machines, a key, a tag, a firewall";
  }
  const std::vector<Swept> told = gc();
  EXPECT_THAT(told, SizeIs(5));
  EXPECT_THAT(told, Each(Field(&Swept::action, SweepAction::removed)));
}

TEST_F(DigitalOceanTest, AnotherComputersMachinesAreLeftUntilTheirTimeIsOver) {
  {
    const auto cloud = provider();
    ASSERT_TRUE(open(*cloud).status);
  }
  forget_pools();
  for (const Swept& one : gc()) {
    EXPECT_EQ(one.action, SweepAction::kept) << one.resource.id << ": " << one.why;
    EXPECT_THAT(one.why, Not(HasSubstr("terminates itself")));
  }
  EXPECT_THAT(cloud_->leftovers(), SizeIs(5));
  fixture_.now += 2h;
  EXPECT_THAT(gc(), Each(Field(&Swept::action, SweepAction::removed)));
}

// It has lost its program, and costs as before.
TEST_F(DigitalOceanTest, AnotherComputersMachineThatIsSwitchedOffIsSwept) {
  {
    const auto cloud = provider();
    ASSERT_TRUE(open(*cloud).status);
  }
  forget_pools();
  cloud_->machines.front().stop(fixture_.now);
  std::vector<std::string> removed;
  for (const Swept& one : gc()) {
    if (one.action == SweepAction::removed) removed.push_back(one.resource.id);
  }
  EXPECT_THAT(removed, ElementsAre(cloud_->machines.front().id));
  fixture_.now += 2h;
  EXPECT_THAT(gc(), Each(Field(&Swept::action, SweepAction::removed)));
}

}  // namespace
}  // namespace skyward::provider::digital_ocean

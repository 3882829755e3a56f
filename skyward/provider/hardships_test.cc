// What real accounts do to a pool, at each double: lists that flap, clocks that are wrong, machines
// that take twenty minutes to boot, other people on the same account.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "skyward/provider/doubled_computers_fixture.h"
#include "skyward/provider/marks.h"

namespace skyward::provider {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

template <typename Computer>
class Hardships : public ::testing::Test, public Computer {
 protected:
  Hardships() {
    this->spec_.accelerator = Accelerator{.name = "H100"};
    this->spec_.timeout = 6h;
  }
  ~Hardships() override {
    EXPECT_EQ(this->violations(), "");
    EXPECT_THAT(this->cloud_->leftovers(), IsEmpty());
    EXPECT_THAT(this->open_pools(), IsEmpty());
  }
  doubles::Machine& machine(const std::string& id) {
    const auto found = std::ranges::find(this->cloud_->machines, id, &doubles::Machine::id);
    EXPECT_NE(found, this->cloud_->machines.end());
    return *found;
  }
  // The next request that creates a machine gets this answer.
  void answer_creation(doubles::Answer answer) {
    static const std::map<std::string, std::pair<const char*, const char*>> creations = {
        {"digital_ocean", {"POST", "/v2/droplets"}},
        {"runpod", {"POST", "/v2/pods"}},
        {"vastai", {"PUT", "/api/v0/asks/*"}},
        {"verda", {"POST", "/v1/instances"}}};
    std::tie(answer.method, answer.path) = creations.at(this->spec_.provider.name);
    this->cloud_->dials.answers = {std::move(answer)};
  }
  int standing() const {
    return static_cast<int>(
        std::ranges::count(this->cloud_->machines, kNever, &doubles::Machine::ended));
  }
};

TYPED_TEST_SUITE(Hardships, DoubledComputers);

TYPED_TEST(Hardships, ListsThatFlapLoseNoMachine) {
  this->cloud_->dials.flap = 0.4;
  const auto cloud = this->provider();
  const auto life = this->live(*cloud);
  ASSERT_TRUE(life.status) << life.status.error().message;
  EXPECT_THAT(this->cloud_->machines, SizeIs(3));
}

// Machines compare the end of their time with the cloud's clock, and so does gc.
TYPED_TEST(Hardships, MarksHaveTheCloudsTimeWhateverThisComputersClockShows) {
  for (const Duration off : {Duration(9h), Duration(-9h)}) {
    this->cloud_->dials.wall_offset = off;
    const auto cloud = this->provider();
    const auto life = this->open(*cloud);
    ASSERT_TRUE(life.status) << life.status.error().message;
    const auto name = read_name(this->machine(life.instances.front().id).name, cloud->name());
    ASSERT_TRUE(name);
    const std::int64_t cloud_s = this->fixture_.world.wall_s() + off / 1s;
    EXPECT_GE(name->mark.expires_s, cloud_s + this->spec_.timeout / 1s);
    EXPECT_LE(name->mark.expires_s, cloud_s + (this->spec_.timeout + 1h) / 1s);
    EXPECT_TRUE(cloud->teardown(life.cluster, this->soon()));
  }
}

TYPED_TEST(Hardships, TwentyMinutesOfBootAreWaitedFor) {
  this->cloud_->dials.boot = 20min;
  for (const char* name : {"instance_timeout", "provision_timeout"}) {
    if (this->spec_.provider.name == "vastai" || this->spec_.provider.name == "runpod") {
      this->spec_.provider.settings[name] = "1500";
    }
  }
  const auto cloud = this->provider();
  const auto offers = cloud->offers(this->spec_, this->soon());
  ASSERT_TRUE(offers) << offers.error().message;
  const auto cluster = cloud->prepare(this->spec_, offers->front(), this->soon());
  ASSERT_TRUE(cluster) << cluster.error().message;
  const auto machines = cloud->provision(
      *cluster, 2, 0, this->fixture_.now + cloud->capabilities().provision_timeout);
  ASSERT_TRUE(machines) << machines.error().message;
  EXPECT_THAT(this->cloud_->machines, SizeIs(2));
  EXPECT_TRUE(cloud->teardown(*cluster, this->soon()));
}

TYPED_TEST(Hardships, ACreationThatIsAnsweredTooLateIsLookedForAndNotRepeated) {
  this->answer_creation({.perform = true, .status = doubles::kLate});
  const auto cloud = this->provider();
  const auto life = this->live(*cloud);
  ASSERT_TRUE(life.status) << life.status.error().message;
  EXPECT_THAT(this->cloud_->machines, SizeIs(3));
}

TYPED_TEST(Hardships, WhatAnUnansweredRequestMadeLateEndsWhileThePoolIsOpen) {
  this->spec_.nodes = 1;
  this->answer_creation({.perform = true, .status = 502});
  Duration lag = 1h;
  this->cloud_->on_request = [&](int, bool) {
    if (this->cloud_->machines.empty()) return;
    this->cloud_->machines.front().listing_lag = lag;
  };
  const auto cloud = this->provider();
  const auto life = this->open(*cloud);
  ASSERT_TRUE(life.status) << life.status.error().message;
  EXPECT_EQ(this->standing(), 2) << "the one that is not listed yet, and its successor";
  const auto requests_to_tend = [&] {
    const int before = this->requests();
    const Status tended = cloud->tend(life.cluster, this->soon());
    EXPECT_TRUE(tended) << tended.error().message;
    return this->requests() - before;
  };
  const int looks = requests_to_tend();
  EXPECT_LT(requests_to_tend(), looks) << "once a minute";
  EXPECT_EQ(this->standing(), 2);
  lag = {};
  cloud->stop_launching();  // as a pool does when it drains its budget
  this->fixture_.now += 1min;
  (void)requests_to_tend();
  EXPECT_EQ(this->standing(), 1);
  EXPECT_EQ(this->machine(life.instances.front().id).ended, kNever);
  for (int minute = 0; minute < 3; ++minute) {
    this->fixture_.now += 1min;
    (void)requests_to_tend();
  }
  this->fixture_.now += 1min;
  EXPECT_LT(requests_to_tend(), looks) << "nothing is left to look for";
  const auto charges = cloud->charges(life.cluster, {life.instances.front().id}, this->soon());
  ASSERT_TRUE(charges) << charges.error().message;
  EXPECT_EQ(std::ranges::count(*charges, true, &Charge::failed_launch), 1) << "it costs money";
  EXPECT_TRUE(cloud->teardown(life.cluster, this->soon()));
}

TYPED_TEST(Hardships, ACreationThatIsLostInSilenceIsRepeated) {
  this->answer_creation({.status = doubles::kLate});
  const auto cloud = this->provider();
  const auto life = this->live(*cloud);
  ASSERT_TRUE(life.status) << life.status.error().message;
  EXPECT_THAT(this->cloud_->machines, SizeIs(3));
  this->fixture_.now += 30min;  // until then, something may come of the request
  (void)this->gc();
}

// Within the cloud's limits of requests, which the doubles enforce.
TYPED_TEST(Hardships, SixtyFourMachinesTakeTheTimeOfOne) {
  this->cloud_->dials.balance = "1000000";
  this->cloud_->dials.boot = 2min;
  // Vast.ai takes one request to rent in 4.5 s, and the double's market has so many alike.
  const bool is_market = this->spec_.provider.name == "vastai";
  const int most = is_market ? 5 : 64;
  const Duration longer = is_market ? most * 4500ms : 10s;
  std::vector<Duration> took;
  for (const int count : {1, most}) {
    this->spec_.nodes = count;
    const auto cloud = this->provider();
    const Time begin = this->fixture_.now;
    const auto life = this->open(*cloud);
    ASSERT_TRUE(life.status) << count << ": " << life.status.error().message;
    EXPECT_THAT(life.instances, SizeIs(count));
    took.push_back(this->fixture_.now - begin);
    EXPECT_TRUE(cloud->teardown(life.cluster, this->soon()));
    EXPECT_EQ(this->standing(), 0);
    this->fixture_.now += 10min;
  }
  EXPECT_LE(took.back(), took.front() + longer) << seconds(took.front()) << " s for one";
}

TYPED_TEST(Hardships, AMachineEndsWhileAnotherBoots) {
  const auto cloud = this->provider();
  const auto life = this->open(*cloud);
  ASSERT_TRUE(life.status) << life.status.error().message;
  const std::string lost = life.instances.front().id;
  this->cloud_->dials.boot = 4min;
  Status ended = fail(ErrorKind::invalid, "nobody asked");
  cloud->set_meanwhile([&, done = false]() mutable {
    if (std::exchange(done, true)) return;
    ended = cloud->terminate(life.cluster, {lost}, this->soon());
  });
  const Time begin = this->fixture_.now;
  const auto fresh = cloud->provision(life.cluster, 1, 0, this->soon());
  ASSERT_TRUE(fresh) << fresh.error().message;
  EXPECT_TRUE(ended) << ended.error().message;
  EXPECT_LT(this->machine(lost).ended - begin, 1min);
  EXPECT_GE(this->fixture_.now - begin, 4min);
  EXPECT_TRUE(cloud->teardown(life.cluster, this->soon()));
}

// Verda does not delete a machine before it has booted.
TYPED_TEST(Hardships, AMachineEndsWhileALaunchIsGivenUp) {
  const auto cloud = this->provider();
  const auto life = this->open(*cloud);
  ASSERT_TRUE(life.status) << life.status.error().message;
  const std::string lost = life.instances.front().id;
  this->cloud_->dials.boot = 4min;
  Status ended = fail(ErrorKind::invalid, "nobody asked");
  int looks = 0;
  cloud->set_meanwhile([&] {
    ++looks;
    if (looks == 1) cloud->stop_launching();
    if (looks == 2) ended = cloud->terminate(life.cluster, {lost}, this->soon());
  });
  const Time begin = this->fixture_.now;
  EXPECT_FALSE(cloud->provision(life.cluster, 1, 0, this->soon()));
  cloud->set_meanwhile({});
  const bool is_verda = this->spec_.provider.name == "verda";
  EXPECT_TRUE(looks >= 2 || !is_verda);
  if (looks >= 2) {
    EXPECT_TRUE(ended) << ended.error().message;
    EXPECT_LT(this->machine(lost).ended - begin, 1min);
  }
  EXPECT_TRUE(cloud->teardown(life.cluster, this->soon()));
  EXPECT_EQ(this->standing(), 0);
}

// A spot machine is preempted, or somebody deletes it, before it runs.
TYPED_TEST(Hardships, AnotherIsLaunchedForAMachineThatVanishesWhileItStarts) {
  this->cloud_->dials.boot = 1min;
  this->cloud_->dials.ending = {};
  this->cloud_->on_request = [&, done = false](int, bool after) mutable {
    if (!after || this->cloud_->machines.size() < 2 || std::exchange(done, true)) return;
    this->cloud_->reply(
        {.method = "POST",
         .url = "http://127.0.0.1/_double/machines/" + this->cloud_->machines.front().id,
         .body = R"({"act": "end"})"},
        this->fixture_.now);
  };
  const auto cloud = this->provider();
  const auto life = this->open(*cloud);
  ASSERT_TRUE(life.status) << life.status.error().message;
  EXPECT_THAT(this->cloud_->machines, SizeIs(3));
  EXPECT_TRUE(cloud->teardown(life.cluster, this->soon()));
}

TYPED_TEST(Hardships, WhatSomebodyElseEndsIsGone) {
  const auto cloud = this->provider();
  const auto life = this->open(*cloud);
  ASSERT_TRUE(life.status) << life.status.error().message;
  // Somebody ends one of ours by hand.
  const std::string lost = life.instances.front().id;
  this->cloud_->reply({.method = "POST",
                       .url = "http://127.0.0.1/_double/machines/" + lost,
                       .body = R"({"act": "end"})"},
                      this->fixture_.now);
  this->fixture_.now += 10min;
  const auto seen = cloud->get_instance(life.cluster, lost, this->soon());
  ASSERT_TRUE(seen) << seen.error().message;
  EXPECT_FALSE(*seen);
  EXPECT_TRUE(cloud->terminate(life.cluster, {lost}, this->soon()));
  EXPECT_TRUE(cloud->teardown(life.cluster, this->soon()));
}

}  // namespace
}  // namespace skyward::provider

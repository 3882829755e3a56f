// Ways in which money could be spent unseen: another account's credentials, wrong clocks, prices
// that nobody knows, replies that are lost.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "skyward/provider/aws/aws_computer_fixture.h"
#include "skyward/provider/aws/sweep.h"

namespace skyward::provider::aws {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// Seconds since 1970, as HTTP writes a moment.
std::string http_date(std::int64_t time_s) {
  const std::chrono::sys_seconds moment{std::chrono::seconds(time_s)};
  const auto day = std::chrono::floor<std::chrono::days>(moment);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(moment - day);
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  return fmt::format("Thu, {:02} {} {:04} {:02}:{:02}:{:02} GMT", static_cast<unsigned>(date.day()),
                     kMonths.substr((static_cast<unsigned>(date.month()) - 1) * 3, 3),
                     static_cast<int>(date.year()), clock.hours().count(), clock.minutes().count(),
                     clock.seconds().count());
}

class AwsMoney : public ::testing::Test, public AwsComputer {
 protected:
  void set_keys(const std::string& id) {
    fixture_.variables.erase("AWS_ACCESS_KEY_ID");
    fixture_.variables.erase("AWS_SECRET_ACCESS_KEY");
    std::filesystem::create_directories(home_ + "/.aws");
    std::ofstream(home_ + "/.aws/credentials")
        << "[default]\naws_access_key_id = " << id
        << "\naws_secret_access_key = secret\naws_session_token = of-" << id << "\n";
  }
  // Amazon's clock is so far ahead of this computer's.
  void set_amazons_clock(std::int64_t ahead_s) {
    amazon_.mangle = [this, ahead_s](io::HttpReply& reply) {
      reply.headers.emplace_back("Date", http_date(fixture_.world.wall_s() + ahead_s));
    };
  }
  Cluster open(Provider& aws) {
    const auto offers = aws.offers(spec_, soon());
    EXPECT_TRUE(offers) << offers.error().message;
    const auto cluster = aws.prepare(spec_, offers->front(), soon());
    EXPECT_TRUE(cluster) << cluster.error().message;
    return cluster.value_or(Cluster{});
  }
  std::int64_t told_end_s() const {
    return std::stoll(amazon_.instances.back().tags.at("skyward:expires"));
  }
};

// A tool wrote the keys of another account into the file. There the machines are unknown, and what
// is unknown for long counts as gone.
TEST_F(AwsMoney, CredentialsOfAnotherAccountEndNoMachineAndForgetNone) {
  set_keys("MINE");
  const auto aws = provider();
  const Cluster cluster = open(*aws);
  ASSERT_TRUE(aws->provision(cluster, 2, 0, soon()));
  amazon_.claim_all();
  amazon_.over_token = "of-MINE";
  amazon_.replies["GetCallerIdentity"] =
      "<GetCallerIdentityResult><Arn>arn:aws:iam::2:user/me</Arn></GetCallerIdentityResult>";
  set_keys("THEIRS");
  fixture_.now += 20min;
  const std::size_t before = amazon_.actions.size();
  const Status closed = aws->teardown(cluster, soon());
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().kind, ErrorKind::denied);
  EXPECT_THAT(closed.error().message,
              AllOf(HasSubstr("now belong to account 2"), HasSubstr("the pool is in account 1")));
  // The first look is refused for the old session; the other account is only asked who it is.
  std::set<std::string> asked(amazon_.actions.begin() + static_cast<std::ptrdiff_t>(before),
                              amazon_.actions.end());
  EXPECT_THAT(asked, Not(Contains("TerminateInstances")));
  EXPECT_EQ(amazon_.standing(), 2);
  ASSERT_THAT(open_pools(), SizeIs(1)) << "gc ends them with the right credentials";

  // The right account again, with new keys.
  amazon_.replies.erase("GetCallerIdentity");
  set_keys("MINE-AGAIN");
  EXPECT_TRUE(aws->teardown(cluster, soon()));
  EXPECT_EQ(amazon_.standing(), 0);
  let_go();
}

// Amazon's prices are without the address, and so is the limit that it is told.
TEST_F(AwsMoney, PublicAddressesCountInPricesAndLimits) {
  spec_.spot = Spot::Always();
  spec_.nodes = 2;
  spec_.max_hourly_cost = 0.2;
  std::string limit;
  amazon_.refuse = [&](const std::string&, const Ec2Double::Form& form) {
    const auto told = form.find("InstanceMarketOptions.SpotOptions.MaxPrice");
    if (told != form.end()) limit = told->second;
    return std::pair(0, std::string());
  };
  const auto aws = provider();
  const Cluster cluster = open(*aws);
  const auto machines = aws->provision(cluster, 2, 0, soon());
  ASSERT_TRUE(machines) << machines.error().message;
  EXPECT_DOUBLE_EQ(machines->front().price_spot.value_or(0), 0.03 + 0.005);
  ASSERT_NE(limit, "");
  EXPECT_NEAR(std::stod(limit), 0.1 - 0.005, 1e-6);
  EXPECT_TRUE(aws->teardown(cluster, soon()));
}

TEST_F(AwsMoney, TheEndOfAPoolIsByAmazonsClock) {
  for (const std::int64_t ahead_s : {-9 * 3600, 60, 9 * 3600}) {
    forget();
    set_amazons_clock(ahead_s);
    const auto aws = provider();
    const Cluster cluster = open(*aws);
    ASSERT_TRUE(aws->provision(cluster, 1, 0, soon()));
    const std::int64_t there_s = fixture_.world.wall_s() + (ahead_s == 60 ? 0 : ahead_s);
    EXPECT_NEAR(static_cast<double>(told_end_s() - there_s), 3600 + 900, 60) << ahead_s;
    EXPECT_TRUE(aws->teardown(cluster, soon()));
  }
}

// By a clock that is ahead, the time of every other computer's pool is over.
TEST_F(AwsMoney, GcJudgesNothingByAWrongClock) {
  const auto aws = provider();
  const Cluster cluster = open(*aws);
  ASSERT_TRUE(aws->provision(cluster, 2, 0, soon()));
  amazon_.claim_all();
  std::filesystem::rename(home_ + "/state", home_ + "/of-another-computer");
  for (const std::int64_t ahead_s : {-4 * 3600, 4 * 3600}) {
    set_amazons_clock(ahead_s);
    const Status status = sweep(fixture_.world, {}, [](const Swept&) {}, fixture_.now + 600s);
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message,
                HasSubstr(ahead_s > 0 ? "240 min behind Amazon's" : "240 min ahead of Amazon's"));
    EXPECT_EQ(amazon_.standing(), 2);
  }
  set_amazons_clock(100);
  EXPECT_THAT(gc(), Not(IsEmpty())) << "clocks differ a little";
  EXPECT_EQ(amazon_.standing(), 2);
  set_amazons_clock(4 * 3600);
  (void)gc({.pool = cluster.id});
  EXPECT_EQ(amazon_.standing(), 0) << "whoever names a pool wants it gone";
  amazon_.mangle = nullptr;
  let_go();
}

TEST_F(AwsMoney, APriceThatNobodyKnowsIsNotNothing) {
  // No price list, and no list prices in this region.
  amazon_.missing = {"pricing:GetProducts"};
  spec_.spot = Spot::IfAvailable();
  spec_.spot.retries = 1;
  amazon_.refuse = [](const std::string& action, const Ec2Double::Form& form) {
    return action == "RunInstances" && form.contains("InstanceMarketOptions.MarketType")
               ? std::pair(500, std::string("InsufficientInstanceCapacity"))
               : std::pair(0, std::string());
  };
  for (const bool budget : {false, true}) {
    spec_.budget = budget ? std::optional(5.0) : std::nullopt;
    spec_.max_hourly_cost = budget ? std::nullopt : std::optional(5.0);
    const auto aws = provider();
    const Cluster cluster = open(*aws);
    const auto bought = aws->provision(cluster, 2, 0, soon());
    ASSERT_FALSE(bought);
    EXPECT_EQ(bought.error().kind, ErrorKind::exhausted);
    EXPECT_THAT(bought.error().hint, HasSubstr("or their price is not known"));
    EXPECT_THAT(amazon_.instances, IsEmpty());
    EXPECT_TRUE(aws->teardown(cluster, soon()));
  }
  spec_.budget = spec_.max_hourly_cost = std::nullopt;
  const auto aws = provider();
  const Cluster cluster = open(*aws);
  EXPECT_TRUE(aws->provision(cluster, 2, 0, soon())) << "there is no limit";
  EXPECT_TRUE(aws->teardown(cluster, soon()));
}

TEST_F(AwsMoney, WhyNoPriceIsKnownIsToldToAPoolWithALimit) {
  amazon_.missing = {"pricing:GetProducts"};
  spec_.spot = Spot::Never();
  EXPECT_TRUE(provider()->offers(spec_, soon())) << "there is no limit";
  spec_.budget = 5;
  const auto refused = provider()->offers(spec_, soon());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("cannot enforce budget="), HasSubstr("AccessDeniedException")));
  EXPECT_THAT(refused.error().hint, HasSubstr("pricing:GetProducts"));
}

// Amazon's prices in China are in yuan.
TEST_F(AwsMoney, PricesInOtherMoneyAreNotDollars) {
  amazon_.regions = {"cn-north-1"};
  spec_.provider.settings["region"] = "cn-north-1";
  spec_.spot = Spot::Always();
  const auto [aws, life] = opened();
  EXPECT_FALSE(life.instances.front().price_spot);
  const auto charges = aws->charges(life.cluster, {life.instances.front().id}, soon());
  ASSERT_TRUE(charges) << charges.error().message;
  for (const Charge& one : *charges) EXPECT_FALSE(one.hourly);
  EXPECT_TRUE(aws->teardown(life.cluster, soon()));
  EXPECT_THAT(amazon_.actions, Not(Contains("DescribeSpotPriceHistory")));
  for (const bool budget : {false, true}) {
    spec_.budget = budget ? std::optional(5.0) : std::nullopt;
    spec_.max_hourly_cost = budget ? std::nullopt : std::optional(5.0);
    const auto refused = provider()->offers(spec_, soon());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
    EXPECT_THAT(refused.error().message, HasSubstr("are not in dollars"));
    EXPECT_THAT(refused.error().hint, HasSubstr("leave the limit out"));
  }
}

TEST_F(AwsMoney, MachinesOfAPoolWithoutALimitHaveNone) {
  spec_.timeout = 0s;
  const auto aws = provider();
  const Cluster cluster = open(*aws);
  ASSERT_TRUE(aws->provision(cluster, 1, 0, soon()));
  EXPECT_GT(told_end_s() - fixture_.world.wall_s(), 365 * 86400LL);
  fixture_.now += 48h;
  ASSERT_TRUE(aws->provision(cluster, 1, 1, soon())) << "one that is replaced lives as long";
  EXPECT_GT(told_end_s() - fixture_.world.wall_s(), 365 * 86400LL);
  EXPECT_TRUE(aws->teardown(cluster, soon()));
  let_go();
}

// The reply to a launch is lost, and the next try is refused for the group, which is not known
// everywhere yet, and the one after it for good. The machines of the first one are there.
TEST_F(AwsMoney, ALaunchWhoseReplyWasLostIsLookedForWhateverIsRefusedLater) {
  spec_.nodes = 1;
  int launches = 0;
  amazon_.lose_reply = [&](const std::string& action) {
    return action == "RunInstances" && launches == 1;
  };
  amazon_.refuse = [&](const std::string& action, const Ec2Double::Form&) {
    if (action != "RunInstances") return std::pair(0, std::string());
    ++launches;
    if (launches == 1) return std::pair(0, std::string());
    return std::pair(400,
                     std::string(launches == 2 ? "InvalidGroup.NotFound" : "VcpuLimitExceeded"));
  };
  const auto aws = provider();
  const Cluster cluster = open(*aws);
  fixture_.now += 10s;  // the group is known
  ASSERT_FALSE(aws->provision(cluster, 1, 0, soon()));
  EXPECT_THAT(amazon_.instances, SizeIs(1));
  EXPECT_EQ(amazon_.standing(), 0) << "it was found and ended";
  amazon_.refuse = nullptr;
  EXPECT_TRUE(aws->teardown(cluster, soon()));
}

TEST_F(AwsMoney, WhoeverIsNoLongerWantedDoesNotWaitForAGroup) {
  spec_.nodes = 1;
  const auto aws = provider();
  amazon_.refuse = [&](const std::string& action, const Ec2Double::Form&) {
    if (action != "RunInstances") return std::pair(0, std::string());
    aws->stop_launching();
    return std::pair(400, std::string("InvalidGroup.NotFound"));
  };
  const Cluster cluster = open(*aws);
  const Time begin = fixture_.now;
  EXPECT_FALSE(aws->provision(cluster, 1, 0, soon()));
  EXPECT_LE(fixture_.now - begin, 10s);
  amazon_.refuse = nullptr;
  EXPECT_TRUE(aws->teardown(cluster, soon()));
}

}  // namespace
}  // namespace skyward::provider::aws

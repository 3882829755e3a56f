#include "skyward/provider/aws/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "skyward/provider/world_fixture.h"

namespace skyward::provider::aws {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

class PriceLists : public ::testing::Test {
 protected:
  PriceLists() {
    fixture_.variables["AWS_ACCESS_KEY_ID"] = "AKIA";
    fixture_.variables["AWS_SECRET_ACCESS_KEY"] = "secret";
  }
  // As another process would ask.
  Prices ask(const std::string& region, bool needed = false) {
    fixture_.http->requests.clear();
    Client client(fixture_.world, Configuration{}, region);
    Prices prices;
    Catalogue(client).add_list_prices(prices, needed, kNever);
    return prices;
  }
  // A list of pages with one type each, which takes 8 s for each of them. After `most` pages, it is
  // silent.
  void serve(const std::vector<std::string>& types, int most) {
    fixture_.http->answer = [this, types, most, served = 0](
                                const io::HttpRequest& request) mutable -> Result<io::HttpReply> {
      fixture_.now += 8s;
      if (served++ >= most) return fail(ErrorKind::timeout, "no answer in time");
      const auto asked = nlohmann::json::parse(request.body);
      if (asked.dump().contains("bare metal")) {
        return io::HttpReply{.status = 200, .headers = {}, .body = R"({"PriceList":[]})"};
      }
      const std::string token = asked.value("NextToken", "0");
      if (token == forgotten_) {
        return io::HttpReply{.status = 400,
                             .headers = {},
                             .body = R"({"__type":"ExpiredNextTokenException","message":"over"})"};
      }
      const std::size_t page = std::stoul(token);
      const nlohmann::json product = {
          {"product", {{"attributes", {{"instanceType", types.at(page)}}}}},
          {"terms",
           {{"OnDemand",
             {{"X", {{"priceDimensions", {{"Y", {{"pricePerUnit", {{"USD", "2"}}}}}}}}}}}}}};
      nlohmann::json body = {{"PriceList", {product.dump()}}};
      if (page + 1 < types.size()) body["NextToken"] = std::to_string(page + 1);
      return io::HttpReply{.status = 200, .headers = {}, .body = body.dump()};
    };
  }

  WorldFixture fixture_;
  std::string forgotten_ = "none";  // a token that is over
};

TEST_F(PriceLists, ThatDidNotAnswerAreNotWaitedForAgainAtOnce) {
  const auto requests = [&](bool needed = false) {
    EXPECT_EQ(ask("us-east-1", needed).on_demand.at("m5.large"), 0.096)
        << "of the table that ships";
    return fixture_.http->requests.size();
  };
  EXPECT_GT(requests(), 0U);
  EXPECT_EQ(requests(), 0U);
  EXPECT_GT(requests(true), 0U) << "a pool with a limit needs them";
  fixture_.wall_s += 600;
  EXPECT_GT(requests(), 0U);
}

TEST_F(PriceLists, ThatAreSlowAreReadAPartAtATime) {
  serve({"a.large", "b.large", "c.large"}, 2);
  const Prices first = ask("eu-west-1");
  EXPECT_THAT(first.on_demand, ElementsAre(Pair("a.large", 2), Pair("b.large", 2)));
  EXPECT_THAT(first.trouble,
              HasSubstr("the price list of eu-west-1 was not read to its end in 20 s"));
  serve({"a.large", "b.large", "c.large"}, 2);
  const Prices second = ask("eu-west-1");
  EXPECT_THAT(fixture_.http->requests.front().body, HasSubstr(R"("NextToken":"2")"));
  EXPECT_THAT(second.on_demand,
              ElementsAre(Pair("a.large", 2), Pair("b.large", 2), Pair("c.large", 2)));
  EXPECT_THAT(second.trouble, IsEmpty());
  EXPECT_EQ(ask("eu-west-1").on_demand, second.on_demand);
  EXPECT_THAT(fixture_.http->requests, IsEmpty()) << "all is known";
}

TEST_F(PriceLists, ArePatientlyReadForPoolsWithALimit) {
  serve({"a.large", "b.large", "c.large", "d.large"}, 100);
  EXPECT_EQ(ask("eu-west-1", true).on_demand.size(), 4U);
}

TEST_F(PriceLists, ThatHaveForgottenWhereWeWereAreReadFromTheStart) {
  serve({"a.large", "b.large", "c.large"}, 1);
  EXPECT_EQ(ask("eu-west-1").on_demand.size(), 1U);
  forgotten_ = "1";
  serve({"a.large", "b.large"}, 2);
  EXPECT_THAT(ask("eu-west-1").on_demand, ElementsAre(Pair("a.large", 2)));
  EXPECT_EQ(fixture_.http->requests.size(), 3U);
}

// A zone "a" of one account is a "b" of another.
TEST_F(PriceLists, OfSpotMachinesAreThoseOfTheAccount) {
  fixture_.http->answer = [](const io::HttpRequest&) -> Result<io::HttpReply> {
    return io::HttpReply{
        .status = 200,
        .headers = {},
        .body =
            "<DescribeSpotPriceHistoryResponse><spotPriceHistorySet><item><instanceType>a.large"
            "</instanceType><availabilityZone>us-east-1a</availabilityZone>"
            "<spotPrice>0.5</spotPrice></item></spotPriceHistorySet></"
            "DescribeSpotPriceHistoryResponse>"};
  };
  const auto requests = [&](const std::string& key) {
    fixture_.variables["AWS_ACCESS_KEY_ID"] = key;
    fixture_.http->requests.clear();
    Client client(fixture_.world, Configuration{}, "us-east-1");
    Prices prices;
    const auto added = Catalogue(client).add_spot_prices({"a.large"}, prices, kNever);
    EXPECT_TRUE(added) << added.error().message;
    EXPECT_EQ(prices.spot.size(), 1U);
    return fixture_.http->requests.size();
  };
  EXPECT_EQ(requests("AKIA"), 1U);
  EXPECT_EQ(requests("AKIA"), 0U);
  EXPECT_EQ(requests("AKIB"), 1U);
}

// China's are in yuan, and those of the European Sovereign Cloud in euros.
TEST_F(PriceLists, InOtherMoneyThanDollarsAreUnknown) {
  for (const char* region : {"cn-north-1", "eusc-de-east-1"}) {
    serve({"a.large"}, 100);
    const Prices listed = ask(region, true);
    EXPECT_THAT(listed.on_demand, IsEmpty());
    EXPECT_THAT(listed.trouble, HasSubstr("are not in dollars"));
    Client client(fixture_.world, Configuration{}, region);
    Prices prices;
    EXPECT_TRUE(Catalogue(client).add_spot_prices({"a.large"}, prices, kNever));
    EXPECT_THAT(prices.spot, IsEmpty());
    EXPECT_THAT(fixture_.http->requests, IsEmpty());
  }
}

}  // namespace
}  // namespace skyward::provider::aws

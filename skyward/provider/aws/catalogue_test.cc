#include "skyward/provider/aws/catalogue.h"

#include <gtest/gtest.h>

#include "skyward/provider/world_fixture.h"

namespace skyward::provider::aws {
namespace {

TEST(Catalogue, APriceListThatDidNotAnswerIsNotWaitedForAgainAtOnce) {
  WorldFixture fixture;
  fixture.variables["AWS_ACCESS_KEY_ID"] = "AKIA";
  fixture.variables["AWS_SECRET_ACCESS_KEY"] = "secret";
  Client client(fixture.world, Configuration{}, "us-east-1");
  const auto ask = [&] {
    fixture.http->requests.clear();
    Catalogue catalogue(client);
    EXPECT_EQ(catalogue.prices(kNever).at("m5.large"), 0.096) << "of the table that ships";
    return fixture.http->requests.size();
  };
  EXPECT_GT(ask(), 0U);
  EXPECT_EQ(ask(), 0U);
  fixture.wall_s += 600;
  EXPECT_GT(ask(), 0U);
}

}  // namespace
}  // namespace skyward::provider::aws

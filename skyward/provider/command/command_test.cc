#include "skyward/provider/command/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "skyward/base/time.h"

namespace skyward::provider {
namespace {

using ::testing::HasSubstr;

ProviderSpec spec_with(std::string commands) {
  return {.name = "command",
          .settings = {{"commands", std::move(commands)}, {"python", "/usr/bin/python3"}}};
}

class CommandTest : public testing::Test {
 protected:
  void open(std::string commands) {
    auto made = make_command(spec_with(std::move(commands)));
    ASSERT_TRUE(made) << made.error().message;
    provider = *std::move(made);
    pool.agent_path = "/bin/sh";  // some program
    const auto offers = provider->offers(pool, kNever);
    ASSERT_TRUE(offers);
    auto prepared = provider->prepare(pool, offers->front(), kNever);
    ASSERT_TRUE(prepared) << prepared.error().message;
    cluster = *std::move(prepared);
  }
  std::vector<std::string> words_of(const Instance& instance) {
    return provider->connection(cluster, instance).command;
  }

  std::unique_ptr<Provider> provider;
  PoolSpec pool;
  Cluster cluster;
};

TEST_F(CommandTest, EachNodeHasACommandOfItsOwn) {
  open(R"([["a", "one"], ["b"], ["c"]])");
  const auto instances = provider->provision(cluster, 2, 0, kNever);
  ASSERT_TRUE(instances);
  EXPECT_THAT(words_of((*instances)[0]), testing::ElementsAre("a", "one"));
  EXPECT_THAT(words_of((*instances)[1]), testing::ElementsAre("b"));
  const Connection connection = provider->connection(cluster, (*instances)[0]);
  EXPECT_TRUE(connection.shell);
  EXPECT_THAT(connection.agents, ::testing::ElementsAre("/bin/sh"));
  EXPECT_EQ(provider->bootstrap(cluster, (*instances)[0]).python, "/usr/bin/python3");
}

TEST_F(CommandTest, AReplacementTakesTheCommandThatWasUsedLeast) {
  open(R"([["a"], ["b"]])");
  const auto first = provider->provision(cluster, 1, 0, kNever);
  ASSERT_TRUE(first);
  ASSERT_TRUE(provider->terminate(cluster, {first->front().id}, kNever));
  const auto second = provider->provision(cluster, 1, 0, kNever);
  ASSERT_TRUE(second);
  EXPECT_THAT(words_of(second->front()), testing::ElementsAre("b"));
  ASSERT_TRUE(provider->terminate(cluster, {second->front().id}, kNever));
  const auto third = provider->provision(cluster, 1, 0, kNever);
  ASSERT_TRUE(third);
  EXPECT_THAT(words_of(third->front()), testing::ElementsAre("a"));
  EXPECT_NE(third->front().id, first->front().id) << "an id never comes back";
  EXPECT_FALSE(*provider->get_instance(cluster, first->front().id, kNever));
  EXPECT_TRUE(*provider->get_instance(cluster, third->front().id, kNever));
}

TEST_F(CommandTest, GivesAllOrNothing) {
  open(R"([["a"], ["b"]])");
  const auto many = provider->provision(cluster, 3, 0, kNever);
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().kind, ErrorKind::exhausted);
  EXPECT_TRUE(provider->provision(cluster, 2, 0, kNever)) << "nothing was taken";
}

TEST_F(CommandTest, RefusesWhatCanNeverWork) {
  open(R"([["a"]])");
  pool.nodes = 2;
  EXPECT_THAT(provider->check(pool).error().message, HasSubstr("nodes=2, but commands= has 1"));
  pool.nodes = 1;
  EXPECT_TRUE(provider->check(pool));
  pool.cpus = 4;
  EXPECT_EQ(provider->check(pool).error().message,
            "cpu: the command provider takes machines as they are");
  pool.cpus = 0;
  pool.image.pip = {"numpy"};
  EXPECT_THAT(provider->check(pool).error().hint, HasSubstr("leave python out"));
}

TEST(Command, NodesAreToldTheAddressesOfEachOther) {
  ProviderSpec spec = spec_with(R"([["a"], ["b"]])");
  PoolSpec pool;
  const auto addresses = [&](const char* text) -> Result<std::vector<std::string>> {
    spec.settings["addresses"] = text;
    auto made = make_command(spec);
    if (!made) return fail(made);
    const auto cluster = (*made)->prepare(pool, {.instance_type = "command"}, kNever);
    const auto instances = (*made)->provision(*cluster, 2, 0, kNever);
    EXPECT_EQ((*made)->capabilities().private_network, *text != '\0');
    return std::vector{(*instances)[0].private_ip, (*instances)[1].private_ip};
  };
  EXPECT_THAT(*addresses(""), testing::ElementsAre("127.0.0.1", "127.0.0.1"));
  EXPECT_THAT(*addresses(R"(["10.0.0.1", "node-b"])"), testing::ElementsAre("10.0.0.1", "node-b"));
  for (const char* wrong : {R"(["10.0.0.1"])", R"(["10.0.0.1", 7])", R"(["10.0.0.1", ""])", "x"}) {
    const auto refused = addresses(wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_THAT(refused.error().message, HasSubstr("not a list of 2 addresses"));
  }
}

TEST(Command, RefusesWhatIsNoListOfCommands) {
  for (const char* text : {"a", "[1]", "[[]]", "[[1]]", "{}", "[[\"a\"], \"b\"]", "[[\"a\"]"}) {
    const auto made = make_command(spec_with(text));
    ASSERT_FALSE(made) << text;
    EXPECT_EQ(made.error().kind, ErrorKind::invalid);
    EXPECT_THAT(made.error().hint, HasSubstr("podman")) << text;
  }
}

}  // namespace
}  // namespace skyward::provider

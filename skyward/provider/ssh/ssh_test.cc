#include "skyward/provider/ssh/ssh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "skyward/io/file.h"
#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"

namespace skyward::provider {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Pair;

class Ssh : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "skyward-ssh-" + io::random_hex(8);
    fs::create_directory(root_);
    std::ofstream(root_ + "/agent") << "#!/bin/sh\n";
    fs::permissions(root_ + "/agent", fs::perms::owner_all);
    std::ofstream(root_ + "/package.tar") << "modules";
  }
  void TearDown() override { (void)io::remove_tree(root_); }

  std::unique_ptr<Provider> make(std::map<std::string, std::string> settings) {
    auto made = make_ssh(
        {.name = "ssh", .settings = std::move(settings)},
        [this](const char* name) {
          const auto found = variables_.find(name);
          return found == variables_.end() ? std::nullopt : std::optional(found->second);
        },
        root_ + "/state");
    EXPECT_TRUE(made) << made.error().message;
    return made ? *std::move(made) : nullptr;
  }

  PoolSpec spec(int nodes) const {
    PoolSpec spec;
    spec.nodes = nodes;
    spec.agent_path = root_ + "/agent";
    spec.runtime.command = {"{python}", "{archive}/skyward/_worker.py"};
    spec.runtime.python = "python3";
    spec.runtime.environment = {{"SKYWARD_CLIENT_PYTHON", "3.11"}};
    spec.runtime.archives = {root_ + "/package.tar"};
    return spec;
  }

  std::string root_;
  std::map<std::string, std::string> variables_;
};

TEST_F(Ssh, EachHostIsOneNodeAndASpareReplacesOneThatFailed) {
  const auto provider = make({{"hosts", "192.0.2.1\n192.0.2.2\nme@192.0.2.3:2222"}});
  ASSERT_TRUE(provider->check(spec(3)));
  const auto offers = provider->offers(spec(2), kNever);
  ASSERT_TRUE(offers && offers->size() == 1);
  const auto cluster = provider->prepare(spec(2), offers->at(0), kNever);
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_THAT(cluster->id, MatchesRegex("ssh-[0-9a-f]{8}"));

  const auto instances = provider->provision(*cluster, 2, 0, kNever);
  ASSERT_TRUE(instances && instances->size() == 2);
  EXPECT_EQ(instances->at(0).id, cluster->id + "-0");
  EXPECT_EQ(instances->at(1).private_ip, "192.0.2.2");
  EXPECT_TRUE(provider->get_instance(*cluster, cluster->id + "-1", kNever)->has_value());

  ASSERT_TRUE(provider->terminate(*cluster, {cluster->id + "-1", "unknown", ""}, kNever));
  EXPECT_FALSE(provider->get_instance(*cluster, cluster->id + "-1", kNever)->has_value());
  const auto spare = provider->provision(*cluster, 1, 1, kNever);
  ASSERT_TRUE(spare);
  EXPECT_EQ(spare->at(0).private_ip, "192.0.2.3");
  EXPECT_THAT(provider->connection(*cluster, spare->at(0)).command, Contains("2222"));
  // Without another spare it is the same machine's turn again, under another id.
  const auto again = provider->provision(*cluster, 1, 1, kNever);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->at(0).id, cluster->id + "-1-r1");
  EXPECT_EQ(provider->provision(*cluster, 1, 1, kNever).error().kind, ErrorKind::exhausted);
  ASSERT_TRUE(provider->teardown(*cluster, kNever));
  EXPECT_TRUE(provider->teardown(*cluster, kNever)) << "twice does no harm";
}

TEST_F(Ssh, MoreNodesThanHostsAreRefusedBeforeAnythingStarts) {
  const Status refused = make({{"hosts", "w1"}})->check(spec(2));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "nodes=2, but the SSH provider has 1 host");
  EXPECT_FALSE(make({})->check(spec(1))) << "no hosts at all";
}

TEST_F(Ssh, ItDoesNotChooseMachines) {
  const auto provider = make({{"hosts", "w1"}});
  const auto refusal = [&](auto set) {
    PoolSpec pool = spec(1);
    set(pool);
    const Status refused = provider->check(pool);
    return refused ? "" : refused.error().message;
  };
  const std::string why = ": the ssh provider takes machines as they are";
  EXPECT_EQ(refusal([](PoolSpec& pool) { pool.accelerator = Accelerator{.name = "H100"}; }),
            "accelerator" + why);
  EXPECT_EQ(refusal([](PoolSpec& pool) { pool.cpus = 1; }), "cpu" + why);
  EXPECT_EQ(refusal([](PoolSpec& pool) { pool.memory_mb = 1024; }), "memory" + why);
  EXPECT_EQ(refusal([](PoolSpec& pool) { pool.machine = "x"; }), "machine" + why);
  EXPECT_EQ(refusal([](PoolSpec& pool) { pool.architecture = "arm64"; }), "architecture" + why);
}

TEST_F(Ssh, MissingFilesAreNamed) {
  for (const char* name : {"identity_file", "host_keys", "config"}) {
    const Status refused = make({{"hosts", "w1"}, {name, "/nowhere/x"}})->check(spec(1));
    ASSERT_FALSE(refused) << name;
    EXPECT_THAT(refused.error().message, HasSubstr("/nowhere/x"));
  }
}

TEST_F(Ssh, AListThatMakesNoSenseIsRefused) {
  for (const auto& [hosts, words] :
       {std::pair("w1\nw1", "named twice"), std::pair("me@w1\nw1", "named twice"),
        std::pair("-oProxyCommand=x", "is not a host")}) {
    const auto made = make_ssh({.settings = {{"hosts", hosts}, {"user", "me"}}}, {}, root_);
    ASSERT_FALSE(made) << hosts;
    EXPECT_EQ(made.error().kind, ErrorKind::invalid);
    EXPECT_THAT(made.error().message, HasSubstr(words));
  }
  EXPECT_FALSE(make_ssh({.settings = {{"hosts", "w1"}, {"port", "x"}}}, {}, root_));
  EXPECT_TRUE(make_ssh({.settings = {{"hosts", "w1"}, {"user", "CORP\\me"}}}, {}, root_));
  for (const std::string user : {"-x", "CORP\\me!"}) {
    const auto made = make_ssh({.settings = {{"hosts", "w1"}, {"user", user}}}, {}, root_);
    ASSERT_FALSE(made) << user;
    EXPECT_EQ(made.error().message, "user=\"" + user + "\" is not a valid user name");
  }
  EXPECT_FALSE(make_ssh({.settings = {{"hosts", "w1"}, {"jump", "-x"}}}, {}, root_));
}

// As `ssh -o HostKeyAlias=` will ask for them: in lower case, with the port that holds for the
// host.
TEST_F(Ssh, KeysByHostAreKeptUnderTheNamesOfTheHosts) {
  const std::map<std::string, std::string> settings = {
      {"hosts", "Me@Box:2222\n10.0.0.5"},
      {"port", "2201"},
      {"host_keys", R"({"Me@Box:2222": "ssh-ed25519 AAA", "10.0.0.5": "ssh-ed25519 BBB"})"}};
  const auto provider = make(settings);
  const auto cluster = provider->prepare(spec(1), {}, kNever);
  ASSERT_TRUE(cluster) << cluster.error().message;
  std::string kept;
  for (const auto& file : fs::directory_iterator(root_ + "/state/host-keys")) {
    std::ifstream in(file.path() / "known_hosts");
    kept.assign(std::istreambuf_iterator<char>(in), {});
  }
  EXPECT_EQ(kept, "box:2222 ssh-ed25519 AAA\n10.0.0.5:2201 ssh-ed25519 BBB\n");
  EXPECT_TRUE(provider->teardown(*cluster, kNever));
  EXPECT_TRUE(fs::is_empty(root_ + "/state/host-keys"));
  auto by_gate = settings;
  by_gate["jump"] = "gate";
  const auto refused = make_ssh({.settings = by_gate}, {}, root_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "host_keys has no key for gate");
}

TEST_F(Ssh, GivenKeysAreTheOnlyOnesThatCount) {
  const std::string keys = "192.0.2.1 ssh-ed25519 AAAA";
  const auto provider =
      make({{"hosts", "192.0.2.1"}, {"host_keys", R"({"192.0.2.1": "ssh-ed25519 AAAA"})"}});
  const auto cluster = provider->prepare(spec(1), {}, kNever);
  ASSERT_TRUE(cluster) << cluster.error().message;
  const auto instances = provider->provision(*cluster, 1, 0, kNever);
  const Connection connection = provider->connection(*cluster, instances->at(0));
  EXPECT_TRUE(connection.shell);
  EXPECT_THAT(connection.agents, ::testing::ElementsAre(root_ + "/agent"));
  EXPECT_THAT(connection.command, Contains("HostKeyAlias=192.0.2.1"));
  std::string path;
  for (const std::string& word : connection.command) {
    if (word.starts_with("UserKnownHostsFile=\"")) path = word.substr(20, word.size() - 21);
  }
  EXPECT_EQ(io::read_file(path).value_or(""), keys + "\n");
  EXPECT_EQ(fs::status(fs::path(path).parent_path()).permissions(), fs::perms::owner_all);
  // What cleans up may remove it while the pool is open.
  fs::remove(path);
  EXPECT_EQ(provider->connection(*cluster, instances->at(0)).command, connection.command);
  EXPECT_EQ(io::read_file(path).value_or(""), keys + "\n");
}

TEST_F(Ssh, KeysOfProgramsThatWereKilledGo) {
  const std::string folder = root_ + "/state/host-keys/";
  const std::string left = folder + std::string(32, 'a');
  ASSERT_TRUE(io::ensure_private_path(left));
  std::ofstream(left + "/known_hosts") << "x";
  const std::map<std::string, std::string> settings = {
      {"hosts", "192.0.2.1"}, {"host_keys", R"({"192.0.2.1": "ssh-ed25519 AAAA"})"}};
  const auto one = make(settings);
  const auto two = make(settings);
  ASSERT_TRUE(one->prepare(spec(1), {}, kNever));
  ASSERT_TRUE(two->prepare(spec(1), {}, kNever));
  EXPECT_FALSE(fs::exists(left));
  EXPECT_EQ(io::list_directory(folder).size(), 2u);
}

TEST_F(Ssh, HostsUseThisComputersProxies) {
  variables_["HTTPS_PROXY"] = "http://proxy.example:3128";
  const auto provider = make({{"hosts", "192.0.2.1"}});
  const auto cluster = provider->prepare(spec(1), {}, kNever);
  ASSERT_TRUE(cluster) << cluster.error().message;
  const auto instances = provider->provision(*cluster, 1, 0, kNever);
  ASSERT_TRUE(instances);
  EXPECT_THAT(provider->bootstrap(*cluster, instances->at(0)).environment,
              Contains(Pair("HTTPS_PROXY", "http://proxy.example:3128")));
}

TEST_F(Ssh, FailuresOfTheConnectionAreExplained) {
  const auto provider = make({{"hosts", "192.0.2.1"}});
  const auto cluster = provider->prepare(spec(1), {}, kNever);
  const auto instances = provider->provision(*cluster, 1, 0, kNever);
  const Error told = provider->explain(
      instances->at(0),
      {.kind = ErrorKind::lost, .message = "me@w1: Permission denied (publickey)."});
  EXPECT_EQ(told.kind, ErrorKind::denied);
  EXPECT_THAT(told.message, HasSubstr("192.0.2.1 refused the login"));
}

}  // namespace
}  // namespace skyward::provider

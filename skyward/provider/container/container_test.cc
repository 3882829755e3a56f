#include "skyward/provider/container/container.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "skyward/provider/container/container_account.h"
#include "skyward/provider/container/container_computer_fixture.h"
#include "skyward/provider/container/diagnose.h"
#include "skyward/provider/container/sweep.h"
#include "skyward/provider/keeping/keeping.h"

namespace skyward::provider::container {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class ContainerPool : public ::testing::Test, public ContainerComputer {
 protected:
  void TearDown() override { EXPECT_THAT(engine_->violations, IsEmpty()); }

  Error refusal_of_making() {
    const auto made = make_container(spec_.provider, fixture_.world);
    EXPECT_FALSE(made);
    return made ? Error{} : made.error();
  }
  int creations() const {
    return static_cast<int>(std::ranges::count_if(
        commands_, [](const auto& words) { return words.size() > 1 && words[1] == "run"; }));
  }
};

TEST_F(ContainerPool, ItsMachinesAreContainers) {
  spec_.cpus = 1.5;
  spec_.memory_mb = 2048;
  spec_.provider.settings["network"] = "lab";
  const auto [cloud, life] = opened();
  ASSERT_THAT(life.instances, SizeIs(2));
  EXPECT_THAT(life.cluster.id, StartsWith("container-"));
  EXPECT_EQ(life.cluster.region, "box");
  EXPECT_EQ(life.instances[0].private_ip, "10.88.0.5");
  const auto& one = engine_->containers.front();
  EXPECT_EQ(one.options.at("--cpus"), "1.50");
  EXPECT_EQ(one.options.at("--memory"), "2048m");
  EXPECT_EQ(one.options.at("--memory-swap"), "2048m");
  EXPECT_EQ(one.options.at("--shm-size"), "2048m");
  EXPECT_EQ(one.options.at("--network"), "lab");
  EXPECT_EQ(one.labels.at("skyward:pool"), life.cluster.id);
  EXPECT_THAT(one.script, HasSubstr("life=4500")) << "the pool's hour, and its end";

  const Connection way = cloud->connection(life.cluster, life.instances[1]);
  EXPECT_TRUE(way.shell);
  EXPECT_THAT(way.command,
              ElementsAre("podman", "exec", "--interactive", life.instances[1].id, "sh", "-c"));
  const Bootstrap bootstrap = cloud->bootstrap(life.cluster, life.instances[1]);
  const std::string directory = keeper_directory(life.instances[1].id);
  EXPECT_THAT(bootstrap.script, StartsWith(claim_script(directory)));
  EXPECT_EQ(bootstrap.end_command, end_keeper_words(directory));
  EXPECT_THAT(engine_->containers[1].script, StartsWith("d=" + directory + " "))
      << "containers may share /dev/shm";
  ASSERT_TRUE(cloud->teardown(life.cluster, soon()));
  EXPECT_EQ(engine_->standing(), 0);
  EXPECT_THAT(open_pools(), IsEmpty());
}

TEST_F(ContainerPool, AReplacementEndsWithItsPoolThoughThisComputerSlept) {
  const auto [cloud, life] = opened();
  fixture_.asleep = 30min;
  const auto another = cloud->provision(life.cluster, 1, 0, soon());
  ASSERT_TRUE(another) << another.error().message;
  const std::string script = engine_->containers.back().script;
  const std::string life_s = script.substr(script.find(" life=") + 6);
  EXPECT_NEAR(std::stoi(life_s), 45 * 60, 60);
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(ContainerPool, IsInUseThoughItsFolderWasDeleted) {
  const auto [cloud, life] = opened();
  EXPECT_EQ(cloud->capabilities().tend_interval, 30s);
  std::filesystem::remove_all(pool_directory(fixture_.world, life.cluster.id));
  ASSERT_TRUE(cloud->tend(life.cluster, soon()));
  EXPECT_THAT(gc(), Each(::testing::Field(&Swept::action, SweepAction::kept)));
  EXPECT_EQ(standing(), 2);
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(ContainerPool, DockerIsTakenWhereThereIsNoPodman) {
  use_docker();
  engine_->gpus = {"NVIDIA H100 80GB HBM3"};
  spec_.accelerator = Accelerator{.name = "H100"};
  spec_.provider.settings["network"] = "host";
  const auto [cloud, life] = opened();
  EXPECT_EQ(engine_->containers.front().options.at("--gpus"), "all");
  EXPECT_EQ(engine_->containers.front().options.at("--shm-size"), "16384m");
  EXPECT_FALSE(engine_->containers.front().options.contains("--memory"));
  EXPECT_EQ(life.instances[0].private_ip, "127.0.0.1");
  EXPECT_EQ(cloud->connection(life.cluster, life.instances[0]).command[0], "docker");
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
  EXPECT_EQ(engine_->standing(), 0);
}

TEST_F(ContainerPool, OfSeveralModelsItGetsTheGpusThatItAsksFor) {
  engine_->gpus = {"Tesla T4", "NVIDIA L4", "Tesla T4"};
  const auto given = [&](const char* option) {
    const auto cloud = provider();
    const Life life = open(*cloud);
    EXPECT_TRUE(life.status) << life.status.error().message;
    const std::string value = engine_->containers.front().options[option];
    EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
    return value;
  };
  spec_.accelerator = Accelerator{.name = "T4", .count = 2};
  EXPECT_EQ(given("--device"), "nvidia.com/gpu=0 nvidia.com/gpu=2");
  spec_.accelerator = Accelerator{.name = "L4"};
  EXPECT_EQ(given("--device"), "nvidia.com/gpu=1");
  use_docker();
  EXPECT_EQ(given("--gpus"), "\"device=1\"");
  spec_.accelerator->count = 2;
  EXPECT_THAT(refusal_of_opening().message, HasSubstr("no machine has 2 L4"));
}

TEST_F(ContainerPool, PodmanComesFirstAndTheOtherCanBeNamed) {
  install("docker");
  EXPECT_TRUE(provider()->offers(spec_, soon()));
  EXPECT_EQ(commands_.front()[0], "podman");
  commands_.clear();
  engine_->runtime = spec_.provider.settings["runtime"] = "docker";
  EXPECT_TRUE(provider()->offers(spec_, soon()));
  EXPECT_EQ(commands_.front()[0], "docker");
}

TEST_F(ContainerPool, WithoutARuntimeItSaysSo) {
  spec_.provider.settings["runtime"] = "docker";
  EXPECT_EQ(refusal_of_opening().message, "Containers: there is no docker on this computer");
  uninstall("podman");
  spec_.provider.settings.erase("runtime");
  const Error neither = refusal_of_opening();
  EXPECT_EQ(neither.kind, ErrorKind::unsupported);
  EXPECT_EQ(neither.message, "Containers: there is neither podman nor docker on this computer");
  EXPECT_THAT(commands_, IsEmpty());
}

TEST_F(ContainerPool, AHostIsReachedBySsh) {
  spec_.provider.settings["host"] = "ssh://me@box:2222";
  uninstall("podman");
  const auto through_ssh = fixture_.world.run_with_input;
  std::vector<std::vector<std::string>> words;
  fixture_.world.run_with_input = [&](const io::SpawnOptions& options, Duration,
                                      std::string_view) -> Result<io::CommandResult> {
    words.push_back(options.command);
    EXPECT_THAT(options.environment, Contains(std::pair("SSH_ASKPASS_REQUIRE", "never")));
    io::CommandResult out;
    if (words.size() == 1) {
      out.out = "/usr/bin/docker\n";
    } else {
      out.status.code = 255;
      out.err = "Host key verification failed.\n";
    }
    return out;
  };
  const auto offers = provider()->offers(spec_, soon());
  ASSERT_FALSE(offers);
  EXPECT_EQ(offers.error().kind, ErrorKind::denied);
  EXPECT_THAT(offers.error().message, HasSubstr("Host key verification failed"));
  EXPECT_FALSE(offers.error().hint.empty());
  ASSERT_THAT(words, SizeIs(2)) << "it is not asked again";
  EXPECT_EQ(words[1][0], "ssh");
  EXPECT_THAT(words[1].back(), StartsWith("docker info '--format=skyward-host={{.Name}}|"));
  spec_.provider.settings["host"] = "-oProxyCommand=x";
  EXPECT_THAT(refusal_of_making().message, HasSubstr("Containers: host:"));
}

TEST_F(ContainerPool, TheImageOfAPoolThatNamesNoneHasItsRegistry) {
  spec_.provider.settings.erase("image");
  engine_->registry = {"docker.io/library/debian:bookworm-slim"};
  spec_.runtime.python.clear();
  const auto [cloud, life] = opened();
  EXPECT_EQ(engine_->containers.front().image, "docker.io/library/debian:bookworm-slim");
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(ContainerPool, AnImageIsPulledOnceAndToldWhileItIs) {
  spec_.provider.settings["image"] = "example.org/mine:2";
  engine_->registry = {"example.org/mine:2"};
  spec_.nodes = 3;
  const auto [cloud, life] = opened();
  EXPECT_THAT(told_, ElementsAre("Containers: pulling the image example.org/mine:2"));
  const std::vector<std::string> pull{"podman", "pull", "--quiet", "example.org/mine:2"};
  EXPECT_EQ(std::ranges::count(commands_, pull), 1);
  for (std::size_t i = 0; i < commands_.size(); ++i) {
    const std::string& verb = commands_[i][1];
    const Duration limit = verb == "pull" ? 1h : verb == "run" ? 5min : 1min;
    EXPECT_LE(timeouts_[i], limit) << verb;
    if (verb == "run") {
      EXPECT_GT(timeouts_[i], 2min);
    }
  }
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(ContainerPool, WhatCannotBeIsRefusedBeforeAnythingIsCreated) {
  spec_.provider.settings["image"] = "nosuch:1";
  const Error image = refusal_of_opening();
  EXPECT_THAT(image.message, HasSubstr("the image nosuch:1 cannot be pulled: reading manifest"));
  EXPECT_THAT(image.hint, AllOf(HasSubstr("'podman pull nosuch:1'"), HasSubstr("podman login")));
  EXPECT_EQ(image.kind, ErrorKind::invalid);
  spec_.provider.settings["image"] = "python:3.x";
  spec_.provider.settings["network"] = "nosuch";
  const Error network = refusal_of_opening();
  EXPECT_THAT(network.message, HasSubstr("network not found"));
  EXPECT_THAT(network.hint, HasSubstr("'podman network ls'"));
  spec_.provider.settings.erase("network");
  spec_.memory_mb = 20 * 1024;
  EXPECT_THAT(refusal_of_opening().message,
              HasSubstr("nodes=2 of 20.0 GiB each, but box has 32.0 GiB"));
  spec_.memory_mb = 0;
  spec_.cpus = 9;
  EXPECT_THAT(refusal_of_opening().message, StartsWith("Containers: box: "));
  spec_.cpus = 0;
  spec_.accelerator = Accelerator{.name = "H100"};
  EXPECT_THAT(refusal_of_opening().hint, AllOf(HasSubstr("nvidia-smi"), HasSubstr("host=")));
  spec_.accelerator.reset();
  spec_.machine = "c5.large";
  EXPECT_THAT(refusal_of_opening().message, HasSubstr("machine=\"c5.large\" is not offered"));
  spec_.machine.clear();
  spec_.volumes = {Volume{}};
  EXPECT_THAT(refusal_of_opening().message, HasSubstr("volumes cannot be mounted"));
  spec_.volumes.clear();
  spec_.image.pip = {::testing::TempDir()};
  EXPECT_THAT(refusal_of_opening().message, HasSubstr("is on this computer"));
  EXPECT_EQ(creations(), 0);
  spec_.provider.settings["image"] = "--privileged";
  EXPECT_THAT(refusal_of_making().message, HasSubstr("image=\"--privileged\" is not an image"));
  spec_.provider.settings["image"] = "a";
  spec_.provider.settings["network"] = "a b";
  EXPECT_THAT(refusal_of_making().message, HasSubstr("is not a network"));
}

TEST_F(ContainerPool, AnImageThatCannotBePulledHasAHintOfItsOwn) {
  spec_.provider.settings["image"] = "mine:1";
  const std::pair<const char*, const char*> refusals[] = {
      {"short-name \"mine:1\" did not resolve to an alias and no unqualified-search registries are "
       "defined in \"/etc/containers/registries.conf\"",
       "docker.io/library/python"},
      {"short-name resolution enforced but cannot prompt without a TTY", "podman has no registry"},
      {"toomanyrequests: You have reached your unauthenticated pull rate limit", "'podman login'"},
      {"writing blob: write /var/tmp/x: no space left on device", "'podman system df'"},
      {"reading manifest 1 in docker.io/network-controller: not found", "check image="}};
  for (const auto& [words, hint] : refusals) {
    engine_->no_pull = words;
    const Error why = refusal_of_opening();
    EXPECT_THAT(why.message, AllOf(HasSubstr("mine:1 cannot be pulled"), HasSubstr(words)));
    EXPECT_THAT(why.hint, HasSubstr(hint)) << words;
  }
}

TEST_F(ContainerPool, APullThatTakesTooLongCanBeDoneBefore) {
  spec_.provider.settings["image"] = "large:1";
  int pulls = 0;
  const auto answer = fixture_.world.run_with_input;
  fixture_.world.run_with_input = [&](const io::SpawnOptions& options, Duration limit,
                                      std::string_view input) -> Result<io::CommandResult> {
    if (options.command[1] != "pull") return answer(options, limit, input);
    ++pulls;
    return fail(ErrorKind::timeout, "'podman' did not end within 3600.0 s and was killed");
  };
  const Error why = refusal_of_opening();
  EXPECT_THAT(why.message, HasSubstr("pulling the image large:1: 'podman' did not end"));
  EXPECT_THAT(why.hint, HasSubstr("run 'podman pull large:1' by hand first"));
  EXPECT_EQ(pulls, 1) << "nothing was created that could be looked for";
}

TEST_F(ContainerPool, WhatTheEngineRefusesIsSaidInItsWords) {
  engine_->gpus = {"NVIDIA H100 80GB HBM3"};
  engine_->has_cdi = false;
  spec_.accelerator = Accelerator{.name = "H100"};
  const Error devices = refusal_of_opening();
  EXPECT_THAT(devices.message, HasSubstr("unresolvable CDI devices nvidia.com/gpu=all"));
  EXPECT_THAT(devices.hint, HasSubstr("nvidia-ctk cdi generate"));
  spec_.accelerator.reset();
  const std::pair<const char*, const char*> refusals[] = {
      {"write /var/lib/x: no space left on device", "'podman system df'"},
      {"crun: executable file `sh` not found in $PATH: No such file or directory", "sh and bash"},
      {"crun: fork: Cannot allocate memory", "no memory left"},
      {"exec container process `/bin/sh`: Exec format error", "another architecture"},
      {"the requested cgroup controller `cpu` is not available", "delegate"},
      {"something else", "try the same with 'podman' by hand"}};
  for (const auto& [words, hint] : refusals) {
    engine_->refusal = words;
    const Error why = refusal_of_opening();
    EXPECT_THAT(why.message, HasSubstr(words));
    EXPECT_THAT(why.hint, HasSubstr(hint)) << words;
  }
}

TEST_F(ContainerPool, ADaemonThatDoesNotRunIsAnErrorAtOnce) {
  use_docker();
  engine_->off = true;
  const Error off = refusal_of_opening();
  EXPECT_EQ(off.kind, ErrorKind::unavailable);
  EXPECT_THAT(off.message, HasSubstr("Cannot connect to the Docker daemon"));
  EXPECT_THAT(off.hint, HasSubstr("systemctl start docker"));
  EXPECT_EQ(engine_->requests, 1);
  engine_->off = false;
  engine_->forbidden = true;
  const Error forbidden = refusal_of_opening();
  EXPECT_EQ(forbidden.kind, ErrorKind::denied);
  EXPECT_THAT(forbidden.hint, HasSubstr("the group \"docker\""));
}

TEST_F(ContainerPool, ADockerThatEndsWellWithoutItsDaemonIsTheSameError) {
  use_docker();
  engine_->is_docker_27 = true;
  engine_->off = true;
  const Error off = refusal_of_opening();
  EXPECT_EQ(off.kind, ErrorKind::unavailable);
  EXPECT_THAT(off.message, HasSubstr("Cannot connect to the Docker daemon"));
  EXPECT_THAT(off.hint, HasSubstr("systemctl start docker"));
  engine_->off = false;
  engine_->forbidden = true;
  const Error forbidden = refusal_of_opening();
  EXPECT_EQ(forbidden.kind, ErrorKind::denied);
  EXPECT_THAT(forbidden.hint, HasSubstr("the group \"docker\""));
}

TEST_F(ContainerPool, APodmanWithDockersNameIsAskedForByItsOwn) {
  use_docker();
  engine_->is_alias = true;
  EXPECT_THAT(refusal_of_opening().hint, HasSubstr("runtime=\"podman\""));
}

// Anybody may have docker's program and no daemon.
TEST_F(ContainerPool, AnEngineThatIsOffFailsNoSweep) {
  use_docker();
  engine_->off = true;
  const std::vector<Swept> swept = gc();
  ASSERT_THAT(swept, SizeIs(1));
  EXPECT_EQ(swept[0].action, SweepAction::skipped);
  EXPECT_EQ(swept[0].resource.kind, "provider");
  EXPECT_EQ(swept[0].resource.id, "container");
  EXPECT_THAT(swept[0].why, HasSubstr("this computer has nothing there"));
  EXPECT_FALSE(container::sweep(fixture_.world, {.is_named = true}, [](const Swept&) {}, soon()));
  engine_->off = false;
  engine_->forbidden = true;
  const std::vector<Swept> forbidden = gc();
  ASSERT_THAT(forbidden, SizeIs(1));
  EXPECT_EQ(forbidden[0].action, SweepAction::skipped);
  EXPECT_THAT(forbidden[0].why, HasSubstr("permission denied"));
}

TEST_F(ContainerPool, AnEngineThatRefusesFailsTheSweepOfItsPools) {
  use_docker();
  const auto [cloud, life] = opened();
  engine_->forbidden = true;
  const Status swept = sweep(fixture_.world, {}, [](const Swept&) {}, soon());
  ASSERT_FALSE(swept);
  EXPECT_EQ(swept.error().kind, ErrorKind::denied);
  engine_->forbidden = false;
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(ContainerPool, ContainersThatEndAtOnceAreAnErrorAtOnce) {
  engine_->on_request = [this](int, bool after) {
    if (after) engine_->containers.clear();
  };
  const Time begun = fixture_.now;
  const Error why = refusal_of_opening();
  EXPECT_THAT(why.message, HasSubstr("did not start (ended at once"));
  EXPECT_THAT(why.hint, HasSubstr("image="));
  EXPECT_LT(fixture_.now - begun, 20s);
}

TEST_F(ContainerPool, AContainerThatIsGoneIsNoMachine) {
  const auto [cloud, life] = opened();
  engine_->kill(life.instances[0].id);
  const auto gone = cloud->get_instance(life.cluster, life.instances[0].id, soon());
  ASSERT_TRUE(gone) << gone.error().message;
  EXPECT_FALSE(*gone);
  const auto kept = cloud->get_instance(life.cluster, life.instances[1].id, soon());
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_TRUE(*kept);
  EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
}

TEST_F(ContainerPool, AContainerThatIsBeingRemovedIsNoError) {
  use_docker();
  const auto [cloud, life] = opened();
  engine_->rm_is_late = true;
  const Time begun = fixture_.now;
  const Status closed = cloud->teardown(life.cluster, soon());
  EXPECT_TRUE(closed) << closed.error().message;
  EXPECT_LT(fixture_.now - begun, 20s);
  EXPECT_EQ(engine_->standing(), 0);
  EXPECT_THAT(open_pools(), IsEmpty());
}

TEST_F(ContainerPool, TheCheckSaysWhatThereIs) {
  engine_->gpus = {"NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"};
  std::vector<Finding> findings;
  EXPECT_TRUE(
      diagnose(fixture_.world, {}, [&](const Finding& one) { findings.push_back(one); }, soon()));
  ASSERT_THAT(findings, SizeIs(3));
  EXPECT_EQ(findings[0].detail, "podman");
  EXPECT_EQ(findings[1].detail, "box: 8 processors, 32.0 GiB");
  EXPECT_EQ(findings[2].detail, "2 of NVIDIA H100 80GB HBM3");
  EXPECT_TRUE(has_credentials(fixture_.world, soon()));
  uninstall("podman");
  EXPECT_FALSE(has_credentials(fixture_.world, soon()));
}

// Of two hosts that ssh reaches: the beginning of a line, and what it prints.
class ContainerHosts : public ContainerPool {
 protected:
  ContainerHosts() {
    fixture_.world.run_with_input = [this](const io::SpawnOptions& options, Duration,
                                           std::string_view) {
      io::CommandResult out;
      for (const auto& [line, printed] : prints_) {
        if (options.command.back().contains(line)) out.out = printed;
      }
      return out;
    };
  }

  std::map<std::string, std::string> prints_{
      {"command -v", "/usr/bin/podman\n"},
      {"podman info", "skyward-host=ubuntu|8|34359738368|amd64|/var/lib/storage\n"},
      {"docker info", "skyward-host=ubuntu|8|34359738368|amd64|/var/lib/docker|4f0c\n"}};
};

TEST_F(ContainerHosts, OfOneNameAreTwoAccounts) {
  const auto account_of = [this](const std::string& runtime, const std::string& host) {
    ContainerAccount account(fixture_.world, {.runtime = runtime, .host = *parse_ssh_target(host)});
    return account.sign_in(soon())->account;
  };
  EXPECT_EQ(account_of("podman", "me@a"), "podman at ubuntu:/var/lib/storage, through me@a");
  EXPECT_EQ(account_of("podman", "me@a"), account_of("", "me@a"));
  EXPECT_NE(account_of("podman", "me@a"), account_of("podman", "me@b"));
  const std::string docker = account_of("docker", "me@a");
  prints_["docker info"] = "skyward-host=ubuntu|8|34359738368|amd64|/var/lib/docker|77d1\n";
  EXPECT_NE(account_of("docker", "me@a"), docker) << "another one at the end of the way";
}

TEST_F(ContainerHosts, WhereLogoutEndsContainersTheCheckSaysSo) {
  fixture_.variables["SKYWARD_CONTAINER_HOST"] = "me@box";
  prints_["loginctl"] = "Linger=no\n";
  std::vector<Finding> findings;
  const auto look = [&] {
    findings.clear();
    return diagnose(
        fixture_.world, {}, [&](const Finding& one) { findings.push_back(one); }, soon());
  };
  EXPECT_TRUE(look());
  ASSERT_THAT(findings, SizeIs(4));
  EXPECT_FALSE(findings.back().good);
  EXPECT_THAT(findings.back().hint, HasSubstr("loginctl enable-linger"));
  prints_["loginctl"] = "Linger=yes\n";
  EXPECT_TRUE(look());
  EXPECT_THAT(findings, SizeIs(3));
}

}  // namespace
}  // namespace skyward::provider::container

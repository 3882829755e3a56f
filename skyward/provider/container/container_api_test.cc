#include "skyward/provider/container/container_api.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "skyward/io/machine.h"
#include "skyward/io/process.h"
#include "skyward/provider/container/wishes.h"
#include "skyward/provider/keeping/keeping.h"
#include "skyward/provider/marks.h"
#include "skyward/provider/world_fixture.h"
#include "skyward/spec/image.h"

namespace skyward::provider::container {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const Access kLocal{.runtime = "podman"};

TEST(ContainerReplies, AreReadAsBothPrintThem) {
  const auto host = read_host("skyward-host=vm|2|25276502016|amd64|/var/lib/containers\n");
  ASSERT_TRUE(host);
  EXPECT_EQ(host->name, "vm");
  EXPECT_EQ(host->cpus, 2);
  EXPECT_EQ(host->memory_mb, 24105);
  EXPECT_EQ(host->architecture, "x86_64");
  EXPECT_THAT(host->id, IsEmpty());
  EXPECT_FALSE(read_host("skyward-host=|0|0|||\n")) << "docker without its daemon";
  EXPECT_EQ(read_host("skyward-host=vm|2|25276502016|amd64|/var/lib/docker|4f0c\n")->id, "4f0c");
  EXPECT_FALSE(read_host("nonsense"));
  EXPECT_FALSE(read_host("vm|2|25276502016|amd64|/var/lib/containers\n"));
  // What a shell's profile says there: a line, and one without an end.
  const auto noisy = read_host("Quota | 83 %\nLoad: 2.5 skyward-host=vm|2|25276502016|amd64|/s\n");
  ASSERT_TRUE(noisy);
  EXPECT_EQ(noisy->name, "vm");
  EXPECT_EQ(noisy->storage, "/s");
  const auto all = read_containers(
      "a|running|0|false|bridge|10.88.0.5 \n"
      "/b|exited|137|true|host| \n"
      "c|created|0|false|lab|10.89.0.2 10.90.0.2 \n"
      "d|running|0|false|slirp4netns|\n"
      "nonsense\n");
  ASSERT_THAT(all, SizeIs(4));
  EXPECT_EQ(all[0], (ContainerStatus{.name = "a", .state = "running", .address = "10.88.0.5"}));
  EXPECT_EQ(all[1].name, "b");
  EXPECT_EQ(all[1].exit_code, 137);
  EXPECT_TRUE(all[1].out_of_memory);
  EXPECT_EQ(all[1].address, "127.0.0.1");
  EXPECT_EQ(all[2].address, "10.89.0.2");
  EXPECT_EQ(all[3].address, "");
}

TEST(ContainerReplies, NameGpusAsNvidiaDoes) {
  EngineHost host{.name = "box", .cpus = 8, .memory_mb = 1024};
  read_gpus("0, NVIDIA A100-SXM4-40GB, 40960\n1, NVIDIA A100-SXM4-40GB, 40960\n", host);
  const std::vector<Offer> offers = offers_of(host);
  ASSERT_THAT(offers, SizeIs(1));
  EXPECT_EQ(offers[0].accelerator, "A100-40");
  EXPECT_EQ(offers[0].accelerator_count, 2);
  EXPECT_EQ(offers[0].accelerator_memory_gb, 40);
  EngineHost none{.name = "box"};
  read_gpus("NVIDIA-SMI has failed because it couldn't communicate with the driver\n", none);
  EXPECT_THAT(none.gpus, IsEmpty());
  EngineHost shared{.name = "box"};
  read_gpus("0, NVIDIA GB10, [N/A]\n", shared);
  EXPECT_THAT(shared.gpus, ElementsAre(HostGpu{.index = "0", .name = "NVIDIA GB10"}));
}

TEST(ContainerReplies, OfAHostWithSeveralModelsAreAnOfferForEach) {
  EngineHost host{.name = "box", .cpus = 8, .memory_mb = 8192};
  read_gpus("0, Tesla T4, 15360\n1, NVIDIA L4, 23034\n2, Tesla T4, 15360\n", host);
  const std::vector<Offer> offers = offers_of(host);
  ASSERT_THAT(offers, SizeIs(2));
  EXPECT_EQ(offers[0].accelerator, "T4");
  EXPECT_EQ(offers[0].accelerator_count, 2);
  EXPECT_EQ(offers[0].accelerator_memory_gb, 15);
  EXPECT_EQ(offers[1].accelerator, "L4");
  EXPECT_EQ(offers[1].accelerator_count, 1);
  PoolSpec spec;
  EXPECT_THAT(fitting_host(host, spec).value(), SizeIs(1));
  spec.accelerator = Accelerator{.name = "L4", .count = 2};
  EXPECT_THAT(fitting_host(host, spec).error().message, HasSubstr("no machine has 2 L4"));
  spec.accelerator = Accelerator{.name = "T4", .count = 2};
  const auto fitting = fitting_host(host, spec);
  ASSERT_TRUE(fitting);
  EXPECT_THAT(request_of(host, {}, spec, fitting->front()).gpus, ElementsAre("0", "2"));
  host.gpus.erase(host.gpus.begin() + 1);
  EXPECT_THAT(request_of(host, {}, spec, fitting->front()).gpus, ElementsAre("all"));
}

TEST(ContainerCommands, HaveTheWordsOfTheRuntime) {
  const Mark mark{.pool = "container-1a2b3c4d", .owner = "3f2a1b7c", .expires_s = 1'700'000'000};
  const ContainerRequest request{.image = "x:1", .gpus = {kAllGpus}, .keeper = "exit 0"};
  EXPECT_THAT(run_words("podman", request, "n", mark),
              ElementsAre("run", "--detach", "--rm", "--pull=never", "--stop-timeout=1",
                          "--security-opt=no-new-privileges", "--name=n",
                          "--label=skyward:managed=true", "--label=skyward:pool=container-1a2b3c4d",
                          "--label=skyward:owner=3f2a1b7c", "--label=skyward:expires=1700000000",
                          "--device=nvidia.com/gpu=all", "--entrypoint=sh", "x:1", "-c", "exit 0"));
  EXPECT_THAT(run_words("docker", request, "n", mark), Contains("--gpus=all"));
  const ContainerRequest some{.image = "x:1", .gpus = {"0", "2"}};
  EXPECT_THAT(run_words("podman", some, "n", mark),
              AllOf(Contains("--device=nvidia.com/gpu=0"), Contains("--device=nvidia.com/gpu=2")));
  EXPECT_THAT(run_words("docker", some, "n", mark), Contains("--gpus=\"device=0,2\""));
  EXPECT_THAT(run_words("docker", {.cpus = 0.004}, "n", mark), Contains("--cpus=0.01"));
}

TEST(ContainerCommands, ThroughSshAreOneLine) {
  Access access{.runtime = "podman"};
  access.host = *parse_ssh_target("me@box");
  EXPECT_EQ(access.words({"podman", "info", "--format={{.Host}}"}).back(),
            "podman info '--format={{.Host}}'");
  const Words way = access.words_to({"podman", "exec", "--interactive", "n", "sh", "-c"});
  EXPECT_THAT(way, Contains("ssh"));
  EXPECT_EQ(way.front(), "sh") << "it quotes the line that is added";
  EXPECT_EQ(way[4], "podman exec --interactive n sh -c");
  EXPECT_EQ(kLocal.words({"podman", "info"}), (Words{"podman", "info"}));
  EXPECT_EQ(access.text(), "podman at me@box");
  LedgerPool pool;
  pool.settings = this_computer(WorldFixture().world);
  pool.settings.merge(way_back_of(access));
  EXPECT_EQ(access_of(pool), access);
  pool.settings = this_computer(WorldFixture().world);
  pool.settings.merge(way_back_of(kLocal));
  EXPECT_EQ(access_of(pool), kLocal);
}

TEST(ContainerRefusals, AreFoundBeneathLogsAndAdvice) {
  io::CommandResult ran;
  ran.status.code = 125;
  ran.err =
      "time=\"2026-11-24T18:55:43Z\" level=warning msg=\"Failed, retrying in 1s\"\n"
      "Error: unable to find network with name or ID x: network not found\n";
  EXPECT_EQ(refusal_of("podman run", ran, kLocal).message,
            "unable to find network with name or ID x: network not found");
  ran.err =
      "docker: Error response from daemon: could not select device driver \"\" with capabilities: "
      "[[gpu]]\n\nRun 'docker run --help' for more information\n";
  const ApiError gpus = refusal_of("docker run", ran, {.runtime = "docker"});
  EXPECT_EQ(gpus.message, "could not select device driver \"\" with capabilities: [[gpu]]");
  EXPECT_THAT(gpus.hint, HasSubstr("nvidia-ctk runtime configure"));
  EXPECT_TRUE(is_certain(gpus));
  ran.err = "";
  const ApiError silent = refusal_of("podman run", ran, kLocal);
  EXPECT_THAT(silent.message, HasSubstr("'podman run' ended with"));
  EXPECT_FALSE(is_certain(silent));
}

TEST(ContainerRefusals, OfAnEngineThatIsBrokenAreNotTheUsersMistake) {
  Result<io::CommandResult> ran = io::CommandResult{};
  ran->status.code = 125;
  ran->err = "Error: database is locked\n";
  const Runner run = [&](const Words&, std::string_view, Duration) { return ran; };
  Api api(kLocal, run, run, {.now = [] { return Time{}; }, .pause = [](Duration) {}});
  const auto locked = api.host(Time{} + 10s);
  ASSERT_FALSE(locked);
  EXPECT_EQ(locked.error().kind(), ErrorKind::unavailable);
  EXPECT_EQ(locked.error().message, "database is locked");
  EXPECT_THAT(locked.error().hint, HasSubstr("'podman' by hand"));

  ran = fail(ErrorKind::exhausted, "'podman' wrote more than 64 MiB and was stopped");
  const auto flooding = api.host(Time{} + 10s);
  ASSERT_FALSE(flooding);
  EXPECT_THAT(flooding.error().message, HasSubstr("wrote more than 64 MiB"));
}

TEST(ContainerNetworks, ThatPeopleMadeAreLookedFor) {
  for (const char* mode :
       {"", "host", "none", "bridge", "slirp4netns", "pasta:-t,1", "ns:/run/x", "container:web"}) {
    EXPECT_FALSE(is_named_network(mode)) << mode;
  }
  EXPECT_TRUE(is_named_network("lab"));
  EXPECT_TRUE(is_named_network("podman"));
}

// ---- The keeper, with another directory

// How a shell ends beside a keeper, whose process is $keeper and whose directory is $d.
std::string beside_keeper(const std::string& script, Duration life) {
  const std::string directory =
      std::filesystem::temp_directory_path().string() + "/skyward-container-" + io::random_hex(8);
  std::string keeper = keeper_script("n", {.limit = 15min, .look_every = 50ms}, life);
  keeper.replace(keeper.find(keeper_directory("n")), keeper_directory("n").size(), directory);
  const std::string line = fmt::format(
      "d={0}\nsh -c {1} &\nkeeper=$!\nwhile [ ! -e $d/claimed ]; do :; done\n{2}\n"
      "wait $keeper; echo over $?; [ ! -e $d ] || echo left behind",
      directory, shell_quote(keeper), script);
  const auto ran = io::run_command({.command = {"sh", "-c", line}}, 20s);
  EXPECT_TRUE(ran) << ran.error().message;
  return ran ? ran->out + ran->err : "";
}

TEST(ContainerKeeper, EndsItsContainer) {
  EXPECT_EQ(beside_keeper("touch -d '1 hour ago' $d/claimed", 60s), "over 0\n") << "no agent";
  EXPECT_EQ(beside_keeper("touch $d/over", 60s), "over 0\n") << "the agent says so";
  EXPECT_EQ(beside_keeper("kill -TERM $keeper", 60s), "over 0\n") << "the engine does";
  EXPECT_EQ(beside_keeper("", 1s), "over 0\n") << "its time is over";
}

}  // namespace
}  // namespace skyward::provider::container

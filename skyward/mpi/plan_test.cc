#include "skyward/mpi/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>

namespace skyward::mpi {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kSecret = "secret";

InstanceInfo place(int rank, const std::vector<std::string>& addresses) {
  InstanceInfo info{.node = rank, .total_nodes = static_cast<int>(addresses.size())};
  info.head_addr = addresses[0];
  for (const std::string& address : addresses) {
    info.peers.push_back({static_cast<int>(info.peers.size()), address});
  }
  return info;
}

std::string line(int number) {
  return fmt::format(R"(orted --daemonize -mca ess_base_vpid {} --mca plm_rsh_agent "/tmp/a")"
                     R"( -mca orte_hnp_uri "1.0;tcp://10.0.0.1:7")",
                     number);
}

DaemonLines signed_lines(bool is_host = false) {
  return *sign(is_host ? std::vector{line(1)} : std::vector{line(1), line(2), line(3)}, "openmpi",
               is_host, kSecret);
}

TEST(DaemonLines, GiveEachWorkerItsOwn) {
  for (int rank = 0; rank < 3; ++rank) {
    const auto words = daemon_command(signed_lines(), "openmpi", rank, kSecret);
    ASSERT_TRUE(words);
    EXPECT_EQ(*words, (std::vector<std::string>{"orted", "-mca", "ess_base_vpid",
                                                std::to_string(rank + 1), "--mca", "plm_rsh_agent",
                                                "/bin/sh",  // not a file of worker 0
                                                "-mca", "orte_hnp_uri", "1.0;tcp://10.0.0.1:7"}));
  }
}

TEST(DaemonLines, OfAnEarlierCallAreNotRun) {
  const auto key = [](std::vector<std::string> words) { return key_of_call(kSecret, words); };
  const DaemonLines earlier = *sign({line(1)}, "openmpi", false, key({"a", "b"}));
  EXPECT_TRUE(daemon_command(earlier, "openmpi", 0, key({"a", "b"})));
  EXPECT_FALSE(daemon_command(earlier, "openmpi", 0, key({"a", "c"})));
  EXPECT_NE(key({"a", "b"}), key_of_call("other", {"a", "b"}));
}

TEST(DaemonLines, OfSomebodyElseAreNotRun) {
  const auto refused = [](const DaemonLines& lines, const std::string& secret) {
    const auto words = daemon_command(lines, "openmpi", 0, secret);
    return !words && words.error().message.contains("does not come from worker 0");
  };
  EXPECT_TRUE(refused(signed_lines(), "other"));
  EXPECT_TRUE(refused({}, kSecret));
  DaemonLines changed = signed_lines();
  changed.pattern += " -mca plm_rsh_agent evil";
  EXPECT_TRUE(refused(changed, kSecret));
  changed = signed_lines();
  std::swap(changed.numbers[0], changed.numbers[1]);
  EXPECT_TRUE(refused(changed, kSecret));
  changed = signed_lines();
  changed.mac = "00";
  EXPECT_TRUE(refused(changed, kSecret));
  EXPECT_FALSE(daemon_command(signed_lines(), "openmpi", 3, kSecret)) << "there is no such worker";
}

TEST(DaemonLines, StartNothingButADaemonOfMpi) {
  const auto lines =
      sign({"sh -c 'ess_base_vpid 1'", "sh -c 'ess_base_vpid 2'"}, "openmpi", false, kSecret);
  ASSERT_TRUE(lines);
  const auto words = daemon_command(*lines, "openmpi", 1, kSecret);
  ASSERT_FALSE(words);
  EXPECT_THAT(words.error().message, HasSubstr("instead of orted"));
}

TEST(DaemonLines, MayDifferInTheNumberOnly) {
  const auto message = [](const std::vector<std::string>& lines) {
    const auto made = sign(lines, "openmpi", false, kSecret);
    return made ? "" : made.error().message;
  };
  EXPECT_THAT(message({line(1), line(2) + " x"}), HasSubstr("different things"));
  EXPECT_THAT(message({"reboot"}), HasSubstr("something unknown"));
  EXPECT_THAT(message({"orted ess_base_vpid x"}), HasSubstr("something unknown"));
}

TEST(DaemonLines, LeaveTheProfileOut) {
  const std::string before = "( test ! -r ./.profile || . ./.profile;  ";
  const auto lines =
      sign({before + line(1) + " )", before + line(2) + " )"}, "openmpi", false, kSecret);
  ASSERT_TRUE(lines);
  EXPECT_EQ(*daemon_command(*lines, "openmpi", 1, kSecret),
            *daemon_command(signed_lines(), "openmpi", 1, kSecret));
  for (const std::string& other : {"( test; " + line(1) + " )", before + line(1)}) {
    const auto refused = sign({other}, "openmpi", false, kSecret);
    EXPECT_FALSE(refused && daemon_command(*refused, "openmpi", 0, kSecret)) << other;
  }
}

TEST(DaemonLines, AreNotNeededOnTheHostOfTheLauncher) {
  const auto host = daemon_command(signed_lines(true), "openmpi", 0, kSecret);
  ASSERT_TRUE(host);
  EXPECT_TRUE(host->empty());
  const auto other = daemon_command(signed_lines(true), "openmpi", 1, kSecret);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->front(), "orted");
}

TEST(DaemonLines, OfMpichHaveAnotherNumber) {
  const auto lines = sign(
      {"\"/usr/bin/hydra_pmi_proxy\" --proxy-id 0", "\"/usr/bin/hydra_pmi_proxy\" --proxy-id 12"},
      "mpich", false, kSecret);
  ASSERT_TRUE(lines);
  EXPECT_THAT(*daemon_command(*lines, "mpich", 1, kSecret),
              ElementsAre("hydra_pmi_proxy", "--proxy-id", "12"));
}

TEST(Network, IsTheSmallestThatHasAllNodes) {
  EXPECT_EQ(network_of(place(0, {"10.77.0.10", "10.77.0.11", "10.77.0.12"})), "10.77.0.8/29");
  EXPECT_EQ(network_of(place(0, {"10.0.0.1", "10.128.0.1"})), "10.0.0.0/8");
  EXPECT_EQ(network_of(place(0, {"10.0.0.1"})), "10.0.0.1/32");
  EXPECT_EQ(network_of(place(0, {"fd00::1", "fd00::2"})), "fd00::/126");
  EXPECT_EQ(network_of(place(0, {"node1", "node2"})), "");
  EXPECT_EQ(network_of(place(0, {"10.0.0.1", "fd00::1"})), "");
}

TEST(Hosts, OfOneMachineHaveNamesOfTheirOwn) {
  EXPECT_THAT(hosts_of(place(0, {"127.0.0.1", "127.0.0.1"})),
              ElementsAre("127.2.0.1", "127.2.0.2"));
  EXPECT_THAT(hosts_of(place(0, {"10.0.0.1", "10.0.0.2"})), ElementsAre("10.0.0.1", "10.0.0.2"));
  EXPECT_EQ(hosts_file({"a", "b"}, {.kind = "openmpi"}, 2), "a slots=2\nb slots=2\n");
  EXPECT_EQ(hosts_file({"a", "b"}, {.kind = "mpich"}, 2), "a:2\nb:2\n");
}

TEST(Workers, ThatMpiCannotTellApartAreRefused) {
  EXPECT_TRUE(require_one_worker_per_host(place(0, {"a", "a", "a"}), "f"));
  EXPECT_TRUE(require_one_worker_per_host(place(0, {"a", "b"}), "f"));
  const Status shared = require_one_worker_per_host(place(0, {"a", "a", "b"}), "f");
  ASSERT_FALSE(shared);
  EXPECT_EQ(shared.error().kind, ErrorKind::invalid);
  EXPECT_THAT(shared.error().message, HasSubstr("f: 3 nodes share 2 addresses"));
  InstanceInfo two = place(0, {"a"});
  two.workers_per_node = 2;
  const Status crowded = require_one_worker_per_host(two, "f");
  ASSERT_FALSE(crowded);
  EXPECT_THAT(crowded.error().message, HasSubstr("2 workers"));
}

TEST(Workers, WithDifferentMpisAreRefused) {
  EXPECT_TRUE(require_one_mpi({"mpich 4.0", "mpich 4.0"}, "f"));
  const Status mixed = require_one_mpi({"mpich 4.0", "mpich 4.1"}, "f");
  ASSERT_FALSE(mixed);
  EXPECT_THAT(mixed.error().message,
              HasSubstr("worker 0 has mpich 4.0, but worker 1 has mpich 4.1"));
}

TEST(Version, IsThatOfTheWantedMpi) {
  const std::string openmpi =
      "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/\n";
  const std::string mpich =
      "HYDRA build details:\n    Version:                   4.0.2\n    CC: gcc\n";
  EXPECT_EQ(version_in(openmpi, "openmpi"), "4.1.4");
  EXPECT_EQ(version_in(mpich, "mpich"), "4.0.2");
  EXPECT_EQ(version_in(openmpi, "mpich"), "");
  EXPECT_EQ(version_in(mpich, "openmpi"), "");
  EXPECT_EQ(version_in("Version: 1", "mpich"), "");
}

TEST(Launch, TellsMpirunWhatRunsInPlaceOfSsh) {
  const MpirunPlan plan =
      plan_launch(place(0, {"10.0.0.1", "10.0.0.2"}), {"openmpi", "/usr/bin/mpirun", "4.1.4"},
                  "/tmp/f", 4, "line", true);
  EXPECT_EQ(plan.command.front(), "/usr/bin/mpirun");
  EXPECT_THAT(plan.command, testing::Contains("--allow-run-as-root"));
  EXPECT_EQ(plan.command.back(), "line");
  EXPECT_EQ(plan.environment.at("OMPI_MCA_plm_rsh_agent"), "/tmp/f/ssh");
  EXPECT_EQ(plan.environment.at("OMPI_MCA_ras"), "^slurm,tm,lsf,gridengine");
  EXPECT_EQ(plan.environment.at("OMPI_MCA_btl_tcp_if_include"), "10.0.0.0/30");
  EXPECT_EQ(plan.environment.at("OMPI_MCA_btl"), "self,vader,tcp");
  const MpirunPlan local =
      plan_launch(place(0, {"127.0.0.1", "127.0.0.1"}), {"openmpi", "/usr/bin/mpirun", "4.1.4"},
                  "/tmp/f", 4, "line", false);
  EXPECT_THAT(local.command, testing::Not(testing::Contains("--allow-run-as-root")));
  EXPECT_EQ(local.environment.at("OMPI_MCA_btl_tcp_if_include"), "lo");
  EXPECT_EQ(local.environment.at("OMPI_MCA_btl"), "self,tcp");
  const MpirunPlan mpich =
      plan_launch(place(0, {"10.0.0.1", "10.0.0.2"}), {"mpich", "/usr/bin/mpiexec", "4.0.2"},
                  "/tmp/f", 4, "line", false);
  EXPECT_THAT(mpich.command, testing::Contains("/tmp/f/ssh"));
  EXPECT_TRUE(mpich.environment.empty());
}

TEST(NoLauncher, SaysWhatToInstall) {
  EXPECT_THAT(no_launcher("mpich", false).hint, HasSubstr("apt=['mpich']"));
  EXPECT_THAT(no_launcher("", false).hint, HasSubstr("apt=['openmpi-bin']"));
  EXPECT_THAT(no_launcher("", false).hint, HasSubstr("env={'PATH': …}"));
  EXPECT_THAT(no_launcher("", false).message, HasSubstr("orted or hydra_pmi_proxy"));
  EXPECT_THAT(no_launcher("", true).message, HasSubstr("Open MPI 5 is not supported"));
  EXPECT_THAT(no_launcher("openmpi", true).message, HasSubstr("Open MPI 5 is not supported"));
  EXPECT_THAT(no_launcher("mpich", true).message, HasSubstr("mpich is not installed"));
}

TEST(ShellWords, AreThoseOfAShell) {
  const auto words = [](std::string_view text) { return shell_words(text).value(); };
  EXPECT_THAT(words(R"(a  "b c" 'd "e' f\ g "h\"i" j"k"'l')"),
              ElementsAre("a", "b c", "d \"e", "f g", "h\"i", "jkl"));
  EXPECT_THAT(words(R"('' "\n")"), ElementsAre("", "\\n"));
  EXPECT_THAT(words(" "), ElementsAre());
  EXPECT_FALSE(shell_words("a 'b"));
}

}  // namespace
}  // namespace skyward::mpi

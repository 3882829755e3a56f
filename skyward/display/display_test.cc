#include "skyward/display/display.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "skyward/display/display_text.h"
#include "skyward/display/terminal_view.h"

namespace skyward {
namespace {

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kNoon = 1'700'000'000LL / 86400 * 86400 * kSecond + 12LL * 3600 * kSecond;

InstanceProvisioned provisioned(int node, const std::string& id) {
  return {.instance_id = id,
          .node = node,
          .provider = "local",
          .instance_type = "local",
          .price_on_demand = 0.0};
}

LogLine printed(int node, const std::string& line, const std::string& stream = "stdout") {
  return {.node = node, .line = line, .stream = stream};
}

class Log : public testing::Test {
 protected:
  std::string render(const Event& event, std::int64_t after_seconds = 0) {
    return display_.render(event, kNoon + after_seconds * kSecond);
  }
  LogDisplay display_{DisplayOptions{}};
};

TEST_F(Log, WhatIsShownLateHasItsOwnTime) {
  LogLine line = printed(1, "hello");
  line.timestamp = static_cast<double>(kNoon / kSecond);
  EXPECT_EQ(render(line, 90), "12:00:00 node 1           hello\n");
  EXPECT_EQ(render(Notice{.message = "now"}, 90), "12:01:30 pool     INFO    now\n");
}

TEST_F(Log, ALocalPoolFromOpenToClose) {
  std::string text;
  text += render(InfraCreating{"1a2b3c4d"});
  text += render(InfraCreated{"localhost"});
  text += render(InstanceLaunching{2, "local", "local"});
  text += render(provisioned(0, "local-1a2b3c4d-0"));
  text += render(provisioned(1, "local-1a2b3c4d-1"));
  text += render(ProvisioningCompleted{0, 2, "local", "localhost", {}});
  text += render(BootstrapStarting{"local-1a2b3c4d-0"}, 1);
  text += render(BootstrapProgress{"local-1a2b3c4d-0", "deps"}, 1);
  text += render(BootstrapStarting{"local-1a2b3c4d-1"}, 2);
  text += render(BootstrapCompleted{"local-1a2b3c4d-1", 0.31, 0, 0.01, 0.12}, 2);
  text += render(BootstrapCompleted{"local-1a2b3c4d-0", 0.31, 0.004, 2.5, 0.12}, 4);
  text += render(ClusterSetupCompleted{2, 1.25}, 1);
  text += render(PoolStarted{}, 1);
  text += render(TaskPoolInitCompleted{2, 4, 0.1}, 1);
  text += render(printed(1, "epoch 1  loss 0.25\r\n"), 2);
  text += render(printed(0, "careful", "stderr"), 2);
  text += render(printed(0, "  \n"), 2);
  text += render(PoolStopping{}, 61);
  text += render(InstanceStopping{"local-1a2b3c4d-1"}, 61);
  text += render(CostFinal{.total_seconds = 61, .ondemand_count = 2}, 61);
  text += render(PoolStopped{"p",
                             1.25,
                             61,
                             {{0, "local-1a2b3c4d-0", 12, 0, 10.2, 59.75},
                              {1, "local-1a2b3c4d-1", 11, 1, 100, 59.5}}},
                 61);
  EXPECT_EQ(text,
            "12:00:00 pool     INFO    opening 1a2b3c4d\n"
            "12:00:01 node 0   INFO    mounting volumes, unpacking modules\n"
            "12:00:02 node 1   INFO    ready: connect 0.31 s, environment 0.01 s, workers 0.12 s\n"
            "12:00:04 node 0   INFO    ready: connect 0.31 s, agent 4 ms, environment 2.5 s, "
            "workers 0.12 s\n"
            "12:00:01 pool     INFO    2 nodes ready in 1.2 s\n"
            "12:00:02 node 1           epoch 1  loss 0.25\n"
            "12:00:02 node 0   stderr  careful\n"
            "12:01:01 pool     INFO    closed after 1m01s, set-up 1.2 s\n"
            "   node  instance           tasks  failed      busy        up\n"
            "      0  local-1a2b3c4d-0      12       0    10.2 s    59.8 s\n"
            "      1  local-1a2b3c4d-1      11       1     1m40s    59.5 s\n"
            "  total                        23       1     1m50s\n");
}

TEST_F(Log, WhatEndsMachinesWhileTheComputerIsOffIsOneLine) {
  const std::string text = render(InfraCreated{.region = "FIN-01", .unattended = "they cost on"});
  EXPECT_EQ(text,
            "12:00:00 pool     INFO    infrastructure ready (FIN-01)\n"
            "12:00:00 pool     INFO    they cost on\n");
}

TEST_F(Log, ALocalPoolThatInstallsNothingIsTwoLines) {
  std::string text = render(InfraCreating{"1a2b3c4d"});
  text += render(InfraCreated{"localhost"});
  text += render(InstanceLaunching{1, "local", "local"});
  text += render(provisioned(0, "local-1a2b3c4d-0"));
  text += render(ProvisioningCompleted{0, 1, "local", "localhost", {}});
  text += render(BootstrapStarting{"local-1a2b3c4d-0"});
  text += render(BootstrapProgress{"local-1a2b3c4d-0", "server"});
  text += render(BootstrapCompleted{"local-1a2b3c4d-0", 0.31, 0, 0, 0.12});
  text += render(ClusterSetupCompleted{1, 0.43});
  EXPECT_EQ(text,
            "12:00:00 pool     INFO    opening 1a2b3c4d\n"
            "12:00:00 pool     INFO    1 node ready in 0.43 s\n");
}

TEST_F(Log, WhatIsUnderWayIsToldAndNotWhatIsDone) {
  const auto after = [&](const Event& event) {
    LogDisplay display{DisplayOptions{}};
    display.render(provisioned(0, "i-0"), kNoon);
    display.render(event, kNoon);
    return display.tick(kNoon + kSecond);
  };
  const std::string begin = "12:00:00 node 0   INFO    ";
  EXPECT_EQ(after(ProvisioningCompleted{0, 1, "aws", "north", {"i-0"}}), begin + "connecting\n");
  EXPECT_EQ(after(BootstrapStarting{"i-0"}), begin + "setting up Python\n");
  EXPECT_EQ(after(BootstrapProgress{"i-0", "uv"}), begin + "installing system packages\n");
  EXPECT_EQ(after(BootstrapProgress{"i-0", "apt"}), begin + "installing Python packages\n");
  EXPECT_EQ(after(BootstrapProgress{"i-0", "volumes"}), begin + "unpacking modules\n");
  EXPECT_EQ(after(BootstrapProgress{"i-0", "skyward"}), begin + "starting workers\n");
  EXPECT_EQ(after(BootstrapProgress{"i-0", "server"}), "");
}

TEST_F(Log, LinesOfSeveralPoolsAreToldApart) {
  display_.set_label("1a2b3c4d");
  EXPECT_EQ(render(printed(1, "hello\nyou")),
            "12:00:00 1a2b3c4d node 1           hello\n"
            "                                   you\n");
  EXPECT_EQ(render(Notice{.message = "as wide"}), "12:00:00 1a2b3c4d pool     INFO    as wide\n");
  SpinnerDisplay spinner(DisplayOptions{});
  spinner.set_label("1a2b3c4d");
  EXPECT_EQ(spinner.render(printed(1, "hello"), kNoon),
            "[1a2b3c4d node 1] hello\n\r\x1b[K⠋ 1a2b3c4d starting · 0:00");
}

TEST_F(Log, WhatEndedThePoolIsTold) {
  display_.set_ended_by("KeyboardInterrupt");
  EXPECT_EQ(render(PoolStopped{"p", 1, 2, {}}),
            "12:00:00 pool     INFO    closed after 2.0 s, set-up 1.0 s, ended by "
            "KeyboardInterrupt\n");
  SpinnerDisplay spinner(DisplayOptions{});
  spinner.render(PoolStarted{}, kNoon);
  spinner.set_ended_by("KeyboardInterrupt");
  EXPECT_EQ(spinner.render(PoolStopped{"p", 1, 2, {{0, "a", 3, 0, 1, 1}}}, kNoon),
            "\r\x1b[K✗ ended by KeyboardInterrupt: 3 tasks in 2.0 s · 1 node · set-up 1.0 s\n");
}

TEST_F(Log, AStepIsToldOnceItHasTakenHalfASecond) {
  const auto at = [](double seconds) { return kNoon + static_cast<std::int64_t>(seconds * 1e6); };
  render(provisioned(0, "i-0"));
  EXPECT_FALSE(display_.is_waiting());
  EXPECT_EQ(display_.render(BootstrapProgress{"i-0", "apt"}, at(1)), "");
  EXPECT_TRUE(display_.is_waiting());
  EXPECT_EQ(display_.tick(at(1.4)), "");
  EXPECT_EQ(display_.tick(at(1.5)), "12:00:01 node 0   INFO    installing Python packages\n");
  EXPECT_FALSE(display_.is_waiting());
  EXPECT_EQ(display_.tick(at(9)), "");
  EXPECT_EQ(display_.render(BootstrapProgress{"i-0", "skyward"}, at(10)), "");
  EXPECT_EQ(display_.render(InstancePreempted{"i-0", 0, "capacity"}, at(10.1)),
            "12:00:10 node 0   WARNING i-0 was preempted: capacity\n");
  EXPECT_FALSE(display_.is_waiting());
}

TEST_F(Log, ACloudPoolThatCosts) {
  std::string text;
  text += render(RegionAutoSelected{"nyc1", "nyc3", "gpu-h100x1", "digitalocean"});
  text += render(InstanceProvisioned{.instance_id = "i-0123456789abcdef0",
                                     .node = 0,
                                     .spot = true,
                                     .provider = "aws",
                                     .instance_type = "g5.xlarge",
                                     .price_on_demand = 1.006,
                                     .price_spot = 0.402});
  text += render(InstanceProvisioned{.instance_id = "i-0123456789abcdef1",
                                     .node = 1,
                                     .provider = "aws",
                                     .instance_type = "g5.xlarge",
                                     .price_on_demand = 1.206});
  text += render(ProvisioningCompleted{1, 1, "aws", "us-east-1", {}});
  text += render(CostUpdate{65, 0.0231, 1.608, 1, 1}, 65);
  text += render(InstancePreempted{"i-0123456789abcdef0", 0, "capacity", 120}, 66);
  text += render(InstanceReplaced{"i-0123456789abcdef0", "i-2", 0, 1}, 70);
  text += render(ErrorEvent{"first\nsecond\n", "i-0123456789abcdef1"}, 71);
  text += render(ErrorEvent{"of the pool", std::nullopt}, 71);
  text += render(Notice{"node 1: the connection broke", "warning", "i-0123456789abcdef1"}, 71);
  text += render(Notice{.message = "closing: waiting for node 1"}, 72);
  text += render(CostUpdate{85, 0.0331, 1.608, 1, 1}, 85);  // too soon after the last
  text += render(BudgetWarning{8.5, 10, 1.608, 1200}, 86);
  text += render(CostFinal{.total_cost = 0.04,
                           .total_seconds = 3700,
                           .hourly_rate = 1.608,
                           .spot_count = 1,
                           .ondemand_count = 1,
                           .savings_vs_ondemand = 0.02,
                           .setup_cost = 0.01,
                           .useful_cost = 0.02001,
                           .idle_cost = 0.00679,
                           .lost_cost = 0.0032},
                 72);
  text += render(PoolStopped{"p",
                             30,
                             3700,
                             {{0, "i-0123456789abcdef0", 1, 0, 1, 60, 0.01005},
                              {1, "i-0123456789abcdef1", 2, 0, 1, 60, 0.02995}}},
                 72);
  EXPECT_EQ(
      text,
      "12:00:00 pool     WARNING gpu-h100x1 is not available in nyc1, using nyc3\n"
      "12:00:00 node 0   INFO    i-0123456789abcdef0, g5.xlarge on aws [spot, $0.402/hr]\n"
      "12:00:00 node 1   INFO    i-0123456789abcdef1, g5.xlarge on aws [on-demand, $1.206/hr]\n"
      "12:00:00 pool     INFO    2 instances provisioned (1 spot + 1 on-demand) on aws, us-east-1\n"
      "12:01:05 pool     INFO    $0.0231 (1m05s) | $1.608/hr | 1 spot + 1 on-demand\n"
      "12:01:06 node 0   WARNING i-0123456789abcdef0 will be preempted in 120 s: capacity\n"
      "12:01:10 node 0   WARNING i-0123456789abcdef0 replaced by i-2 (attempt 1)\n"
      "12:01:11 node 1   ERROR   first\n"
      "                          second\n"
      "12:01:11 pool     ERROR   of the pool\n"
      "12:01:11 node 1   WARNING node 1: the connection broke\n"
      "12:01:12 pool     INFO    closing: waiting for node 1\n"
      "12:01:26 pool     WARNING $8.50 of $10.00 spent; at $1.608/hr, the pool stops starting "
      "tasks in 20m00s\n"
      "12:01:12 pool     INFO    final $0.0400 (1h01m) | 1 spot + 1 on-demand | saved $0.0200\n"
      "12:01:12 pool     INFO    closed after 1h01m, set-up 30.0 s\n"
      "   node  instance              tasks  failed      busy        up      cost\n"
      "      0  i-0123456789abcdef0       1       0     1.0 s     1m00s   $0.0101\n"
      "      1  i-0123456789abcdef1       2       0     1.0 s     1m00s   $0.0299\n"
      "  total                            3       0     2.0 s             $0.0400\n"
      "  useful    $0.0200   50%\n"
      "  set-up    $0.0100   25%\n"
      "    idle    $0.0068   17%\n"
      "    lost    $0.0032    8%\n");
}

TEST_F(Log, MachinesThatAreThereAreConnectedToAndNotLaunched) {
  std::string text = render(InfraCreated{"ssh"});
  text += render(InstanceLaunching{1, "ssh", "ssh"});
  text += render(ProvisioningCompleted{0, 1, "ssh", "ssh", {}});
  text += render(InfraCreated{"commands"});
  text += render(InstanceLaunching{2, "command", "command"});
  text += render(ProvisioningCompleted{0, 2, "command", "commands", {}});
  EXPECT_EQ(text,
            "12:00:00 pool     INFO    connecting to 1 machine\n"
            "12:00:00 pool     INFO    connecting to 2 machines\n");
}

TEST_F(Log, TheFirstCallIsTheFunctionsTimeAndOurs) {
  PoolStopped stopped{.pool = "p", .setup_seconds = 1, .total_seconds = 8};
  stopped.first_call_seconds = 6;
  stopped.first_call_run_seconds = 5.5;
  EXPECT_EQ(
      render(stopped),
      "12:00:00 pool     INFO    closed after 8.0 s, set-up 1.0 s, first call 6.0 s (5.5 s in "
      "the function)\n");
}

TEST_F(Log, MetricsAreALineAMinuteHalf) {
  Metrics metrics{.node = 3, .cpu_percent = 93.4, .memory_used_mb = 1536, .memory_total_mb = 8192};
  EXPECT_EQ(render(metrics, 0), "");
  EXPECT_EQ(render(metrics, 29), "");
  EXPECT_EQ(render(metrics, 30), "12:00:30 node 3   INFO    cpu 93%, mem 1.5/8.0 GiB\n");
  EXPECT_EQ(render(metrics, 31), "");
  metrics.node = 4;
  EXPECT_EQ(render(metrics, 31), "");
  metrics.node = 3;
  metrics.gpu_utilization = 80;
  metrics.gpu_memory_used_mb = 10240;
  metrics.gpu_memory_total_mb = 81920;
  EXPECT_EQ(render(metrics, 60),
            "12:01:00 node 3   INFO    cpu 93%, mem 1.5/8.0 GiB, gpu 80% 10.0/80.0 GiB\n");
}

TEST_F(Log, IsNotSilentAfterTheClockWasSetBack) {
  const Metrics metrics{.node = 3, .cpu_percent = 93.4};
  EXPECT_EQ(render(metrics, 3600), "");
  EXPECT_NE(render(metrics, 60), "");
  EXPECT_EQ(render(metrics, 89), "");
  EXPECT_NE(render(metrics, 90), "");
}

TEST_F(Log, FreePoolsSayNothingOfMoney) {
  EXPECT_EQ(render(CostUpdate{10, 0, 0, 0, 1}), "");
  EXPECT_EQ(render(CostFinal{.total_seconds = 10, .ondemand_count = 1}), "");
}

TEST_F(Log, WhatTasksPrintIsNeverCut) {
  const std::string line(500, 'x');
  EXPECT_EQ(render(printed(12, "  " + line)), "12:00:00 node 12            " + line + "\n");
}

TEST_F(Log, ANarrowTerminalKeepsRoomForWhatIsSaid) {
  LogDisplay narrow(DisplayOptions{.width = 40});
  std::string text = narrow.render(InfraCreating{"1a2b3c4d"}, kNoon);
  text += narrow.render(printed(0, "step 1"), kNoon);
  text += narrow.render(printed(0, "careful", "stderr"), kNoon);
  text += narrow.render(ErrorEvent{"first\nsecond", std::nullopt}, kNoon);
  EXPECT_EQ(text,
            "pool   opening 1a2b3c4d\n"
            "node 0 step 1\n"
            "node 0 stderr careful\n"
            "pool   ERROR first\n"
            "       second\n");
  LogDisplay file(DisplayOptions{.width = 40, .dated = true});
  EXPECT_TRUE(file.render(InfraCreating{"p"}, kNoon).contains("Z pool     INFO    opening p"));
}

TEST_F(Log, SignsOfOurOwnAreAsciiWhereTheLocaleIs) {
  LogDisplay ascii(DisplayOptions{.ascii = true});
  EXPECT_EQ(ascii.render(InstanceLaunching{2, "t3.small", "aws"}, kNoon),
            "12:00:00 pool     INFO    launching 2 x t3.small on aws\n");
  EXPECT_EQ(ascii.render(printed(0, "2 × 3"), kNoon), "12:00:00 node 0           2 × 3\n");
  SpinnerDisplay spinner(DisplayOptions{.ascii = true});
  EXPECT_EQ(spinner.render(InstanceLaunching{2, "t3.small", "aws"}, kNoon),
            "\r\x1b[K- launching 2 x t3.small - 0/2 nodes - 0:00");
  EXPECT_TRUE(spinner.tick(kNoon + 80'000).starts_with("\r\x1b[K\\ launching"));
  EXPECT_TRUE(spinner.render(Notice{.message = "hm"}, kNoon).starts_with("\r\x1b[K- hm\n"));
  EXPECT_EQ(spinner.render(PoolStopped{"p", 1, 2, {{0, "a", 3, 0, 1, 1}}}, kNoon),
            "\r\x1b[Kok 3 tasks in 2.0 s - 1 node - set-up 1.0 s\n");
}

TEST_F(Log, TimeIsLocal) {
  LogDisplay east(DisplayOptions{.utc_offset_seconds = 5 * 3600 + 1800});
  EXPECT_EQ(east.render(printed(0, "a"), kNoon), "17:30:00 node 0           a\n");
  east.set_utc_offset(6 * 3600 + 1800);  // summer time began
  EXPECT_EQ(east.render(printed(0, "a"), kNoon), "18:30:00 node 0           a\n");
  LogDisplay west(DisplayOptions{.utc_offset_seconds = -13 * 3600});
  EXPECT_EQ(west.render(printed(0, "a"), kNoon), "23:00:00 node 0           a\n");
}

TEST_F(Log, ColorNeverReachesWhatTasksPrint) {
  LogDisplay colored(DisplayOptions{.color = true});
  EXPECT_EQ(colored.render(printed(0, "a b", "stderr"), kNoon),
            "\x1b[2m12:00:00\x1b[0m \x1b[36mnode 0  \x1b[0m \x1b[33mstderr \x1b[0m a b\n");
  EXPECT_EQ(colored.render(ErrorEvent{"bad", std::nullopt}, kNoon),
            "\x1b[2m12:00:00\x1b[0m pool     \x1b[31mERROR  \x1b[0m bad\n");
}

TEST(Receipt, FitsTheTerminal) {
  PoolStopped stopped{
      .nodes = {{0, "a-very-long-instance-name-of-some-cloud-0", 1, 0, 1, 1, 12.3457}}};
  EXPECT_EQ(receipt_text(stopped, {}, 60),
            "   node  instance          tasks  failed      busy        up\n"
            "      0  a-very-long-in…       1       0     1.0 s     1.0 s\n");
  for (const int width : {80, 100}) {
    const std::string text =
        receipt_text(stopped, {.total_cost = 12.3457, .useful_cost = 12.3457}, width);
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = text.find('\n', begin);
      EXPECT_LE(text_width(text.substr(begin, end - begin)), width) << text;
      begin = end + 1;
    }
  }
}

TEST(Receipt, AddsUpWithMachinesThatNoNodeGot) {
  const PoolStopped stopped{
      .nodes = {{0, "i-0", 1, 0, 1, 60, 0.0329}, {1, "i-1", 1, 0, 1, 60, 0.0329}}};
  const std::string text =
      receipt_text(stopped, {.total_cost = 0.0924, .total_seconds = 61, .useful_cost = 0.0924}, 80);
  EXPECT_EQ(text,
            "   node  instance    tasks  failed      busy        up      cost\n"
            "      0  i-0             1       0     1.0 s     1m00s   $0.0329\n"
            "      1  i-1             1       0     1.0 s     1m00s   $0.0329\n"
            "      -  not ready       0       0    0.00 s    0.00 s   $0.0266\n"
            "  total                  2       0     2.0 s             $0.0924\n"
            "  useful    $0.0924  100%\n");
}

TEST(Receipt, OfAShortPoolSaysWhereItsMinimumIs) {
  const PoolStopped stopped{.nodes = {{0, "i-0", 1, 0, 1, 1}}};
  CostFinal cost{.total_cost = 0.01, .total_seconds = 2, .useful_cost = 0.0001};
  cost.idle_cost = 0.0099;
  EXPECT_TRUE(receipt_text(stopped, cost, 80)
                  .ends_with("idle    $0.0099   99%  with the rest of the cloud's minimum\n"));
  cost.total_seconds = 61;
  EXPECT_TRUE(receipt_text(stopped, cost, 80).ends_with("idle    $0.0099   99%\n"));
}

TEST(Receipt, OfManyNodesIsShortened) {
  PoolStopped stopped;
  for (int node = 0; node < 100; ++node) stopped.nodes.push_back({.node = node, .tasks = 2});
  const std::string text = receipt_text(stopped, {}, 80);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 15 + 1 + 1);
  EXPECT_TRUE(text.contains("\n     14  "));
  EXPECT_TRUE(text.contains("\n      …  and 85 more\n  total               200       0")) << text;
}

TEST(Text, DurationsAndMoney) {
  EXPECT_EQ(duration_text(-1), "0.00 s");
  EXPECT_EQ(duration_text(0), "0.00 s");
  EXPECT_EQ(duration_text(0.0002), "1 ms") << "not nothing";
  EXPECT_EQ(duration_text(0.0042), "4 ms");
  EXPECT_EQ(duration_text(0.00996), "0.01 s");
  EXPECT_EQ(duration_text(0.4239), "0.42 s");
  EXPECT_EQ(duration_text(0.999), "1.0 s");
  EXPECT_EQ(duration_text(59.94), "59.9 s");
  EXPECT_EQ(duration_text(59.96), "1m00s");
  EXPECT_EQ(duration_text(3599.4), "59m59s");
  EXPECT_EQ(duration_text(3599.6), "1h00m");
  EXPECT_EQ(duration_text(7620), "2h07m");
  EXPECT_EQ(money_text(0.01234), "$0.0123");
  EXPECT_EQ(count_text(1, "node"), "1 node");
  EXPECT_EQ(count_text(0, "node"), "0 nodes");
  EXPECT_EQ(cut_text("äöü", 3), "äöü");
  EXPECT_EQ(cut_text("äöüß", 3), "äö…");
  EXPECT_EQ(cut_text("ab", 0), "");
  EXPECT_EQ(fold_text("one two three", 80), "one two three");
  EXPECT_EQ(fold_text("one two three", 9), "one two\n  three");
  EXPECT_EQ(fold_text("one two", 7), "one\n  two") << "the last column stays free";
  EXPECT_EQ(fold_text("seventeen äöü", 5), "seventeen\n  äöü");
  EXPECT_EQ(fold_text("", 5), "");
}

TEST(PrintableText, IsAllThatNodesSayToATerminal) {
  SpinnerDisplay spinner(DisplayOptions{});
  const std::string line = spinner.render(printed(0, "a\x1b]52;c;b\x07"), 0);
  EXPECT_TRUE(line.contains("a�]52;c;b�")) << line;
  LogDisplay log(DisplayOptions{});
  EXPECT_TRUE(log.render(printed(0, "\x1b[2J"), 0).contains("�[2J"));
}

TEST(PrintableText, HasNoControlCharactersButColours) {
  EXPECT_EQ(printable_text("plain\tä…\n"), "plain\tä…\n");
  EXPECT_EQ(printable_text("\x1b[1;31mred\x1b[0m"), "\x1b[1;31mred\x1b[0m");
  EXPECT_EQ(printable_text("\x1b]52;c;ZXZpbA==\x07"), "�]52;c;ZXZpbA==�");
  EXPECT_EQ(printable_text("a\rb\x7f\x1b[2J\x1b[31"), "a�b��[2J�[31");
  EXPECT_EQ(printable_text("\xc2\x9b"
                           "2J\xc2\xa0\xc2"),
            "�2J\xc2\xa0\xc2");
  EXPECT_EQ(printable_text("\xc2 plain"), "\xc2 plain");
  EXPECT_EQ(printable_text(std::string_view("\0", 1)), "�");
  EXPECT_EQ(printable_line("a\nok\tb\x1b[2K"), "a�ok\tb�[2K");
  EXPECT_EQ(printable_line("\x1b[8mhidden"), "�[8mhidden");
}

TEST(TerminalFacts, ColorAndRedrawing) {
  const auto with = [](bool tty, std::optional<std::string> no, std::optional<std::string> force,
                       std::optional<std::string> term) {
    return Terminal{tty, std::move(no), std::move(force), std::move(term)};
  };
  EXPECT_TRUE(wants_color(with(true, {}, {}, "xterm")));
  EXPECT_TRUE(wants_color(with(true, "", {}, {})));
  EXPECT_FALSE(wants_color(with(false, {}, {}, "xterm")));
  EXPECT_FALSE(wants_color(with(true, {}, {}, "dumb")));
  EXPECT_FALSE(wants_color(with(true, "1", {}, "xterm")));
  EXPECT_FALSE(wants_color(with(true, "1", "1", "xterm")));
  EXPECT_TRUE(wants_color(with(false, {}, "1", "dumb")));
  EXPECT_FALSE(wants_color(with(true, {}, "0", "xterm")));
  EXPECT_TRUE(can_redraw(with(true, "1", {}, "xterm")));
  EXPECT_FALSE(can_redraw(with(true, {}, "1", "dumb")));
  EXPECT_FALSE(can_redraw(with(false, {}, "1", "xterm")));
}

TEST(TerminalFacts, SignsAreAsciiWhereTheLocaleIsNotUtf8) {
  const auto ascii = [](const char* lc_all, const char* lc_ctype, const char* lang,
                        bool is_tty = true) {
    return wants_ascii({.is_tty = is_tty, .lc_all = lc_all, .lc_ctype = lc_ctype, .lang = lang});
  };
  EXPECT_TRUE(ascii("", "", "C"));
  EXPECT_TRUE(ascii("POSIX", "en_US.UTF-8", "en_US.UTF-8"));
  EXPECT_TRUE(ascii("", "de_DE.ISO-8859-1", "C.UTF-8"));
  EXPECT_TRUE(ascii("", "C.UTF-8", "C")) << "LC_CTYPE is Python's own";
  EXPECT_FALSE(ascii("", "", "en_US.UTF-8"));
  EXPECT_FALSE(ascii("C.utf8", "", "C"));
  EXPECT_FALSE(ascii("", "C.UTF-8", ""));
  EXPECT_FALSE(ascii("", "", "C", false));
  EXPECT_FALSE(wants_ascii({.is_tty = true})) << "as in most containers";
}

constexpr const char* kWiped = "\r\x1b[K";

TEST(Spinner, OneLineDrawnInItsPlace) {
  SpinnerDisplay spinner(DisplayOptions{});
  const auto render = [&](const Event& event, double s) {
    return spinner.render(event, kNoon + static_cast<std::int64_t>(s * 1e6));
  };
  const std::string wiped = kWiped;
  EXPECT_EQ(spinner.tick(kNoon), "") << "no pool, no line";
  EXPECT_EQ(render(InfraCreating{}, 0), wiped + "⠋ opening · 0:00");
  EXPECT_EQ(render(InstanceLaunching{2, "t3.small", "aws"}, 0.08),
            wiped + "⠙ launching 2 × t3.small · 0/2 nodes · 0:00");
  EXPECT_EQ(render(BootstrapProgress{"a", "apt"}, 0.16),
            wiped + "⠹ installing Python packages · 0/2 nodes · 0:00");
  render(BootstrapCompleted{"a"}, 0.2);
  EXPECT_EQ(render(BootstrapCompleted{"b"}, 0.24),
            wiped + "⠸ installing Python packages · 2/2 nodes · 0:00");
  EXPECT_EQ(render(PoolStarted{}, 0.8), wiped + "⠋ running · 2/2 nodes · 0:00");
  spinner.set_tasks(12, 3, 0);
  EXPECT_EQ(spinner.tick(kNoon + 61 * kSecond + 80'000),
            wiped + "⠸ running · 2/2 nodes · 12 done, 3 running · 1:01");
  EXPECT_EQ(
      render(printed(1, "hello"), 62),
      wiped + "[node 1] hello\n" + wiped + "⠴ running · 2/2 nodes · 12 done, 3 running · 1:02");
  EXPECT_EQ(
      render(printed(1, "oh", "stderr"), 62),
      wiped + "[node 1] stderr oh\n" + wiped + "⠴ running · 2/2 nodes · 12 done, 3 running · 1:02");
  EXPECT_EQ(render(Metrics{.node = 0, .cpu_percent = 50}, 64),
            wiped + "⠋ running · 2/2 nodes · 12 done, 3 running · cpu 50% · 1:04");
  spinner.set_tasks(12, 3, 36);
  EXPECT_TRUE(spinner.tick(kNoon).contains("12 done, 3 running, 36 waiting · cpu"));
  spinner.set_tasks(12, 3, 0);
  render(InstanceLaunching{1, "t3.small", "aws"}, 64);  // a replacement
  render(BootstrapStarting{"c"}, 64);
  EXPECT_TRUE(render(BootstrapProgress{"c", "skyward"}, 64).contains("running · 2/2"));
  EXPECT_EQ(render(PoolStopping{}, 64), wiped + "⠋ closing · 2/2 nodes · 12 done · cpu 50% · 1:04");
  EXPECT_EQ(render(PoolStopped{"p", 0.8, 64, {{0, "a", 10, 0, 1, 1}, {1, "b", 5, 0, 1, 1}}}, 65),
            wiped + "✓ 15 tasks in 1m04s · 2 nodes · set-up 0.80 s\n");
  EXPECT_EQ(spinner.tick(kNoon + 66 * kSecond), "");

  // The next pool starts from nothing.
  EXPECT_EQ(render(InfraCreating{}, 100), wiped + "⠋ opening · 0:00");
}

TEST(Spinner, SaysWhatItCost) {
  SpinnerDisplay spinner(DisplayOptions{});
  spinner.render(PoolStarted{}, kNoon);
  spinner.render(CostFinal{.total_cost = 1.5, .setup_cost = 0.3, .useful_cost = 1.2}, kNoon);
  EXPECT_EQ(spinner.render(PoolStopped{"p", 1, 2, {{0, "a", 3, 0, 1, 1}}}, kNoon),
            std::string(kWiped) +
                "✓ 3 tasks in 2.0 s · 1 node · set-up 1.0 s · $1.5000: 80% useful, 20% set-up\n");
}

TEST(Spinner, SaysWhatWentWrong) {
  SpinnerDisplay spinner(DisplayOptions{});
  const std::string wiped = kWiped;
  EXPECT_EQ(spinner.render(ErrorEvent{"node 0 was lost", std::nullopt}, kNoon),
            "✗ node 0 was lost\n" + wiped + "⠋ starting · 0:00");
  EXPECT_EQ(spinner.render(PoolStopped{"p", 1, 2, {{0, "a", 3, 1, 1, 1}}}, kNoon),
            wiped + "✗ 3 tasks in 2.0 s, 1 failed · 1 node · set-up 1.0 s\n");
}

TEST(Spinner, SaysWhatIsNoErrorWithoutTheSignOfOne) {
  SpinnerDisplay spinner(DisplayOptions{});
  const std::string wiped = kWiped;
  EXPECT_EQ(spinner.render(Notice{"node 0: connecting again", "warning"}, kNoon),
            "! node 0: connecting again\n" + wiped + "⠋ starting · 0:00");
  EXPECT_EQ(spinner.render(Notice{.message = "node 0: connected again\n"}, kNoon),
            wiped + "· node 0: connected again\n" + wiped + "⠋ starting · 0:00");
  EXPECT_EQ(spinner.render(PoolStopped{"p", 1, 2, {{0, "a", 3, 0, 1, 1}}}, kNoon),
            wiped + "✓ 3 tasks in 2.0 s · 1 node · set-up 1.0 s\n");
}

TEST(Spinner, ShowsWhatTheLogWarnsOf) {
  SpinnerDisplay spinner(DisplayOptions{});
  spinner.render(PoolStarted{}, kNoon);
  const auto shows = [&](const Event& event, const std::string& line) {
    EXPECT_TRUE(spinner.render(event, kNoon).starts_with(kWiped + line + "\n" + kWiped)) << line;
  };
  shows(InstancePreempted{"i-4", 1, "capacity", 12},
        "! node 1: i-4 will be preempted in 12 s: capacity");
  shows(InstanceReplaced{"i-4", "i-7", 1, 1}, "! node 1: i-4 replaced by i-7 (attempt 1)");
  shows(BudgetWarning{8.5, 10, 1.608, 1200},
        "! $8.50 of $10.00 spent; at $1.608/hr, the pool stops starting tasks in 20m00s");
  shows(RegionAutoSelected{"nyc1", "nyc3", "h100", "digitalocean"},
        "! h100 is not available in nyc1, using nyc3");
}

TEST(Spinner, FoldsItsClosingLine) {
  SpinnerDisplay spinner(DisplayOptions{.width = 40, .color = true});
  spinner.render(PoolStarted{}, kNoon);
  spinner.render(CostFinal{.total_cost = 1.5, .setup_cost = 0.3, .useful_cost = 1.2}, kNoon);
  EXPECT_EQ(spinner.render(PoolStopped{"p", 1, 2, {{0, "a", 3, 0, 1, 1}}}, kNoon),
            std::string(kWiped) +
                "\x1b[32m✓\x1b[0m 3 tasks in 2.0 s · 1 node · set-up\n"
                "  1.0 s · $1.5000: 80% useful, 20%\n"
                "  set-up\n");
}

TEST(Spinner, NeverFillsTheLastColumn) {
  SpinnerDisplay spinner(DisplayOptions{.width = 20});
  spinner.render(InfraCreating{}, kNoon);
  EXPECT_EQ(spinner.render(BootstrapProgress{"a", "apt"}, kNoon),
            std::string(kWiped) + "⠋ installing Pytho…");
  EXPECT_EQ(text_width("⠋ installing Pytho…"), 19);
  spinner.set_width(12);
  EXPECT_EQ(spinner.tick(kNoon), std::string(kWiped) + "⠋ installi…");
}

TEST(Spinner, IsALogWhereNothingCanBeRedrawn) {
  ::testing::internal::CaptureStderr();  // in a file
  TerminalView view(Display::spinner);
  view.show(printed(0, "a"));
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(text.ends_with(" node 0           a\n")) << text;
  EXPECT_EQ(view.pause(), std::chrono::hours(1)) << "it wakes for nothing";
}

}  // namespace
}  // namespace skyward

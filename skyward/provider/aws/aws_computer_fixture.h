#pragma once

// A computer with a home and a ledger of its own, and Amazon on virtual time: for the tests that
// live whole pools. Its ledger can be watched, and the driver killed at a write.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "skyward/io/file.h"
#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"
#include "skyward/provider/aws/aws.h"
#include "skyward/provider/aws/ec2_double_fixture.h"
#include "skyward/provider/aws/sweep.h"
#include "skyward/provider/open_pools.h"
#include "skyward/provider/watched_ledger_fixture.h"

namespace skyward::provider::aws {

using namespace std::chrono_literals;
// Counts what is written into ledgers, kills the driver at a write, or lets every use fail.
struct LedgerWatch {
  int writes = 0;
  int die_before = -1;  // the number of a write
  int die_after = -1;
  Status trouble{};

  Result<std::unique_ptr<Ledger>> open(const std::string& path);
};

inline Result<std::unique_ptr<Ledger>> LedgerWatch::open(const std::string& path) {
  if (!trouble) return fail(trouble);
  auto ledger = Ledger::open(path);
  if (!ledger) return ledger;
  return std::make_unique<WatchedLedger>(
      *std::move(ledger),
      [this](bool after) {
        if (!after) ++writes;
        if (writes == (after ? die_after : die_before)) throw DriverDied();
      },
      [this] { return trouble; });
}

// The computer.
class AwsComputer {
 public:
  AwsComputer() {
    std::filesystem::create_directories(home_);
    std::ofstream(home_ + "/agent") << "#!/bin/sh\n";
    std::filesystem::permissions(home_ + "/agent", std::filesystem::perms::owner_all);
    fixture_.variables = {{"HOME", home_},
                          {"XDG_STATE_HOME", home_ + "/state"},
                          {"AWS_ACCESS_KEY_ID", "AKIA"},
                          {"AWS_SECRET_ACCESS_KEY", "secret"},
                          {"AWS_REGION", "eu-west-1"},
                          {"AWS_EC2_METADATA_DISABLED", "true"}};
    // Keys are real files; what is cached between two lives would hide requests.
    fixture_.world.read_file = [](const std::string& path) { return io::read_file(path); };
    fixture_.world.write_file = [](const std::string& path, std::string_view text) -> Status {
      if (path.contains("/.cache/")) return {};
      return io::write_private_file(path, text);
    };
    // Instead of ssh-keygen, for hundreds of lives.
    fixture_.world.run = [](const io::SpawnOptions& options,
                            Duration) -> Result<io::CommandResult> {
      const std::string path = options.command.back();
      std::ofstream(path) << "-----BEGIN OPENSSH PRIVATE KEY-----\n";
      std::ofstream(path + ".pub") << "ssh-ed25519 AAAA skyward\n";
      return io::CommandResult{};
    };
    fixture_.world.open_ledger = [this](const std::string& path) {
      return ledger_watch_.open(path);
    };
    fixture_.world.wall_s = [this] {
      return 1'700'000'000 +
             std::chrono::duration_cast<std::chrono::seconds>(fixture_.now - start_).count();
    };
    spec_.provider = {.name = "aws", .settings = {{"region", "eu-west-1"}}};
    spec_.agent_path = home_ + "/agent";
    spec_.runtime.command = {home_ + "/agent"};
    spec_.nodes = 2;
    spec_.timeout = 1h;
    spec_.spot = Spot::Never();
  }
  AwsComputer(const AwsComputer&) = delete;
  ~AwsComputer() { std::filesystem::remove_all(home_); }

  std::unique_ptr<Provider> provider() {
    auto made = make_aws(spec_.provider, fixture_.world);
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }
  Time soon() const { return fixture_.now + 300s; }

  struct Life {
    Status status{};  // of the first verb that failed
    Cluster cluster{};
    std::vector<Instance> instances{};
  };
  // A pool from its opening to its end: two machines, one of them replaced.
  Life live(Provider& aws) {
    Life life;
    const auto failed = [&](const auto& result) {
      life.status = std::unexpected(result.error());
      if (!life.cluster.id.empty()) (void)aws.teardown(life.cluster, soon());
      return life;
    };
    if (Status status = aws.check(spec_); !status) return failed(status);
    const auto offers = aws.offers(spec_, soon());
    if (!offers) return failed(offers);
    const auto cluster = aws.prepare(spec_, offers->front(), soon());
    if (!cluster) return failed(cluster);
    life.cluster = *cluster;
    const auto instances = aws.provision(*cluster, spec_.nodes, 0, soon());
    if (!instances) return failed(instances);
    life.instances = *instances;
    const auto ended = aws.terminate(*cluster, {instances->front().id}, soon());
    if (!ended) return failed(ended);
    const auto another = aws.provision(*cluster, 1, 0, soon());
    if (!another) return failed(another);
    std::vector<std::string> ids = {another->front().id};
    for (const Instance& one : *instances | std::views::drop(1)) ids.push_back(one.id);
    if (Status status = aws.terminate(*cluster, ids, soon()); !status) return failed(status);
    if (Status status = aws.teardown(*cluster, soon()); !status) return failed(status);
    return life;
  }

  std::vector<Swept> gc(SweepOptions options = {}) {
    std::vector<Swept> told;
    const Status status = sweep(
        fixture_.world, options, [&](const Swept& swept) { told.push_back(swept); },
        fixture_.now + 600s);
    EXPECT_TRUE(status) << status.error().message;
    return told;
  }
  // What gc does at once: groups are left until their machines have shut down.
  static SweepAction at_once(const Swept& one) {
    return one.resource.kind == "instance" ? SweepAction::removed : SweepAction::kept;
  }
  // Machines have shut down and let go of their groups; then gc.
  void let_go() {
    fixture_.now += 6min;
    (void)gc();
  }
  std::vector<LedgerPool> open_pools() {
    auto ledger = open_ledger(fixture_.world);
    EXPECT_TRUE(ledger);
    return *(*ledger)->pools(true);
  }
  // Everything as if nothing had ever been.
  void forget() {
    std::filesystem::remove_all(home_ + "/state");
    amazon_.forget();
    ledger_watch_ = {};
  }

  // In memory if possible: the ledgers of hundreds of lives are written through.
  const std::string home_ =
      (io::is_writable_directory("/dev/shm") ? std::string("/dev/shm/") : ::testing::TempDir()) +
      "skyward-aws-" + io::random_hex(8);
  WorldFixture fixture_;
  const Time start_ = fixture_.now;
  Ec2Double amazon_{fixture_};
  LedgerWatch ledger_watch_;
  PoolSpec spec_;
};

}  // namespace skyward::provider::aws

#pragma once

// A computer with a home and a ledger of its own, for the tests that live whole pools at a cloud on
// virtual time. Its ledger can be watched, and the driver killed at a write.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <ranges>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "skyward/base/hash.h"
#include "skyward/io/file.h"
#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"
#include "skyward/provider/open_pools.h"
#include "skyward/provider/provider.h"
#include "skyward/provider/sweep.h"
#include "skyward/provider/table.h"
#include "skyward/provider/watched_ledger_fixture.h"
#include "skyward/provider/world_fixture.h"

namespace skyward::provider {

using namespace std::chrono_literals;

class ComputerFixture {
 public:
  ComputerFixture() {
    std::filesystem::create_directories(home_);
    std::ofstream(home_ + "/agent") << "#!/bin/sh\n";
    std::filesystem::permissions(home_ + "/agent", std::filesystem::perms::owner_all);
    std::ofstream(home_ + "/skyward") << "#!/bin/sh\n";
    fixture_.variables = {{"HOME", home_},
                          {"XDG_STATE_HOME", home_ + "/state"},
                          {"AWS_EC2_METADATA_DISABLED", "true"}};
    // Keys are real files; what is cached between two lives would hide requests.
    fixture_.world.exists = [](const std::string& path) { return io::exists(path); };
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
      // In OpenSSH's form; another for each path.
      std::ofstream(path + ".pub") << "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI"
                                   << to_hex(sha256(as_bytes(path))).substr(0, 43) << " skyward\n";
      return io::CommandResult{};
    };
    fixture_.world.open_ledger = [this](const std::string& path) {
      return ledger_watch_.open(path);
    };
    fixture_.world.wall_s = [this] {
      return 1'700'000'000 +
             std::chrono::duration_cast<std::chrono::seconds>(cloud_now() - start_).count();
    };
    spec_.agent_path = home_ + "/agent";
    spec_.runtime.command = {home_ + "/agent"};
    spec_.nodes = 2;
    spec_.timeout = 1h;
    spec_.spot = Spot::Never();
  }
  ComputerFixture(const ComputerFixture&) = delete;
  ComputerFixture& operator=(const ComputerFixture&) = delete;
  virtual ~ComputerFixture() { std::filesystem::remove_all(home_); }

  // As another process would make it.
  virtual std::unique_ptr<Provider> provider() {
    auto made = make_provider(spec_.provider, fixture_.world);
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }

  // How much the cloud has of any pool.
  virtual int standing() = 0;

  Time soon() const { return fixture_.now + 300s; }
  // The time of clouds, which goes on while this computer sleeps.
  Time cloud_now() const { return fixture_.now + fixture_.asleep; }

  struct Life {
    Status status{};  // of the first verb that failed
    Cluster cluster{};
    std::vector<Instance> instances{};
  };
  // The pool is open; its machines run. After a failure, what there is stays.
  Life open(Provider& cloud) {
    Life life;
    const auto failed = [&](const auto& result) {
      life.status = std::unexpected(result.error());
      return life;
    };
    if (Status status = cloud.check(spec_); !status) return failed(status);
    const auto offers = cloud.offers(spec_, soon());
    if (!offers) return failed(offers);
    const auto cluster = cloud.prepare(spec_, offers->front(), soon());
    if (!cluster) return failed(cluster);
    life.cluster = *cluster;
    const auto instances = cloud.provision(*cluster, spec_.nodes, 0, soon());
    if (!instances) return failed(instances);
    life.instances = *instances;
    return life;
  }
  // A pool from its opening to its end: two machines, one of them replaced.
  Life live(Provider& cloud) {
    Life life = open(cloud);
    const auto failed = [&](const auto& result) {
      life.status = std::unexpected(result.error());
      if (!life.cluster.id.empty()) (void)cloud.teardown(life.cluster, soon());
      return life;
    };
    if (!life.status) return failed(Status(life.status));
    const std::string first = life.instances.front().id;
    if (Status status = cloud.terminate(life.cluster, {first}, soon()); !status) {
      return failed(status);
    }
    const auto another = cloud.provision(life.cluster, 1, 0, soon());
    if (!another) return failed(another);
    std::vector<std::string> ids = {another->front().id};
    for (const Instance& one : life.instances | std::views::drop(1)) ids.push_back(one.id);
    if (Status status = cloud.terminate(life.cluster, ids, soon()); !status) {
      return failed(status);
    }
    if (Status status = cloud.teardown(life.cluster, soon()); !status) return failed(status);
    return life;
  }

  // A pool that is open, or has lived to its end. Throw if it could not.
  struct PoolThere {
    std::unique_ptr<Provider> cloud{};
    Life life{};
  };
  PoolThere opened(bool to_its_end = false) {
    PoolThere out{.cloud = provider()};
    out.life = to_its_end ? live(*out.cloud) : open(*out.cloud);
    if (!out.life.status) throw std::runtime_error(out.life.status.error().message);
    return out;
  }
  PoolThere lived() { return opened(true); }

  // Of a pool that does not open, and leaves nothing.
  Error refusal_of_opening() {
    const Time begun = fixture_.now;
    const auto cloud = provider();
    const Life life = open(*cloud);
    took_ = fixture_.now - begun;
    EXPECT_FALSE(life.status) << "it opened";
    if (!life.cluster.id.empty()) {
      EXPECT_TRUE(cloud->teardown(life.cluster, soon()));
    }
    EXPECT_EQ(standing(), 0);
    EXPECT_TRUE(open_pools().empty());
    if (life.status) return {};
    EXPECT_FALSE(life.status.error().hint.empty()) << life.status.error().message;
    return life.status.error();
  }

  // What one sweep told.
  std::vector<Swept> gc(const SweepOptions& options = {}) {
    std::vector<Swept> told;
    const Status status =
        find_row(spec_.provider.name)
            ->sweep(
                fixture_.world, options, [&](const Swept& swept) { told.push_back(swept); },
                fixture_.now + 600s);
    EXPECT_TRUE(status) << status.error().message;
    return told;
  }
  std::vector<LedgerPool> open_pools() {
    auto ledger = open_ledger(fixture_.world);
    EXPECT_TRUE(ledger);
    return *(*ledger)->pools(true);
  }
  // As if no pool had ever been opened here.
  void forget_pools() {
    std::filesystem::remove_all(home_ + "/state");
    ledger_watch_ = {};
  }

  // In memory if possible: the ledgers of hundreds of lives are written through.
  const std::string home_ =
      (io::is_writable_directory("/dev/shm") ? std::string("/dev/shm/") : ::testing::TempDir()) +
      "skyward-computer-" + io::random_hex(8);
  WorldFixture fixture_;
  const Time start_ = fixture_.now;
  LedgerWatch ledger_watch_;
  PoolSpec spec_;
  Duration took_{};  // the last refusal of opening
};

}  // namespace skyward::provider

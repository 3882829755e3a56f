#pragma once

// The account of one computer at a fake cloud, as renting/ and its sweep see any cloud's.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/fake/rental.h"
#include "skyward/provider/renting/rented_cloud.h"
#include "skyward/provider/renting/sweeping.h"

namespace skyward::provider::fake {

// What all pools have there.
class Account {
 public:
  Account(std::shared_ptr<Simulation> cloud, const World& world)
      : world_(world), client_(std::move(cloud), world_) {}

  std::unique_ptr<MachineApi> machine_api(const Cluster& cluster) {
    return std::make_unique<Rental>(client_, cluster.id);
  }
  Result<std::vector<std::string>> clear(PoolBook& book, Time deadline);
  Client& client() { return client_; }
  const World& world() const { return world_; }

 private:
  const World world_;
  Client client_;
};

class FakeRentals final : public RentedCloud {
 public:
  // `capabilities`: of the processes that its machines are.
  FakeRentals(std::shared_ptr<Simulation> cloud, const World& world, std::string owner,
              Capabilities capabilities)
      : account_(std::move(cloud), world),
        owner_(std::move(owner)),
        capabilities_(std::move(capabilities)) {}

  std::string_view name() const override { return "fake"; }
  Capabilities capabilities() const override { return capabilities_; }
  bool by_ssh() const override { return false; }
  Result<std::vector<Offer>> offers(const PoolSpec& spec, Time deadline) override;
  Result<std::vector<Offer>> catalogue(Time deadline) override { return offers({}, deadline); }
  Result<std::unique_ptr<RentedSite>> find_site(const PoolSpec& spec, const Offer& offer,
                                                Ledger& ledger, Time deadline) override;
  std::unique_ptr<MachineApi> machine_api(const Cluster& cluster) override {
    return account_.machine_api(cluster);
  }
  Result<std::vector<std::string>> clear(const Cluster&, PoolBook& book, Time deadline) override {
    return account_.clear(book, deadline);
  }

 private:
  Account account_;
  const std::string owner_;
  const Capabilities capabilities_;
  std::vector<Offer> ranked_{};  // of the last offers()
};

class FakeLeaks final : public LeakSource {
 public:
  FakeLeaks(std::shared_ptr<Simulation> cloud, const World& world, std::string owner)
      : account_(std::move(cloud), world), owner_(std::move(owner)) {}

  std::string_view name() const override { return "fake"; }
  std::string_view vendor() const override { return "the fake cloud"; }
  bool machines_end_themselves() const override { return true; }
  Result<SweepAccount> sign_in(Time) override {
    return SweepAccount{.owner = owner_, .home_region = kRegion};
  }
  Result<std::vector<std::string>> regions(Time) override {
    return std::vector<std::string>{kRegion};
  }
  Result<Listing> list(const std::string& region, const std::optional<std::string>& pool,
                       Time deadline) override;
  std::string way_to_account(const LedgerPool&) const override { return {}; }
  std::unique_ptr<MachineApi> machine_api(const Cluster& cluster) override {
    return account_.machine_api(cluster);
  }
  Result<std::vector<std::string>> clear(const Cluster&, PoolBook& book, Time deadline) override {
    return account_.clear(book, deadline);
  }

 private:
  Account account_;
  const std::string owner_;
};

}  // namespace skyward::provider::fake

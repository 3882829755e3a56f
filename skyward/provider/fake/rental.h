#pragma once

// What one pool has at a fake cloud: its machines (see provider/pool_machines.h) and what they use.
// Used by the provider and its sweep.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/provider/fake/simulation.h"
#include "skyward/provider/pool_machines.h"
#include "skyward/provider/retry.h"

namespace skyward::provider::fake {

inline constexpr const char* kRegion = "nowhere";

// Sends requests and retries them where that makes sense. Times are the cloud's.
class Client {
 public:
  Client(std::shared_ptr<Simulation> cloud, const World& world)
      : cloud_(std::move(cloud)), world_(world) {}

  // `deed(cloud, now)` answers with an Answer.
  template <typename Deed>
  auto call(Time deadline, Deed deed) {
    Retries retries(world_, kRules, deadline);
    bool maybe_done = false;
    while (true) {
      auto answer = cloud_->ask(deed);
      if (answer) return answer;
      maybe_done = maybe_done || may_be_done(answer.error());
      answer.error().maybe_done = maybe_done;
      if (!is_passing(answer.error()) || !retries.again(kLeastPause)) return answer;
    }
  }

  Simulation& cloud() { return *cloud_; }
  const World& world() const { return world_; }

 private:
  static bool is_passing(const Refusal& refusal);
  static bool may_be_done(const Refusal& refusal);
  static constexpr RetryRules kRules{.attempts = 12};
  static constexpr Duration kLeastPause = std::chrono::milliseconds(200);

  const std::shared_ptr<Simulation> cloud_;
  const World& world_;  // outlives this
};

Error to_error(const Refusal& refusal, std::string_view action);

class Rental final : public MachineApi {
 public:
  // The client outlives this. `common` is what all launches have in common: without type, zone,
  // count, market and token; whoever launches nothing leaves it out.
  Rental(Client& client, std::string pool, LaunchRequest common = {})
      : client_(client), pool_(std::move(pool)), common_(std::move(common)) {}

  const MachineApiFacts& facts() const override;
  std::expected<std::vector<std::string>, LaunchRefusal> launch(const LaunchBatch& batch,
                                                                Time deadline) override;
  Result<std::vector<MachineStatus>> find(std::string_view token, Time deadline) override;
  Result<std::vector<MachineStatus>> look_up(const std::vector<std::string>& ids,
                                             Time deadline) override;
  Result<std::vector<std::string>> terminate(const std::vector<std::string>& ids,
                                             Time deadline) override;

 private:
  Client& client_;
  const std::string pool_;
  const LaunchRequest common_;
};

// A group or a key of the pool. In the ledger before it is asked for.
Result<std::string> make_item(Client& client, PoolBook& book, const std::string& kind,
                              const Tags& tags, Time deadline);
// All that the pool has beside its machines; strikes it off the book.
Status remove_items(Client& client, PoolBook& book, Time deadline);

}  // namespace skyward::provider::fake

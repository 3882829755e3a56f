#pragma once

// What one pool has at a fake cloud: bought so that nothing is forgotten (ledger first, marked,
// with one client token each), and given back so that nothing is left. Used by the provider, and by
// the sweep after it.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/provider/fake/simulation.h"
#include "skyward/provider/launch.h"
#include "skyward/provider/pool_book.h"
#include "skyward/provider/retry.h"

namespace skyward::provider::fake {

// A request that was not answered by then has brought nothing.
inline constexpr std::int64_t kNothingComesOfIt_s = 600;

// Makes requests, again where that makes sense. Times are the cloud's.
class Client {
 public:
  Client(std::shared_ptr<Simulation> cloud, const World& world)
      : cloud_(std::move(cloud)), world_(world) {}

  // `deed(cloud, now)` answers with an Answer.
  template <typename Deed>
  auto call(Time deadline, Deed deed) {
    Retries retries(world_, kRules, deadline);
    while (true) {
      auto answer = cloud_->ask(deed);
      const bool passing = !answer && is_passing(answer.error());
      if (!passing || !retries.again(kLeastPause)) return answer;
    }
  }

  Simulation& cloud() { return *cloud_; }
  const World& world() const { return world_; }

 private:
  static bool is_passing(const Refusal& refusal);
  static constexpr RetryRules kRules{.attempts = 12};
  static constexpr Duration kLeastPause = std::chrono::milliseconds(200);

  const std::shared_ptr<Simulation> cloud_;
  const World& world_;  // outlives this
};

Error to_error(const Refusal& refusal, std::string_view action);

struct LaunchOrder {
  LaunchWish wish{};
  LaunchRequest request{};  // without type, zone, count, market and token
};

class Rental {
 public:
  // Both outlive this.
  Rental(Client& client, PoolBook& book) : client_(client), book_(book) {}

  Result<std::string> make_item(const std::string& kind, const Tags& tags, Time deadline);
  // Machines that run: as many as were ordered, or none at all is left.
  Result<std::vector<Machine>> launch(const LaunchOrder& order, std::string_view region,
                                      Time deadline);
  // Gone, by the cloud's word, when this returns without error; then the book is told, whose
  // troubles are its own.
  Status end(const std::vector<std::string>& ids, Time deadline);
  // Everything that the book has or the cloud lists of the pool.
  Status end_all(Time deadline);
  Status remove_items(Time deadline);

  Result<std::vector<Machine>> list(const Tags& tags, Time deadline);

 private:
  std::expected<std::vector<Machine>, LaunchFailure> attempt(const LaunchOrder& order,
                                                             const Attempt& wanted,
                                                             LaunchRecord& record, Time deadline);
  std::expected<std::vector<Machine>, LaunchFailure> await_running(
      const std::vector<std::string>& ids, const std::string& token, Time deadline);
  Status see_off(const std::vector<std::string>& ids, std::vector<std::string>& gone,
                 Time deadline);
  LaunchFailure withdraw(const LaunchRequest& request, std::vector<std::string> ids,
                         LaunchRecord& record, LaunchFailure why);

  Client& client_;
  PoolBook& book_;
};

}  // namespace skyward::provider::fake

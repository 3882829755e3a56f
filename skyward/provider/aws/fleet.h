#pragma once

// The machines of one pool: launched all or not at all, ended until Amazon says so. Each request
// that makes something stands in the ledger before it is sent.
//
// A machine counts as gone from "shutting-down" on: there is no way back from there, and its price
// ends there.

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "skyward/provider/aws/ec2_api.h"
#include "skyward/provider/launch.h"
#include "skyward/provider/pool_book.h"

namespace skyward::provider::aws {

// After so long, a request that was never answered has not been heard, or what it made has ended
// itself (user_data.h: unclaimed) and is listed as such.
inline constexpr std::int64_t kNothingComesOfIt_s = 1800;

// What the machines of one launch have in common.
struct LaunchOrder {
  LaunchWish wish{};
  std::optional<double> most_dollars{};  // for a spot machine an hour; empty: the on-demand price
  LaunchRequest request{};               // without token, count, type, subnet, market
};

struct Launched {
  Ec2Instance instance{};
  Placement place{};
};

class Fleet {
 public:
  // Both outlive this.
  Fleet(Client& client, PoolBook& book) : client_(client), book_(book) {}

  // Running machines, in the order of their ids. Leaves nothing behind that the book does not have
  // as open.
  Result<std::vector<Launched>> launch(const LaunchOrder& order, Time deadline);

  // Ends them and sees them go; then the book is told, whose troubles are its own.
  Status end(const std::vector<std::string>& ids, Time deadline);
  // Everything that bears the pool's mark or stands in the book.
  Status end_all(Time deadline);

  // As Amazon sees them; unknown ids are left out.
  Result<std::vector<Ec2Instance>> look_up(const std::vector<std::string>& ids, Time deadline);

 private:
  std::expected<std::vector<Launched>, LaunchFailure> attempt(const LaunchOrder& order,
                                                              const Attempt& wanted,
                                                              LaunchRecord& record, Time deadline);
  std::expected<std::vector<Ec2Instance>, LaunchFailure> await_running(
      const std::vector<std::string>& ids, Time deadline);
  std::expected<std::vector<Ec2Instance>, LaunchFailure> settle(const LaunchRequest& request,
                                                                const std::vector<std::string>& ids,
                                                                Time deadline);
  LaunchFailure not_made(const LaunchRequest& request, const Placement& place,
                         const ApiError& error, LaunchRecord& record);
  LaunchFailure withdraw(const LaunchRequest& request, std::vector<std::string> ids,
                         LaunchFailure why);
  Result<std::vector<Ec2Instance>> find(const std::vector<Filter>& filters, Time deadline);
  Status see_off(const std::vector<std::string>& ids, std::vector<std::string>& gone,
                 Time deadline);
  Status still_there(const std::vector<std::string>& ids) const;
  Error explained(const ApiError& error, std::string_view action) const;

  Client& client_;
  PoolBook& book_;
};

bool is_gone(const Ec2Instance& instance);

}  // namespace skyward::provider::aws

#pragma once

// The machines of one pool at EC2 (provider/pool_machines.h).
//
// A machine counts as gone from "shutting-down" on: it cannot come back, and billing has stopped.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/provider/aws/ec2_api.h"
#include "skyward/provider/pool_machines.h"

namespace skyward::provider::aws {

bool is_gone(const Ec2Instance& instance);

class Fleet final : public MachineApi {
 public:
  // The client outlives this. `common` is what all launches share: everything but token, count,
  // type, subnet and market. A caller that launches nothing leaves it out.
  Fleet(Client& client, std::string pool, LaunchRequest common = {});

  const MachineApiFacts& facts() const override { return facts_; }
  std::expected<std::vector<std::string>, LaunchRefusal> launch(const LaunchBatch& batch,
                                                                Time deadline) override;
  Result<std::vector<MachineStatus>> find(std::string_view token, Time deadline) override;
  Result<std::vector<MachineStatus>> look_up(const std::vector<std::string>& ids,
                                             Time deadline) override;
  Result<std::vector<std::string>> terminate(const std::vector<std::string>& ids,
                                             Time deadline) override;

  // As Amazon describes them, without unknown ids.
  Result<std::vector<Ec2Instance>> describe(const std::vector<std::string>& ids, Time deadline);

 private:
  Result<std::vector<Ec2Instance>> list(const std::vector<Filter>& filters, Time deadline);
  Result<std::vector<std::string>> end_each(const std::vector<std::string>& ids, Time deadline);
  Error explained(const ApiError& error, std::string_view action) const;

  Client& client_;
  const std::string pool_;
  const LaunchRequest common_;
  const MachineApiFacts facts_;
};

}  // namespace skyward::provider::aws

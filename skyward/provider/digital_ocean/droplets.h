#pragma once

// DigitalOcean's machines, for the stock of one pool (provider/pool_machines.h).
//
// A droplet's name carries its marks: tags are put on it later than it is made, and the listing of
// those with GPUs cannot be asked for by tag. One that is powered off costs as much as before.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/digital_ocean/digital_ocean_api.h"
#include "skyward/provider/marks.h"
#include "skyward/provider/pool_machines.h"

namespace skyward::provider::digital_ocean {

inline constexpr const char* kProvider = "digital_ocean";
inline constexpr const char* kCloud = "DigitalOcean";

// The marks in a droplet's name; `rest` is the key of its launch, and its number in it.
std::optional<MarkedName> read_mark(const Droplet& droplet);

// Every droplet of the account. What a request for one kind shows in both is told once.
ApiResult<std::vector<Droplet>> all_droplets(Api& api, Time deadline);

class Droplets final : public MachineApi {
 public:
  // The api outlives this. Whoever launches nothing leaves `mark` but for the pool, and `common`,
  // out.
  Droplets(Api& api, std::string region, Mark mark, DropletRequest common = {});

  const MachineApiFacts& facts() const override { return facts_; }
  std::expected<std::vector<std::string>, LaunchRefusal> launch(const LaunchBatch& batch,
                                                                Time deadline) override;
  Result<std::vector<MachineStatus>> find(std::string_view token, Time deadline) override;
  Result<std::vector<MachineStatus>> look_up(const std::vector<std::string>& ids,
                                             Time deadline) override;
  Result<std::vector<std::string>> terminate(const std::vector<std::string>& ids,
                                             Time deadline) override;

 private:
  Result<std::vector<MachineStatus>> look_up_each(const std::vector<std::string>& ids,
                                                  Time deadline);
  void add_failed(const std::vector<std::string>& ids, std::vector<MachineStatus>& out,
                  Time deadline);

  Api& api_;
  const Mark mark_;
  const DropletRequest common_;
  const MachineApiFacts facts_;
  // The action that creates a droplet, and when it is looked at next.
  struct Creation {
    std::string action{};
    Time look_at{};
  };
  std::map<std::string, Creation> creations_;  // by droplet
};

}  // namespace skyward::provider::digital_ocean

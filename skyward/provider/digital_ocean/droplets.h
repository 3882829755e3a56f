#pragma once

// DigitalOcean's machines, for one pool (provider/pool_machines.h).
//
// A droplet's name carries its marks: tags are put on it later than it is made, and the listing of
// those with GPUs cannot be asked for by tag. One that is powered off costs as much as before.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/digital_ocean/digital_ocean_api.h"
#include "skyward/provider/renting/named_machines.h"

namespace skyward::provider::digital_ocean {

inline constexpr const char* kProvider = "digital_ocean";
inline constexpr const char* kCloud = "DigitalOcean";

// A size for spot droplets has the type's name, followed by "-spot". They cost less, and are
// deleted when DigitalOcean needs them back.
bool is_spot_size(std::string_view slug);
std::string type_of_size(std::string_view slug);

// Every droplet of the account.
ApiResult<std::vector<NamedMachine>> list_droplets(Api& api, Time deadline);

class Droplets final : public RestMachines {
 public:
  // The api outlives this, and so does the world, in which launches wait. Without launching, `mark`
  // needs only the pool, and what follows can be left out. `key_known`: until then, the creation of
  // droplets may not know the request's key. `node`: with the token that droplets delete themselves
  // with; it is tried at the first one that runs, and outlives this, too.
  Droplets(Api& api, const World& world, std::string region, Mark mark, DropletRequest common = {},
           Time key_known = {}, RestClient* node = nullptr);

  std::expected<std::vector<std::string>, LaunchRefusal> launch(const LaunchBatch& batch,
                                                                Time deadline) override;
  Result<std::vector<MachineStatus>> look_up(const std::vector<std::string>& ids,
                                             Time deadline) override;

 protected:
  bool is_id(std::string_view id) const override;
  ApiResult<std::vector<NamedMachine>> list(Time deadline) override {
    return list_droplets(api_, deadline);
  }
  ApiResult<NamedMachine> get(const std::string& id, Time deadline) override;
  ApiResult<std::vector<ApiResult<void>>> remove_all(const std::vector<std::string>& ids,
                                                     Time deadline) override {
    return remove_each(ids,
                       [&](const std::string& id) { return api_.delete_droplet(id, deadline); });
  }
  void complete(const std::vector<std::string>& ids, std::vector<MachineStatus>& found,
                Time deadline) override;

 private:
  ApiResult<Creation> create(const DropletRequest& request, Time deadline);
  Status try_node_token(std::vector<MachineStatus>& found, Time deadline);

  // The action that creates a droplet, and when it is looked at next.
  struct Creating {
    std::string action{};
    Time look_at{};
  };

  Api& api_;
  const World& world_;
  const DropletRequest common_;
  const Time key_known_;
  RestClient* node_;                          // null without one, and when it has been tried
  Time launched_{};                           // the last batch
  std::map<std::string, Creating> creating_;  // by droplet
};

}  // namespace skyward::provider::digital_ocean

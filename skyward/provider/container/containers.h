#pragma once

// The machines of one pool (provider/pool_machines.h): containers. Their names are chosen here and
// carry the marks, so that they are ids, too.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/container/container_api.h"
#include "skyward/provider/keeping/keeping.h"
#include "skyward/provider/renting/named_machines.h"

namespace skyward::provider::container {

// What launches need.
struct ContainerOrder {
  ContainerRequest request{};  // without its keeper
  KeeperTerms terms{};
  Duration life{};  // from its start
  std::function<void(const std::string&)> tell{};
};

class Containers final : public NamedMachines {
 public:
  // The api outlives this. To find or terminate containers, `mark.pool` is enough.
  Containers(Api& api, std::string host, Mark mark, ContainerOrder order = {});

  std::expected<std::vector<std::string>, LaunchRefusal> launch(const LaunchBatch& batch,
                                                                Time deadline) override;
  Result<std::vector<MachineStatus>> look_up(const std::vector<std::string>& ids,
                                             Time deadline) override;
  Result<std::vector<std::string>> terminate(const std::vector<std::string>& ids,
                                             Time deadline) override;

 protected:
  ApiResult<std::vector<NamedMachine>> list(Time deadline) override;

 private:
  ApiResult<void> pull_image(Time deadline);

  Api& api_;
  const Mark mark_;
  const ContainerOrder order_;
  Words made_{};  // by this
};

std::vector<NamedMachine> machines_of(const std::vector<ContainerStatus>& containers);

}  // namespace skyward::provider::container

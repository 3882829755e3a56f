#pragma once

// Verda's machines, for one pool (provider/pool_machines.h): created one by one, named by their
// hostname. One that is shut down costs as before. A machine's disk is a volume of its own, which
// is deleted with it.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/renting/named_machines.h"
#include "skyward/provider/verda/verda_api.h"

namespace skyward::provider::verda {

inline constexpr const char* kProvider = "verda";
inline constexpr const char* kCloud = "Verda";

// Every machine of the account.
ApiResult<std::vector<NamedMachine>> list_servers(Api& api, Time deadline);

class Servers final : public RestMachines {
 public:
  // The api outlives this. To find or terminate machines, `mark.pool` is enough.
  // `images`: what each type starts from.
  Servers(Api& api, std::string location, Mark mark, ServerRequest common = {},
          std::map<std::string, std::string> images = {});

  std::expected<std::vector<std::string>, LaunchRefusal> launch(const LaunchBatch& batch,
                                                                Time deadline) override;

 protected:
  bool is_id(std::string_view id) const override;
  ApiResult<std::vector<NamedMachine>> list(Time deadline) override {
    return list_servers(api_, deadline);
  }
  ApiResult<NamedMachine> get(const std::string& id, Time deadline) override;
  ApiResult<std::vector<ApiResult<void>>> remove_all(const std::vector<std::string>& ids,
                                                     Time deadline) override;

 private:
  std::map<std::string, std::string> disks_of(const std::vector<std::string>& ids, Time deadline);

  Api& api_;
  const ServerRequest common_;
  const std::map<std::string, std::string> images_;  // by type
};

}  // namespace skyward::provider::verda

#pragma once

// An account at a cloud where names carry the marks: everything that any pool has there, and the
// sweep of it. One listing shows the whole account.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/renting/named_machines.h"
#include "skyward/provider/renting/side_resources.h"
#include "skyward/provider/renting/sweeping.h"

namespace skyward::provider {

class NamedAccount : public PoolRemains {
 public:
  virtual std::string_view provider() const = 0;  // "digital_ocean"
  virtual std::string_view cloud() const = 0;     // as messages name it: "DigitalOcean"
  virtual Result<SweepAccount> sign_in(Time deadline) = 0;
  // Every machine, whosever.
  virtual ApiResult<std::vector<NamedMachine>> machines(Time deadline) = 0;
  // What pools have beside machines, in the order in which it can be removed.
  virtual std::vector<SideResourceKind*> kinds() = 0;

  Result<std::vector<std::string>> clear(const Cluster&, PoolBook& book, Time deadline) override {
    return remove_resources(cloud(), provider(), book, kinds(), deadline);
  }
};

Status sweep_named(const World& world, NamedAccount& account, const SweepOptions& options,
                   const std::function<void(const Swept&)>& tell, Time deadline);

}  // namespace skyward::provider

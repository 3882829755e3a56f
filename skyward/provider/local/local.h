#pragma once

// The provider that needs no cloud: a node is an agent process on this machine, in a directory of
// its own. It costs nothing, starts at once and installs Python packages with uv; it cannot install
// system packages.
//
// On disk: <state root>/local-<8 hex>/ is a pool (with a lock that its driver holds while it
// lives), <pool>/<instance id>/ a node. A pool whose driver died is removed when the next one is
// prepared.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "skyward/provider/provider.h"

namespace skyward::provider {

// What the provider takes from its surroundings.
struct LocalSurroundings {
  // Where the directories of pools go; made when missing, its parent is not. Private to this user.
  std::string state_root;
  // Where Python environments are kept between pools.
  std::string environment_root;
  // A variable of the client's environment.
  std::function<std::optional<std::string>(const char*)> variable;
};

// State, where tasks run, in $XDG_RUNTIME_DIR, $TMPDIR, /tmp or /var/tmp, the first of them that is
// no memory; environments in $XDG_CACHE_HOME or ~/.cache.
LocalSurroundings surroundings_of_this_process();

// Settings: "python" (path of the driver's interpreter), "uv" (path of uv; else PATH).
std::unique_ptr<Provider> make_local(const ProviderSpec& spec, LocalSurroundings surroundings);
Result<std::unique_ptr<Provider>> make_local(const ProviderSpec& spec);

}  // namespace skyward::provider

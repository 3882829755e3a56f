#pragma once

// The image on a machine that shares nothing with this one: which files are uploaded, the script
// that sets it up, and how a worker starts there. Every provider of remote machines uses this.
// Pure, except that it reads the files to upload and the settings of uv and pip, and may fetch uv.
//
// On the node, below ${XDG_CACHE_HOME:-~/.cache}/skyward: files/<sha256> as uploaded,
// archives/<sha256>/ unpacked modules, environments/<key>-<system> a link to the Python
// environment, which is created once and used by every later pool that asks for the same. Machines
// that share a home share it, if their system and architecture are the same and its Python is on
// both; none deletes what another one uses. Nothing there is secret.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/provider/local/environment.h"
#include "skyward/provider/provider.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider {

using Variable = std::function<std::optional<std::string>(const char*)>;

struct RemoteImage {
  std::vector<Upload> uploads;
  Bootstrap bootstrap;  // directory and end_command are the provider's to set
};

// Which proxies a node uses for its packages.
enum class Proxies : std::uint8_t {
  given,    // those of the pool's own variables: rented machines cannot reach this computer's
  as_here,  // ... and this computer's, unless one of them listens here alone
};

// What a provider knows of its machines.
struct RemoteMachines {
  Proxies proxies = Proxies::as_here;
  std::string architecture{};  // "x86_64", "arm64"; empty: as the pool asks
  // By the user, who may count on the packages of its Python; else environments are isolated.
  bool image_is_named = false;
};

// Whether the settings name the image of the machines.
bool names_image(const ProviderSpec& provider);

// Fails if a file to upload or the settings of uv or pip cannot be read. `variable` is the
// client's environment: its package indexes are used on the node, too. May run programs that fetch
// what the machines need.
Result<RemoteImage> plan_remote_image(const PoolSpec& spec, const Variable& variable,
                                      const RemoteMachines& machines = {});

// Fails with `invalid` when the agent that would be uploaded cannot run here.
Status check_agent(const PoolSpec& spec);

// Fails with `invalid` when a package is a file or folder of this computer, for machines that
// have none of those. A path that is not here may be one of the machine's image.
Status check_packages(const Image& image);

// The variables of the client that make uv and apt on a node use the same indexes, mirrors and
// proxies as this machine, with those of `settings`, from uv_settings(). Values that are paths on
// this machine are left out.
std::vector<std::pair<std::string, std::string>> index_environment(const UvSettings& settings,
                                                                   const Variable& variable);

}  // namespace skyward::provider

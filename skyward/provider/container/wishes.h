#pragma once

// What a pool asks of an engine, from the provider's settings and the pool's own wishes, and what
// the engine's host offers. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/provider/container/container_api.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider::container {

// The provider's settings. Empty: not given.
struct Wishes {
  std::string image{};
  std::string network{};
};
// Fails with `invalid` on what no engine takes.
Result<Wishes> read_wishes(const ProviderSpec& spec);

// A network that somebody has made: not a mode such as "host" or "none".
bool is_named_network(std::string_view network);

// The host with each model of its GPUs, or without any.
std::vector<Offer> offers_of(const EngineHost& host);
// The host, as the pool would have it. Fails with `invalid` when it cannot hold the pool.
Result<std::vector<Offer>> fitting_host(const EngineHost& host, const PoolSpec& spec);
ContainerRequest request_of(const EngineHost& host, const Wishes& wishes, const PoolSpec& spec,
                            const Offer& offer);

}  // namespace skyward::provider::container

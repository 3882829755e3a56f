#pragma once

// DigitalOcean's droplets. docs/guide/digitalocean.md says more.
// Made by tools/providers.py from the sheets in skyward/provider; ./dev static compares them.

#include <optional>
#include <string>

#include "skyward/spec/pool_spec.h"

namespace skyward {

struct DigitalOcean {
  // Where to look first: `nyc1`, `fra1` or another of DigitalOcean's regions. Default: "nyc1".
  std::optional<std::string> region{};
  // Your API token. Default: `$DIGITALOCEAN_TOKEN`, else doctl's.
  std::optional<std::string> token{};
  // An SSH key of your account to use instead of a new one. Default:
  // `$DIGITALOCEAN_SSH_KEY_FINGERPRINT`, else a key per pool.
  std::optional<std::string> ssh_key_fingerprint{};
  // Ignored; use the pool's `timeout=`. Default: 300.
  std::optional<int> instance_timeout{};
  // A second token, with which droplets can delete themselves.
  std::optional<std::string> node_token{};
  operator ProviderSpec() const;
};

}  // namespace skyward

#pragma once

// Verda's machines. docs/guide/verda.md says more.
// Made by tools/providers.py from the sheets in skyward/provider; ./dev static compares them.

#include <optional>
#include <string>

#include "skyward/spec/pool_spec.h"

namespace skyward {

struct Verda {
  // The location, such as `"FIN-01"`. Default: wherever the type is available.
  std::optional<std::string> region{};
  // The client id of your API credentials. Default: `$VERDA_CLIENT_ID`, else from the file of its
  // command-line program.
  std::optional<std::string> client_id{};
  // The secret of these credentials. Default: `$VERDA_CLIENT_SECRET`, else from the file of its
  // command-line program.
  std::optional<std::string> client_secret{};
  // An SSH key of your account to use instead of a new one. Default: a key per pool.
  std::optional<std::string> ssh_key_id{};
  // Ignored; use the pool's `timeout=`. Default: 300.
  std::optional<int> instance_timeout{};
  // Time limit for one attempt of a request, in seconds. Default: 30.
  std::optional<int> request_timeout{};
  operator ProviderSpec() const;
};

}  // namespace skyward

#pragma once

// OAuth 2.0 client credentials (RFC 6749, section 4.4): exchanges an id and a secret for a token,
// and renews the token before it expires.

#include <cstdint>
#include <string>

#include "skyward/provider/rest/exchange.h"

namespace skyward::provider {

struct ClientCredentials {
  std::string token_url{};
  std::string id{};
  std::string secret{};
  Duration request_timeout = std::chrono::seconds(30);
  std::string ca_file{};
};

class TokenSource {
 public:
  // The world outlives this.
  TokenSource(const World& world, ClientCredentials credentials)
      : world_(world), credentials_(std::move(credentials)) {}

  // "Bearer …". `renew`: the cloud refused the last one. Fails with `denied` when the id or the
  // secret is wrong.
  Result<std::string> authorization(bool renew, Time deadline);

 private:
  const World& world_;
  const ClientCredentials credentials_;
  std::string token_;
  Time renew_at_{};
};

}  // namespace skyward::provider

#pragma once

// One request to an Amazon service, signed (provider/rest/exchange.h). A request that the service
// may have heard is repeated, so each one that makes something must carry a client token.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/provider/aws/api_error.h"
#include "skyward/provider/aws/sigv4.h"
#include "skyward/provider/rest/exchange.h"

namespace skyward::provider::aws {

struct ApiCall {
  std::string endpoint{};      // "https://host[:port]"
  std::string region{};        // of the signature
  std::string signing_name{};  // "ec2"; empty: not signed
  std::string method = "POST";
  std::string path = "/";
  std::string query{};
  io::HttpHeaders headers{};
  std::string body{};
  bool direct = false;  // past every proxy
  std::string ca_file{};
  Duration time_limit = std::chrono::seconds(30);  // of one try
};

// How far Amazon's clock is ahead of ours.
struct ClockOffset {
  std::int64_t seconds = 0;            // by which requests are signed: learnt from a refusal
  std::optional<std::int64_t> told{};  // by the date of the last reply
};

// The reply of status 2xx. `keys` may be null for calls that are not signed.
ApiResult<io::HttpReply> send_call(const World& world, const ApiCall& call, const Keys* keys,
                                   ClockOffset& clock, const RetryRules& rules, Time deadline);

// The parameters of a query service, in their order.
using Parameters = std::vector<std::pair<std::string, std::string>>;
std::string form_encode(const Parameters& parameters);

}  // namespace skyward::provider::aws

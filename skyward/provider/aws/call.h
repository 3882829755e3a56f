#pragma once

// One signed request to an Amazon service (provider/rest/exchange.h). Requests are retried even if
// the service may have received them, so each one that creates something must carry a client token,
// or a name that there cannot be twice.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/provider/aws/api_error.h"
#include "skyward/provider/aws/configuration.h"
#include "skyward/provider/aws/sigv4.h"
#include "skyward/provider/rest/exchange.h"

namespace skyward::provider::aws {

struct ApiCall {
  std::string endpoint{};      // "https://host[:port]"
  std::string region{};        // to sign for
  std::string signing_name{};  // "ec2"; empty: not signed
  std::string method = "POST";
  std::string path = "/";
  std::string query{};
  io::HttpHeaders headers{};
  std::string body{};
  Duration time_limit = std::chrono::seconds(30);  // of one try
};

// How far Amazon's clock is ahead of this computer's.
struct ClockOffset {
  std::int64_t seconds = 0;            // used for signing; learnt from a refusal
  std::optional<std::int64_t> told{};  // from the date of the last reply
};

// The reply, if its status is 2xx. `keys` may be null for calls that are not signed.
ApiResult<io::HttpReply> send_call(const World& world, const Configuration& configuration,
                                   const ApiCall& call, const Keys* keys, ClockOffset& clock,
                                   const RetryRules& rules, Time deadline);

// Parameters for a query service, in order.
using Parameters = std::vector<std::pair<std::string, std::string>>;
std::string form_encode(const Parameters& parameters);

}  // namespace skyward::provider::aws

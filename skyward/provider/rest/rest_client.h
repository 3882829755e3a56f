#pragma once

// A client for clouds that speak JSON over HTTP. It adds the account's credentials, respects rate
// limits, reads replies without ever throwing, and follows lists from page to page.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/provider/json_read.h"
#include "skyward/provider/rest/exchange.h"

namespace skyward::provider {

using Query = std::vector<std::pair<std::string, std::string>>;

struct RestRequest {
  std::string method = "GET";
  std::string path{};  // "/v2/droplets/7", encoded
  Query query{};       // not encoded
  std::optional<nlohmann::json> body{};
  // Empty: `safe` for GET and DELETE, `once_then_look` for all others.
  std::optional<Repeat> repeat{};
  // Besides the account's own; instead of it, where the account has no gap.
  std::vector<RateLimit> limits{};
};

struct RestReply {
  int status = 0;
  std::string text{};
  nlohmann::json json{};  // null if the text is not JSON
};

// An account at a cloud: its address, its credentials and its limits.
struct RestAccount {
  std::string base_url{};  // "https://api.example.com", no slash at its end
  // The value of the header "Authorization". `renew`: the cloud refused the last one. Empty: no
  // header.
  std::function<Result<std::string>(bool renew, Time deadline)> authorization{};
  // The cloud's refusal; empty for success. It reads every answer; `json` is null if that is not
  // JSON.
  std::function<std::optional<ApiError>(const io::HttpReply& reply, const nlohmann::json& json)>
      read_error{};
  Duration gap{};                                       // between any two requests
  Duration request_timeout = std::chrono::seconds(30);  // of one try
  std::string ca_file{};  // trusted instead of the system's certificates
  std::size_t max_reply_bytes = std::size_t{16} << 20;
};

// The same account with this token.
RestAccount with_token(RestAccount account, const std::string& token);

// How this computer signs in to an account.
struct RestAccess {
  RestAccount account{};
  std::string origin{};  // of the credentials, for people
  std::string user{};    // digits that stand for the account, where the API tells nothing about it
};

class RestClient {
 public:
  // The world outlives this.
  RestClient(const World& world, RestAccount account)
      : world_(world), account_(std::move(account)) {}

  ApiResult<RestReply> send(const RestRequest& request, Time deadline);

  // The items of all pages. `take` adds a page's items and returns the request for the next page,
  // empty after the last. It fails with broken_page() if the page is not a list: a list that could
  // not be read never counts as empty. Fails after more pages than any list can have.
  using TakePage = std::function<ApiResult<std::optional<RestRequest>>(
      const nlohmann::json& page, std::vector<nlohmann::json>& items)>;
  ApiResult<std::vector<nlohmann::json>> list(RestRequest first, const TakePage& take,
                                              Time deadline);

  const World& world() const { return world_; }
  // Seconds by which the cloud's clock is ahead of this computer's, by the last answer's date. Zero
  // before the first answer, and where the clocks count as the same.
  std::int64_t clock_ahead_s() const { return clock_difference(clock_ahead_s_); }
  // Seconds since 1970 by the cloud's clock.
  std::int64_t wall_s() const { return world_.wall_s() + clock_ahead_s(); }

 private:
  const World& world_;
  const RestAccount account_;
  Spacing spacing_;
  std::int64_t clock_ahead_s_ = 0;
};

// The cloud's answer lacks what every such answer has: its fault.
ApiError broken_page(std::string_view what);

// Whether an address is this computer's own, which is reached without a proxy.
bool is_of_this_computer(std::string_view url);

// `url` will receive credentials, so it must be https, or http to this computer. Fails with
// `invalid`; `setting` is what the user set, for the message.
Status check_base_url(std::string_view url, std::string_view setting);
// The address of an API: that of the environment variable, checked, or the cloud's own. Without a
// slash at its end.
Result<std::string> base_url_of(const World& world, const char* variable, const char* own);

}  // namespace skyward::provider

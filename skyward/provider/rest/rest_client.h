#pragma once

// A cloud whose service takes and gives JSON over HTTP: requests with the account's credentials,
// replies as values that reading never throws on, lists that come in pages.

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
  // Besides that of the whole account.
  std::vector<RateLimit> limits{};
};

struct RestReply {
  int status = 0;
  io::HttpHeaders headers{};
  std::string text{};
  nlohmann::json json{};  // null when the text is none
};

// An account at a cloud: where requests go, and with what.
struct RestAccount {
  std::string base_url{};  // "https://api.example.com", no slash at its end
  // The value of the header "Authorization". `renew`: the last one was refused. Empty: none is
  // sent.
  std::function<Result<std::string>(bool renew, Time deadline)> authorization{};
  // The cloud's refusal; empty: it is none. Sees every answer; `json` is null when that is no JSON.
  std::function<std::optional<ApiError>(const io::HttpReply& reply, const nlohmann::json& json)>
      read_error{};
  Duration gap{};                                       // between any two requests
  Duration request_timeout = std::chrono::seconds(30);  // of one try
  std::string ca_file{};                                // instead of the system's certificates
  std::size_t max_reply_bytes = std::size_t{16} << 20;
};

class RestClient {
 public:
  // The world outlives this.
  RestClient(const World& world, RestAccount account)
      : world_(world), account_(std::move(account)) {}

  ApiResult<RestReply> send(const RestRequest& request, Time deadline);

  // The items of all pages. `take` adds a page's items to the result and gives the request for the
  // next page, empty after the last; it fails where the page is no list, with broken_page(). A list
  // that was not read is never an empty one. Fails on more pages than a list can have.
  using TakePage = std::function<ApiResult<std::optional<RestRequest>>(
      const nlohmann::json& page, std::vector<nlohmann::json>& items)>;
  ApiResult<std::vector<nlohmann::json>> list(RestRequest first, const TakePage& take,
                                              Time deadline);

  const World& world() const { return world_; }
  // Seconds by which the cloud's clock is ahead of this computer's, as the last answer told it.
  // Zero while none has, and where the clocks are taken as one.
  std::int64_t clock_ahead_s() const { return clock_difference(clock_ahead_s_); }
  // Seconds since 1970 by the cloud's clock.
  std::int64_t wall_s() const { return world_.wall_s() + clock_ahead_s(); }

 private:
  const World& world_;
  const RestAccount account_;
  Spacing spacing_;
  std::int64_t clock_ahead_s_ = 0;
};

// A fault of the cloud: an answer that does not have what it must have.
ApiError broken_page(std::string_view what);

// Whether an address is of this very computer, past every proxy.
bool is_of_this_computer(std::string_view url);

// Credentials travel to `url`: it must be https, or http to this very computer. Fails with
// `invalid`; `setting` is what names the address, for people.
Status check_base_url(std::string_view url, std::string_view setting);

}  // namespace skyward::provider

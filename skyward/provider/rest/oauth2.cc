#include "skyward/provider/rest/oauth2.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "skyward/provider/json_read.h"
#include "skyward/provider/rest/rest_client.h"

namespace skyward::provider {

namespace {

constexpr Duration kRenewBefore = std::chrono::seconds(30);
constexpr std::int64_t kDay_s = 86400;
// How long a token is used that does not say how long it holds.
constexpr std::int64_t kUnsaid_s = 300;

std::optional<ApiError> read_token_error(const io::HttpReply& reply) {
  if (reply.status >= 200 && reply.status < 300) return std::nullopt;
  const nlohmann::json json = read_json(reply.body);
  ApiError error;
  error.status = reply.status;
  error.code = json_text(json, "error");
  if (error.code.empty()) error.code = json_text(json, "code");
  error.message = json_text(json, "error_description");
  if (error.message.empty()) error.message = json_text(json, "message");
  if (error.message.empty()) error.message = fmt::format("HTTP status {}", reply.status);
  // A proxy's page says nothing of the secret.
  if (!error.code.empty()) error.heard = Heard::answered;
  const bool refused = reply.status == 400 || reply.status == 401 || reply.status == 403;
  if (refused && error.heard == Heard::answered) {
    error.refusal = Refusal::auth;
  } else if (reply.status == 429) {
    error.refusal = Refusal::rate_limited;
  }
  return error;
}

}  // namespace

Result<std::string> TokenSource::authorization(bool renew, Time deadline) {
  if (!renew && !token_.empty() && world_.now() < renew_at_) return "Bearer " + token_;
  io::HttpRequest request;
  request.method = "POST";
  request.url = credentials_.token_url;
  request.ca_file = credentials_.ca_file;
  request.direct = is_of_this_computer(credentials_.token_url);
  request.headers = {{"Content-Type", "application/json"}, {"Accept", "application/json"}};
  request.body = json_line({{"grant_type", "client_credentials"},
                            {"client_id", credentials_.id},
                            {"client_secret", credentials_.secret}});
  const Time asked = world_.now();
  Exchange exchange;
  exchange.request = [&] { return request; };
  exchange.read_error = read_token_error;
  exchange.time_limit = credentials_.request_timeout;
  const auto reply = perform(world_, exchange, deadline);
  if (!reply) {
    Error why = to_error(reply.error(), "the request for a token");
    if (reply.error().refusal == Refusal::auth) {
      why.hint = "check the client id and its secret: one of them is wrong or was revoked";
    }
    return std::unexpected(std::move(why));
  }
  const nlohmann::json json = read_json(reply->body);
  std::string token = json_text(json, "access_token");
  if (token.empty()) {
    return fail(ErrorKind::unavailable, "the request for a token: the reply has none in it",
                "try again");
  }
  const Duration lives = std::chrono::seconds(
      std::clamp<std::int64_t>(json_whole(json, "expires_in").value_or(kUnsaid_s), 0, kDay_s));
  token_ = std::move(token);
  renew_at_ = asked + std::max(lives - kRenewBefore, lives / 2);
  return "Bearer " + token_;
}

}  // namespace skyward::provider

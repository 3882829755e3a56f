#include "skyward/provider/rest/rest_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace skyward::provider {

namespace {

// The longest lists are those of a market's offers, in pages of 25 and more.
constexpr int kMostPages = 400;
// The limit that all requests of an account share.
constexpr std::string_view kAccount = "the account";
// Of a cloud that says "too many requests", and not for how long.
constexpr Duration kLeastPause = std::chrono::seconds(1);

// "host:port" of what follows "https://".
std::string_view site_of(std::string_view rest) {
  return rest.substr(0, rest.find_first_of("/?#"));
}

std::string url_of(const std::string& base, const RestRequest& request) {
  std::string url = base + request.path;
  char separator = '?';
  for (const auto& [name, value] : request.query) {
    url += separator;
    url += io::percent_encode(name) + "=" + io::percent_encode(value);
    separator = '&';
  }
  return url;
}

// A 429 is often the plain text of what is in front of the cloud. Whoever sends it, the request did
// nothing.
std::optional<ApiError> read_refusal(const RestAccount& account, const io::HttpReply& reply,
                                     const nlohmann::json& json) {
  auto error = account.read_error(reply, json);
  if (error && reply.status == 429) error->heard = Heard::answered;
  return error;
}

}  // namespace

ApiResult<RestReply> RestClient::send(const RestRequest& request, Time deadline) {
  io::HttpRequest out;
  out.method = request.method;
  out.url = url_of(account_.base_url, request);
  out.ca_file = account_.ca_file;
  out.direct = is_of_this_computer(account_.base_url);
  out.max_reply_bytes = account_.max_reply_bytes;
  out.headers = {{"Accept", "application/json"}, {"User-Agent", "skyward/" SKYWARD_VERSION}};
  if (request.body) {
    out.headers.emplace_back("Content-Type", "application/json");
    out.body = json_line(*request.body);
  }
  std::string authorization;
  const auto authorize = [&](bool renew) -> Status {
    if (!account_.authorization) return {};
    auto value = account_.authorization(renew, deadline);
    if (!value) return fail(value);
    authorization = *std::move(value);
    return {};
  };
  if (Status able = authorize(false); !able) return std::unexpected(not_sent(able.error()));

  bool renewed = false;
  Status renewal;
  Exchange exchange;
  exchange.request = [&] {
    io::HttpRequest signed_request = out;
    if (!authorization.empty()) signed_request.headers.emplace_back("Authorization", authorization);
    return signed_request;
  };
  RestReply answer;
  exchange.read_error = [&](const io::HttpReply& reply) {
    if (const auto told_s = parse_http_date(reply.header("date"))) {
      clock_ahead_s_ = *told_s - world_.wall_s();
    }
    answer.json = read_json(reply.body);
    return read_refusal(account_, reply, answer.json);
  };
  exchange.mend = [&](const io::HttpReply& reply, const ApiError&) {
    if (reply.status != 401 || renewed) return false;
    renewed = true;
    const std::string refused = authorization;
    renewal = authorize(true);
    return renewal && authorization != refused;
  };
  const bool repeatable = request.method == "GET" || request.method == "DELETE";
  exchange.repeat = request.repeat.value_or(repeatable ? Repeat::safe : Repeat::once_then_look);
  exchange.time_limit = account_.request_timeout;
  exchange.spacing = &spacing_;
  exchange.limits = request.limits;
  // Where an account has no gap of its own, a pause is for requests of that kind alone.
  if (account_.gap > Duration{} || exchange.limits.empty()) {
    exchange.limits.push_back({.name = std::string(kAccount), .gap = account_.gap});
  }
  exchange.asked_pause = [&](const io::HttpReply& reply) {
    const Duration asked = asked_pause(world_, reply);
    return reply.status == 429 ? std::max(asked, kLeastPause) : asked;
  };
  auto reply = perform(world_, exchange, deadline);
  if (!reply && !renewal) {
    // The old token was refused, and nobody gives a new one: that is the trouble.
    ApiError why = not_sent(renewal.error());
    why.maybe_done = reply.error().maybe_done;
    return std::unexpected(std::move(why));
  }
  if (!reply) return std::unexpected(std::move(reply.error()));
  answer.status = reply->status;
  answer.text = std::move(reply->body);
  return answer;
}

ApiResult<std::vector<nlohmann::json>> RestClient::list(RestRequest request, const TakePage& take,
                                                        Time deadline) {
  std::vector<nlohmann::json> items;
  for (int page = 0; page < kMostPages; ++page) {
    auto reply = send(request, deadline);
    if (!reply) return std::unexpected(std::move(reply.error()));
    auto next = take(reply->json, items);
    if (!next) return std::unexpected(std::move(next.error()));
    if (!*next) return items;
    request = **std::move(next);
  }
  return std::unexpected(broken_page(fmt::format("the list at {} does not end", request.path)));
}

ApiError broken_page(std::string_view what) {
  return {.message = std::string(what), .hint = "try again"};
}

bool is_of_this_computer(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return false;
  const std::string_view site = site_of(url.substr(scheme + 3));
  const std::string_view host =
      site.starts_with('[') ? site.substr(0, site.find(']') + 1) : site.substr(0, site.find(':'));
  return !site.contains('@') && (host == "127.0.0.1" || host == "localhost" || host == "[::1]");
}

Status check_base_url(std::string_view url, std::string_view setting) {
  constexpr std::string_view kTls = "https://";
  constexpr std::string_view kClear = "http://";
  const auto refuse = [&](std::string_view why) {
    return fail(ErrorKind::invalid, fmt::format("{}: \"{}\" {}", setting, url, why),
                "give an address that begins with https://, or leave it out");
  };
  if (url.ends_with('/')) return refuse("ends with a slash");
  const bool tls = url.starts_with(kTls);
  if (!tls && !url.starts_with(kClear)) return refuse("is not an address");
  const std::string_view site = site_of(url.substr(tls ? kTls.size() : kClear.size()));
  // A user before an "@" makes one host look like another.
  if (site.empty() || site.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                             "0123456789.-:[]") != std::string_view::npos) {
    return refuse("names no host");
  }
  if (tls || is_of_this_computer(url)) return {};
  return refuse("would send the account's key unencrypted");
}

RestAccount with_token(RestAccount account, const std::string& token) {
  account.authorization = [value = "Bearer " + token](bool, Time) -> Result<std::string> {
    return value;
  };
  return account;
}

Result<std::string> base_url_of(const World& world, const char* variable, const char* own) {
  std::string url = world.variable(variable).value_or(own);
  if (url.ends_with('/')) url.pop_back();
  if (Status safe = check_base_url(url, fmt::format("${}", variable)); !safe) return fail(safe);
  return url;
}

}  // namespace skyward::provider

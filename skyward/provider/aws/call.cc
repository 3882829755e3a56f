#include "skyward/provider/aws/call.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "skyward/provider/rest/rest_client.h"

namespace skyward::provider::aws {

namespace {

io::HttpRequest to_request(const World& world, const Configuration& configuration,
                           const ApiCall& call, const Keys* keys, const ClockOffset& clock) {
  io::HttpRequest request;
  request.method = call.method;
  request.url = call.endpoint + call.path + (call.query.empty() ? "" : "?" + call.query);
  request.body = call.body;
  request.direct = is_of_this_computer(call.endpoint);
  request.ca_file = ca_bundle(world, configuration);
  request.headers = call.headers;
  request.headers.emplace_back("User-Agent", "skyward/" SKYWARD_VERSION);
  if (call.signing_name.empty() || keys == nullptr) return request;
  Signable signable{.method = call.method,
                    .path = call.path,
                    .query = call.query,
                    .headers = request.headers,
                    .body = call.body};
  const std::size_t host = call.endpoint.find("://");
  signable.headers.emplace_back("Host", call.endpoint.substr(host + 3));
  const SigningScope scope{.region = call.region,
                           .service = call.signing_name,
                           .time_s = world.wall_s() + clock.seconds};
  request.headers = sign(signable, *keys, scope).headers;
  return request;
}

// True when a refusal was for our clock, and the reply's date says how far it is off.
bool learn_clock(const World& world, const io::HttpReply& reply, const ApiError& error,
                 ClockOffset& clock) {
  constexpr std::array<std::string_view, 5> kClockCodes = {"RequestExpired", "RequestTimeTooSkewed",
                                                           "SignatureDoesNotMatch", "AuthFailure",
                                                           "InvalidSignatureException"};
  constexpr std::int64_t kSkew_s = 240;  // Amazon allows five minutes
  bool may_be = false;
  for (const std::string_view code : kClockCodes) may_be = may_be || error.code == code;
  const auto date = parse_http_date(reply.header("date"));
  if (!may_be || !date) return false;
  const std::int64_t offset = *date - world.wall_s();
  if (std::abs(offset - clock.seconds) < kSkew_s) return false;
  clock.seconds = offset;
  return true;
}

}  // namespace

ApiResult<io::HttpReply> send_call(const World& world, const Configuration& configuration,
                                   const ApiCall& call, const Keys* keys, ClockOffset& clock,
                                   const RetryRules& rules, Time deadline) {
  const auto look_at_clock = [&](const io::HttpReply& reply) {
    if (const auto date = parse_http_date(reply.header("date"))) {
      clock.told = *date - world.wall_s();
    }
  };
  bool clock_was_set = false;
  Exchange exchange;
  exchange.request = [&] { return to_request(world, configuration, call, keys, clock); };
  exchange.read_error = [&](const io::HttpReply& reply) -> std::optional<ApiError> {
    look_at_clock(reply);
    if (reply.status >= 200 && reply.status < 300) return std::nullopt;
    return read_error(reply);
  };
  exchange.mend = [&](const io::HttpReply& reply, const ApiError& error) {
    if (clock_was_set) return false;
    return clock_was_set = learn_clock(world, reply, error, clock);
  };
  exchange.time_limit = call.time_limit;
  exchange.rules = rules;
  auto reply = perform(world, exchange, deadline);
  if (!reply && reply.error().status == 0) add_region_hint(reply.error());
  return reply;
}

std::string form_encode(const Parameters& parameters) {
  std::string out;
  for (const auto& [name, value] : parameters) {
    if (!out.empty()) out += '&';
    out += io::percent_encode(name) + "=" + io::percent_encode(value);
  }
  return out;
}

}  // namespace skyward::provider::aws

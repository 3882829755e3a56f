#include "skyward/provider/aws/call.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace skyward::provider::aws {

namespace {

constexpr int kMostLateAnswers = 3;

// Seconds since 1970 of "Tue, 14 Nov 2023 22:13:20 GMT".
std::optional<std::int64_t> parse_http_date(std::string_view text) {
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  if (text.size() != 29 || !text.ends_with(" GMT")) return std::nullopt;
  const auto number = [&](std::size_t begin, std::size_t size) {
    int value = -1;
    std::from_chars(text.data() + begin, text.data() + begin + size, value);
    return value;
  };
  const std::size_t month = kMonths.find(text.substr(8, 3));
  if (month == std::string_view::npos || month % 3 != 0) return std::nullopt;
  using namespace std::chrono;
  const year_month_day date{year(number(12, 4)), std::chrono::month(unsigned(month / 3 + 1)),
                            day(static_cast<unsigned>(number(5, 2)))};
  if (!date.ok()) return std::nullopt;
  return sys_days(date).time_since_epoch().count() * 86400LL + number(17, 2) * 3600 +
         number(20, 2) * 60 + number(23, 2);
}

Duration asked_pause(const io::HttpReply& reply) {
  const std::string_view text = reply.header("retry-after");
  int seconds = 0;
  std::from_chars(text.data(), text.data() + text.size(), seconds);
  return std::chrono::seconds(seconds > 0 ? seconds : 0);
}

io::HttpRequest to_request(const World& world, const ApiCall& call, const Keys* keys,
                           const ClockOffset& clock) {
  io::HttpRequest request;
  request.method = call.method;
  request.url = call.endpoint + call.path + (call.query.empty() ? "" : "?" + call.query);
  request.body = call.body;
  request.direct = call.direct;
  request.ca_file = call.ca_file;
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

ApiResult<io::HttpReply> send_call(const World& world, const ApiCall& call, const Keys* keys,
                                   ClockOffset& clock, const RetryRules& rules, Time deadline) {
  Retries retries(world, rules, deadline);
  bool clock_was_set = false;
  int late_answers = 0;
  bool maybe_done = false;
  while (true) {
    const Time until = std::min(deadline, world.now() + call.time_limit);
    Result<io::HttpReply> reply = world.http->send(to_request(world, call, keys, clock), until);
    if (!reply) {
      // An answer that did not come in its time may come to the next try.
      const bool late = reply.error().kind == ErrorKind::timeout && world.now() < deadline &&
                        ++late_answers < kMostLateAnswers;
      const bool passing = reply.error().kind == ErrorKind::unavailable || late;
      maybe_done = true;
      if (passing && retries.again()) continue;
      return std::unexpected(no_answer(reply.error()));
    }
    if (const auto date = parse_http_date(reply->header("date"))) {
      clock.told = *date - world.wall_s();
    }
    if (reply->status >= 200 && reply->status < 300) return *std::move(reply);
    ApiError error = read_error(*reply);
    maybe_done = maybe_done || !is_refusal(error);
    error.maybe_done = maybe_done;
    if (!clock_was_set && learn_clock(world, *reply, error, clock)) {
      clock_was_set = true;
      continue;
    }
    const bool passing = reply->status >= 500 || is_throttling(error.code, reply->status) ||
                         error.code == "IDPCommunicationError";
    if (!passing || is_capacity(error.code) || !retries.again(asked_pause(*reply))) {
      return std::unexpected(std::move(error));
    }
  }
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

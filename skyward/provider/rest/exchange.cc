#include "skyward/provider/rest/exchange.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "skyward/spec/provider_settings.h"

namespace skyward::provider {

namespace {

constexpr int kMostLateAnswers = 3;
// The longest pause that the cloud, or a proxy on the way, can impose: all requests of the account
// wait for it, also those that terminate machines.
constexpr std::int64_t kLongestAskedPause_s = 60;

bool is_passing(const ApiError& error) {
  return error.refusal == Refusal::transient || error.refusal == Refusal::rate_limited;
}

}  // namespace

bool Spacing::await(const World& world, const std::vector<RateLimit>& limits, Time deadline) {
  Time from = world.now();
  for (const RateLimit& limit : limits) from = std::max(from, free_at_[limit.name]);
  if (from >= deadline) return false;
  if (from > world.now()) world.pause(from - world.now(), {});
  from = std::max(from, world.now());
  for (const RateLimit& limit : limits) free_at_[limit.name] = from + limit.gap;
  return true;
}

void Spacing::hold(const std::vector<RateLimit>& limits, Time until) {
  for (const RateLimit& limit : limits) {
    Time& free_at = free_at_[limit.name];
    free_at = std::max(free_at, until);
  }
}

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

std::int64_t clock_difference(std::int64_t ahead_s) {
  return std::abs(ahead_s) > kSameClock_s ? ahead_s : 0;
}

Duration asked_pause(const World& world, const io::HttpReply& reply) {
  const std::string_view text = reply.header("retry-after");
  std::int64_t seconds = 0;
  if (const auto date = parse_http_date(text)) {
    // By the cloud's own clock, which may differ from ours.
    seconds = *date - parse_http_date(reply.header("date")).value_or(world.wall_s());
  } else {
    double asked = 0;
    std::from_chars(text.data(), text.data() + text.size(), asked);
    asked = std::clamp(asked, 0.0, static_cast<double>(kLongestAskedPause_s));
    seconds = static_cast<std::int64_t>(std::ceil(asked));
  }
  return std::chrono::seconds(std::clamp<std::int64_t>(seconds, 0, kLongestAskedPause_s));
}

ApiResult<io::HttpReply> perform(const World& world, const Exchange& exchange, Time deadline) {
  Retries retries(world, exchange.rules, deadline);
  const bool once = exchange.repeat == Repeat::once_then_look;
  int late_answers = 0;
  bool maybe_done = false;
  while (true) {
    if (exchange.spacing != nullptr && !exchange.spacing->await(world, exchange.limits, deadline)) {
      ApiError error =
          not_sent({ErrorKind::timeout, "the cloud allows no further request before the deadline",
                    "give it more time, or make fewer requests at once with this account"});
      error.refusal = Refusal::rate_limited;
      error.maybe_done = maybe_done;
      return std::unexpected(std::move(error));
    }
    const Time until = std::min(deadline, world.now() + exchange.time_limit);
    io::HttpRequest request = exchange.request();
    request.fresh_connection = once;
    Result<io::HttpReply> reply = world.http->send(request, until);
    if (!reply) {
      // An answer that did not come in its time may come to the next try.
      const bool late = reply.error().kind == ErrorKind::timeout && world.now() < deadline &&
                        ++late_answers < kMostLateAnswers;
      ApiError silent = no_answer(reply.error());
      if (reply.error().kind == ErrorKind::denied) {
        // A certificate, of a hotel's network, say: it may pass, and the credentials are not to
        // blame.
        silent.refusal = Refusal::transient;
        silent.own_kind = ErrorKind::unavailable;
      }
      maybe_done = maybe_done || silent.maybe_done;
      silent.maybe_done = maybe_done;
      const bool passing = reply.error().kind == ErrorKind::unavailable || late;
      if (passing && !once && retries.again()) continue;
      return std::unexpected(std::move(silent));
    }
    auto refused = exchange.read_error(*reply);
    if (!refused) return *std::move(reply);
    ApiError& error = *refused;
    // Whoever is between here and the cloud may answer 404: it takes the cloud to say that
    // something is gone.
    if (error.refusal == Refusal::not_found && error.heard == Heard::unknown) {
      error.refusal = Refusal::transient;
    }
    maybe_done = maybe_done || !is_certain(error);
    error.maybe_done = maybe_done;
    if (exchange.mend && (!once || !maybe_done) && exchange.mend(*reply, error)) continue;
    const Duration pause =
        exchange.asked_pause ? exchange.asked_pause(*reply) : asked_pause(world, *reply);
    if (exchange.spacing != nullptr && pause > Duration{}) {
      exchange.spacing->hold(exchange.limits, world.now() + pause);
    }
    const bool throttled = error.refusal == Refusal::rate_limited;
    if (!is_passing(error) || (once && maybe_done) || !retries.again(pause, throttled)) {
      return std::unexpected(std::move(error));
    }
  }
}

Duration request_timeout(const ProviderSpec& spec) {
  return from_seconds(std::max(1.0, number_setting(spec, "request_timeout")));
}

}  // namespace skyward::provider

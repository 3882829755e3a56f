#include "skyward/provider/rest/exchange.h"

#include <algorithm>
#include <charconv>
#include <chrono>

namespace skyward::provider {

namespace {

constexpr int kMostLateAnswers = 3;
constexpr std::int64_t kLongestAskedPause_s = 3600;

bool is_passing(const ApiError& error) {
  return error.refusal == Refusal::transient || error.refusal == Refusal::rate_limited;
}

}  // namespace

bool Spacing::await(const World& world, std::string_view endpoint, Duration gap, Time deadline) {
  auto at = free_at_.find(endpoint);
  if (at == free_at_.end()) at = free_at_.emplace(endpoint, world.now()).first;
  const Time from = std::max(at->second, world.now());
  if (from >= deadline) return false;
  if (from > world.now()) world.pause(from - world.now(), {});
  at->second = std::max(from, world.now()) + gap;
  return true;
}

void Spacing::hold(std::string_view endpoint, Time until) {
  const auto at = free_at_.find(endpoint);
  if (at == free_at_.end()) {
    free_at_.emplace(endpoint, until);
  } else {
    at->second = std::max(at->second, until);
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

Duration asked_pause(const World& world, const io::HttpReply& reply) {
  const std::string_view text = reply.header("retry-after");
  std::int64_t seconds = 0;
  if (const auto date = parse_http_date(text)) {
    // By the cloud's own clock, which may differ from ours.
    seconds = *date - parse_http_date(reply.header("date")).value_or(world.wall_s());
  } else {
    std::from_chars(text.data(), text.data() + text.size(), seconds);
  }
  return std::chrono::seconds(std::clamp<std::int64_t>(seconds, 0, kLongestAskedPause_s));
}

ApiResult<io::HttpReply> perform(const World& world, const Exchange& exchange, Time deadline) {
  Retries retries(world, exchange.rules, deadline);
  const bool once = exchange.repeat == Repeat::once_then_look;
  int late_answers = 0;
  bool maybe_done = false;
  while (true) {
    if (exchange.spacing != nullptr &&
        !exchange.spacing->await(world, exchange.endpoint, exchange.gap, deadline)) {
      ApiError error{.refusal = Refusal::rate_limited,
                     .message = "the cloud allows no further request before the deadline",
                     .kind = ErrorKind::timeout};
      error.code = "not sent";
      error.maybe_done = maybe_done;
      return std::unexpected(std::move(error));
    }
    const Time until = std::min(deadline, world.now() + exchange.time_limit);
    Result<io::HttpReply> reply = world.http->send(exchange.request(), until);
    if (!reply) {
      // An answer that did not come in its time may come to the next try.
      const bool late = reply.error().kind == ErrorKind::timeout && world.now() < deadline &&
                        ++late_answers < kMostLateAnswers;
      maybe_done = true;
      const bool passing = reply.error().kind == ErrorKind::unavailable || late;
      if (passing && !once && retries.again()) continue;
      return std::unexpected(no_answer(reply.error()));
    }
    if (reply->status >= 200 && reply->status < 300) return *std::move(reply);
    ApiError error = exchange.read_error(*reply);
    maybe_done = maybe_done || !is_certain(error);
    error.maybe_done = maybe_done;
    if (exchange.mend && (!once || !maybe_done) && exchange.mend(*reply, error)) continue;
    const Duration pause = asked_pause(world, *reply);
    if (exchange.spacing != nullptr && pause > Duration{}) {
      exchange.spacing->hold(exchange.endpoint, world.now() + pause);
    }
    if (!is_passing(error) || (once && maybe_done) || !retries.again(pause)) {
      return std::unexpected(std::move(error));
    }
  }
}

}  // namespace skyward::provider

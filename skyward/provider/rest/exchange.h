#pragma once

// One request to a cloud and its answer. It is retried while a retry can help and cannot do harm,
// and never faster than the cloud allows.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/rest/api_error.h"
#include "skyward/provider/retry.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider {

// Whether a request may be sent twice.
enum class Repeat : std::uint8_t {
  safe,  // it reads, deletes, or carries an idempotency token
  // It creates something, and a second one would create another. When the outcome is unknown
  // (ApiError::maybe_done), the caller looks for what was created.
  once_then_look,
};

// A cloud's rate limit for requests of one kind: they are sent at least `gap` apart, and a pause
// that the cloud asks for holds for all of them.
struct RateLimit {
  std::string name{};
  Duration gap{};
};

// Keeps requests within their rate limits. Shared by all requests of one account.
class Spacing {
 public:
  // Waits until a request under all these limits may be sent, and counts it as sent. Returns false
  // at once if that would be after the deadline.
  bool await(const World& world, const std::vector<RateLimit>& limits, Time deadline);
  // The cloud asked for a pause.
  void hold(const std::vector<RateLimit>& limits, Time until);

 private:
  std::map<std::string, Time, std::less<>> free_at_;
};

struct Exchange {
  // Called for each try, since a signature is valid only for a moment.
  std::function<io::HttpRequest()> request;
  // The cloud's refusal; empty for success. It reads every answer, since some clouds refuse with
  // status 200.
  std::function<std::optional<ApiError>(const io::HttpReply&)> read_error;
  // Removes the cause of a refusal (an expired token, a wrong clock); true: the request is sent
  // again at once. It returns false where it cannot help, and the second time. Empty: it never can.
  std::function<bool(const io::HttpReply&, const ApiError&)> mend{};
  Repeat repeat = Repeat::safe;
  Duration time_limit = std::chrono::seconds(30);  // of one try
  RetryRules rules{};
  // The pause that a refusal asks for; empty: asked_pause().
  std::function<Duration(const io::HttpReply&)> asked_pause{};
  // Null: no rate limits.
  Spacing* spacing = nullptr;
  std::vector<RateLimit> limits{};
};

// How long one try of a request may take, by the setting "request_timeout".
Duration request_timeout(const ProviderSpec& spec);

ApiResult<io::HttpReply> perform(const World& world, const Exchange& exchange, Time deadline);

// Clocks that differ by less count as the same.
inline constexpr std::int64_t kSameClock_s = 120;
// `ahead_s`, or zero where the clocks count as the same.
std::int64_t clock_difference(std::int64_t ahead_s);
// "Tue, 14 Nov 2023 22:13:20 GMT", as in the header "date", in seconds since 1970.
std::optional<std::int64_t> parse_http_date(std::string_view text);
// The pause that an answer asks for in "retry-after", in seconds or as a date: rounded up to whole
// seconds, at most a minute, zero without one.
Duration asked_pause(const World& world, const io::HttpReply& reply);

}  // namespace skyward::provider

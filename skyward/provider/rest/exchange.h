#pragma once

// One request to a cloud and its answer: sent again while that makes sense and does no harm, and
// never faster than the cloud allows.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/rest/api_error.h"
#include "skyward/provider/retry.h"

namespace skyward::provider {

// Whether a request may be sent twice.
enum class Repeat : std::uint8_t {
  safe,  // it reads, deletes, or carries a token by which the cloud knows it again
  // It makes something, and twice would make two. After an answer that leaves open whether it was
  // obeyed (ApiError::maybe_done), the caller looks for what was made.
  once_then_look,
};

// A limit that a cloud sets on requests of one kind: they keep `gap` apart, and a pause that it
// asks for holds for all of them.
struct RateLimit {
  std::string name{};
  Duration gap{};
};

// Keeps requests within their limits. Shared by the requests of one account.
class Spacing {
 public:
  // Waits until a request under all these limits may be sent, and counts it as sent. False, at
  // once, when that is not before the deadline.
  bool await(const World& world, const std::vector<RateLimit>& limits, Time deadline);
  // The cloud asked for a pause.
  void hold(const std::vector<RateLimit>& limits, Time until);

 private:
  std::map<std::string, Time, std::less<>> free_at_;
};

struct Exchange {
  // Made for each try: a signature holds for its moment.
  std::function<io::HttpRequest()> request;
  // The cloud's refusal; empty: the answer is what was asked for. Sees every answer, since some
  // clouds refuse with a status of 200.
  std::function<std::optional<ApiError>(const io::HttpReply&)> read_error;
  // Removes the cause of a refusal (a token that has expired, a wrong clock), after which the
  // request is sent again at once. Says false where it cannot, and a second time. Empty: it never
  // can.
  std::function<bool(const io::HttpReply&, const ApiError&)> mend{};
  Repeat repeat = Repeat::safe;
  Duration time_limit = std::chrono::seconds(30);  // of one try
  RetryRules rules{};
  // How long a refusal asks to wait; empty: as asked_pause() reads it.
  std::function<Duration(const io::HttpReply&)> asked_pause{};
  // Null: requests are sent as they come.
  Spacing* spacing = nullptr;
  std::vector<RateLimit> limits{};
};

ApiResult<io::HttpReply> perform(const World& world, const Exchange& exchange, Time deadline);

// Clocks that differ by less are taken as one.
inline constexpr std::int64_t kSameClock_s = 120;
// By how many seconds a clock is ahead of another, as it counts: zero where they are taken as one.
std::int64_t clock_difference(std::int64_t ahead_s);
// Seconds since 1970 of "Tue, 14 Nov 2023 22:13:20 GMT", as the header "date" has it.
std::optional<std::int64_t> parse_http_date(std::string_view text);
// The pause that an answer asks for in "retry-after", in seconds or as a date; zero without one,
// at most an hour. Parts of a second count as a whole one.
Duration asked_pause(const World& world, const io::HttpReply& reply);

}  // namespace skyward::provider

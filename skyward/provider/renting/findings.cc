#include "skyward/provider/renting/findings.h"

#include <fmt/format.h>

#include <cstdlib>

namespace skyward::provider {

Finding finding_of(std::string_view what, const Error& why) {
  return {.what = std::string(what), .detail = why.message, .hint = why.hint, .kind = why.kind};
}

Finding finding_of(const SettingOrigin& region) {
  return {.what = "region",
          .good = true,
          .detail = region.value.empty() ? std::string("any")
                                         : fmt::format("{} ({})", region.value, region.origin)};
}

std::optional<Finding> clock_finding(std::int64_t ahead_s) {
  if (ahead_s == 0) return std::nullopt;
  return Finding{.what = "clock",
                 .detail = fmt::format("this computer's is {} min {}", std::abs(ahead_s) / 60,
                                       ahead_s > 0 ? "slow" : "fast"),
                 .hint = "set it: 'skyward gc' uses it to tell which pools have expired"};
}

}  // namespace skyward::provider

#pragma once

// Findings that the checks of several clouds have in common (Diagnose in table.h).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "skyward/provider/rest/api_error.h"
#include "skyward/provider/table.h"

namespace skyward::provider {

// Whether a request was allowed; `detail` is what a good one shows.
template <typename T>
Finding finding_of(std::string_view what, const ApiResult<T>& answer,
                   std::string detail = "allowed") {
  if (answer) return {.what = std::string(what), .good = true, .detail = std::move(detail)};
  return {.what = std::string(what),
          .detail = answer.error().message,
          .hint = answer.error().hint,
          .kind = answer.error().kind()};
}

Finding finding_of(std::string_view what, const Error& why);

// The region, and where it is set.
Finding finding_of(const SettingOrigin& region);

// Nothing if this computer's clock is right. `ahead_s`: of the cloud's clock.
std::optional<Finding> clock_finding(std::int64_t ahead_s);

}  // namespace skyward::provider

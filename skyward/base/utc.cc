#include "skyward/base/utc.h"

#include <array>
#include <ctime>

namespace skyward {

std::string utc_moment(std::int64_t wall_s, const char* format) {
  const std::time_t moment{wall_s};
  std::tm parts{};
  if (::gmtime_r(&moment, &parts) == nullptr) return {};  // no year can be that far away
  std::array<char, 64> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format, &parts)};
}

}  // namespace skyward

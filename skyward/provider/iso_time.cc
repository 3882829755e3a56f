#include "skyward/provider/iso_time.h"

#include <charconv>
#include <chrono>

namespace skyward::provider {

std::optional<std::int64_t> parse_iso_time(std::string_view text) {
  if (text.size() < 20 || text[4] != '-' || text[10] != 'T') return std::nullopt;
  const auto number = [&](std::size_t begin, std::size_t size) {
    int value = -1;
    std::from_chars(text.data() + begin, text.data() + begin + size, value);
    return value;
  };
  using namespace std::chrono;
  const int month_number = number(5, 2);
  const int day_number = number(8, 2);
  if (month_number < 1 || day_number < 1) return std::nullopt;
  const year_month_day date{year(number(0, 4)), month(static_cast<unsigned>(month_number)),
                            day(static_cast<unsigned>(day_number))};
  if (!date.ok()) return std::nullopt;
  std::int64_t at = sys_days(date).time_since_epoch().count() * 86400LL + number(11, 2) * 3600LL +
                    number(14, 2) * 60LL + number(17, 2);
  const std::size_t zone = text.find_first_of("Z+-", 19);
  if (zone == std::string_view::npos) return std::nullopt;
  if (text[zone] != 'Z') {
    if (text.size() < zone + 6) return std::nullopt;
    const int offset = number(zone + 1, 2) * 3600 + number(zone + 4, 2) * 60;
    at -= text[zone] == '+' ? offset : -offset;
  }
  return at;
}

}  // namespace skyward::provider

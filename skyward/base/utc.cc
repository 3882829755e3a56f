#include "skyward/base/utc.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>

#include "skyward/base/text.h"

namespace skyward {

std::string utc_moment(std::int64_t wall_s, const char* format) {
  const std::time_t moment{wall_s};
  std::tm parts{};
  if (::gmtime_r(&moment, &parts) == nullptr) return {};  // no year can be that far away
  std::array<char, 64> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format, &parts)};
}

namespace {

constexpr std::size_t kWithoutZone = std::string_view("2021-09-21T23:34:52").size();
constexpr std::size_t kOffset = std::string_view("+02:00").size();

// The two digits at `begin`, at most `most`; -1 for anything else.
int two_digits(std::string_view text, std::size_t begin, int most) {
  const std::string_view digits = text.substr(begin, 2);
  if (digits.size() != 2 || !std::ranges::all_of(digits, is_digit)) return -1;
  const int value = 10 * (digits[0] - '0') + (digits[1] - '0');
  return value <= most ? value : -1;
}

bool has_signs(std::string_view text, std::string_view shape) {
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 'd' && text[i] != shape[i]) return false;
  }
  return true;
}

// Seconds that are added to UTC in the time zone that `text` ends with, behind a fraction.
std::optional<int> zone_offset_s(std::string_view text) {
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    while (!text.empty() && is_digit(text.front())) text.remove_prefix(1);
  }
  if (text == "Z") return 0;
  if (text.size() != kOffset || (text[0] != '+' && text[0] != '-') || text[3] != ':') {
    return std::nullopt;
  }
  const int hours = two_digits(text, 1, 23);
  const int minutes = two_digits(text, 4, 59);
  if (hours < 0 || minutes < 0) return std::nullopt;
  const int offset_s = hours * 3600 + minutes * 60;
  return text[0] == '+' ? offset_s : -offset_s;
}

}  // namespace

std::optional<std::int64_t> parse_moment(std::string_view text) {
  if (text.size() < kWithoutZone || !has_signs(text, "dddd-dd-ddTdd:dd:dd")) return std::nullopt;
  const int century = two_digits(text, 0, 99);
  const int year = two_digits(text, 2, 99);
  const int month = two_digits(text, 5, 12);
  const int day = two_digits(text, 8, 31);
  const int hour = two_digits(text, 11, 23);
  const int minute = two_digits(text, 14, 59);
  const int second = two_digits(text, 17, 60);  // 60: a leap second
  const auto offset_s = zone_offset_s(text.substr(kWithoutZone));
  if (std::min({century, year, month, day, hour, minute, second}) < 0 || !offset_s) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(100 * century + year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return ((days * 24 + hour) * 60 + minute) * 60 + second - *offset_s;
}

}  // namespace skyward

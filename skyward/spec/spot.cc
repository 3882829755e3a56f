#include "skyward/spec/spot.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string>
#include <system_error>

#include "skyward/spec/json_text.h"

namespace skyward {

namespace {
constexpr int kMostRetries = 10000;
}

Status validate(const Spot& spot) {
  if (!(spot.percentage >= 0 && spot.percentage <= 1)) {
    return fail(ErrorKind::invalid,
                fmt::format("spot={:g} is not a share: it must be from 0 to 1", spot.percentage),
                "0.8 asks for at least 80 % spot machines");
  }
  if (spot.retries < 0 || spot.retries > kMostRetries) {
    return fail(ErrorKind::invalid,
                fmt::format("spot: retries={} is out of range: it must be 0 to {}", spot.retries,
                            kMostRetries),
                "the default is 10 tries, one second apart");
  }
  if (spot.interval < Duration::zero()) {
    return fail(ErrorKind::invalid,
                fmt::format("spot: interval={:g} s is negative", seconds(spot.interval)),
                "give the number of seconds between tries");
  }
  return {};
}

Result<Spot> parse_spot(std::string_view text) {
  if (text == "always" || text == "always-spot" || text == "spot") return Spot::Always();
  if (text == "if-available" || text == "spot-if-available") return Spot::IfAvailable();
  if (text == "never" || text == "on-demand") return Spot::Never();
  if (text == "cheapest") return Spot::Cheapest();
  double share = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (error == std::errc() && end == text.data() + text.size()) return Spot::Percent(share);
  std::string shown;
  append_json_string(shown, text);
  return fail(ErrorKind::invalid, fmt::format("spot={} is not known", shown),
              "choose \"always\", \"if-available\", \"never\" or \"cheapest\", or the minimum "
              "share of spot machines, from 0 to 1");
}

int least_spot_count(const Spot& spot, int nodes) {
  if (spot.kind == SpotKind::always) return nodes;
  if (spot.kind != SpotKind::percent) return 0;
  // A share such as 0.1 × 10 is a little more than 1 in binary.
  return static_cast<int>(std::ceil(spot.percentage * nodes - 1e-9));
}

}  // namespace skyward

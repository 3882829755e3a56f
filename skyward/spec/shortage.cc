#include "skyward/spec/shortage.h"
#include "skyward/base/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>

namespace skyward {

namespace {

constexpr std::array<std::string_view, 6> kKinds = {"capacity", "spot_capacity", "spot_minimum",
                                                    "quota",    "region",        "no_match"};
constexpr char kBetween = '\n';

}  // namespace

std::string_view to_string(ShortageKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

Error with_shortage(Error error, const Shortage& shortage) {
  error.facts = {{"shortage", std::string(to_string(shortage.kind))},
                 {"requested", std::to_string(shortage.requested)},
                 {"got", std::to_string(shortage.got)},
                 {"region", shortage.region},
                 {"regions", fmt::format("{}", fmt::join(shortage.regions, "\n"))},
                 {"instance_type", shortage.instance_type},
                 {"offers", fmt::format("{}", fmt::join(shortage.offers, "\n"))}};
  return error;
}

std::optional<Shortage> shortage_of(const Error& error) {
  const auto text = [&](const char* name) { return value_at(error.facts, name); };
  const auto number = [&](const char* name) {
    const std::string digits = text(name);
    int value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  };
  const std::string kind = text("shortage");
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    if (kKinds[i] != kind) continue;
    return Shortage{.kind = static_cast<ShortageKind>(i),
                    .requested = number("requested"),
                    .got = number("got"),
                    .region = text("region"),
                    .regions = items_of(text("regions"), kBetween),
                    .instance_type = text("instance_type"),
                    .offers = items_of(text("offers"), kBetween)};
  }
  return std::nullopt;
}

}  // namespace skyward

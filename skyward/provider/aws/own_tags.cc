#include "skyward/provider/aws/own_tags.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "skyward/base/text.h"

namespace skyward::provider::aws {

namespace {

// Amazon allows 50 for each resource; Skyward sets seven on machines.
constexpr std::size_t kMostOwnTags = 43;

std::unexpected<Error> no_tag(std::string_view tag, std::string_view why) {
  return fail(ErrorKind::invalid, fmt::format("AWS: the tag \"{}\" is not valid: {}", tag, why),
              "give keys with their values: tags={\"CostCenter\": \"1234\"}");
}

}  // namespace

Result<Tags> own_tags(const ProviderSpec& settings) {
  Tags tags;
  for (const std::string& item : items_of(settings.setting("tags"), ',')) {
    const std::size_t equal = item.find('=');
    if (equal == std::string::npos) return no_tag(item, "it has no value (KEY=VALUE)");
    std::string key(trimmed(std::string_view(item).substr(0, equal)));
    if (key.empty()) return no_tag(item, "it has no key");
    if (lower(key).starts_with("aws:")) return no_tag(item, "such keys are Amazon's");
    if (key == "Name" || key.starts_with("skyward:")) {
      return no_tag(item, "Skyward sets this tag itself");
    }
    if (std::ranges::find(tags, key, &Tags::value_type::first) != tags.end()) {
      return no_tag(item, "its key was given before");
    }
    tags.emplace_back(std::move(key), trimmed(std::string_view(item).substr(equal + 1)));
  }
  if (tags.size() <= kMostOwnTags) return tags;
  return fail(
      ErrorKind::invalid,
      fmt::format("AWS: {} tags are too many: Amazon allows 50 for each machine, and Skyward "
                  "sets seven",
                  tags.size()),
      fmt::format("give at most {} tags", kMostOwnTags));
}

void add_own_tags(const ProviderSpec& settings, Tags& tags) {
  std::ranges::move(own_tags(settings).value_or(Tags()), std::back_inserter(tags));
}

}  // namespace skyward::provider::aws

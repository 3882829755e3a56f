#include "skyward/provider/aws/tags.h"

#include <charconv>

namespace skyward::provider::aws {

namespace {

// Others may write tags, and a pool's id becomes part of paths.
bool is_pool_id(std::string_view id) {
  constexpr std::size_t kMost = 64;
  return !id.empty() && id.size() <= kMost && id.front() != '-' &&
         id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-") == std::string_view::npos;
}

}  // namespace

Tags to_tags(const Mark& mark) {
  return {{"Name", "skyward-" + mark.pool},
          {kManagedTag, "true"},
          {kPoolTag, mark.pool},
          {kOwnerTag, mark.owner},
          {kExpiresTag, std::to_string(mark.expires_s)}};
}

std::optional<Mark> read_mark(const Tags& tags) {
  Mark mark;
  bool managed = false;
  for (const auto& [name, value] : tags) {
    if (name == kManagedTag) managed = value == "true";
    if (name == kPoolTag) mark.pool = value;
    if (name == kOwnerTag) mark.owner = value;
    if (name == kExpiresTag) {
      std::from_chars(value.data(), value.data() + value.size(), mark.expires_s);
    }
  }
  if (!managed || !is_pool_id(mark.pool) || mark.owner.empty() || mark.expires_s <= 0) {
    return std::nullopt;
  }
  return mark;
}

std::string owner_of(std::string_view arn) {
  if (arn.contains(":assumed-role/")) arn = arn.substr(0, arn.rfind('/'));
  return std::string(arn);
}

std::string account_of(std::string_view arn) {
  for (int colon = 0; colon < 4; ++colon) {
    const std::size_t at = arn.find(':');
    if (at == std::string_view::npos) return {};
    arn.remove_prefix(at + 1);
  }
  const std::string_view account = arn.substr(0, arn.find(':'));
  const bool is_number = account.find_first_not_of("0123456789") == std::string_view::npos;
  return is_number ? std::string(account) : std::string();
}

}  // namespace skyward::provider::aws

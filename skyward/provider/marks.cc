#include "skyward/provider/marks.h"

#include <fmt/format.h>

#include <charconv>

#include "skyward/io/own_process.h"

namespace skyward::provider {

bool is_pool_id(std::string_view id) {
  constexpr std::size_t kMost = 64;
  return !id.empty() && id.size() <= kMost && id.front() != '-' &&
         id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-") == std::string_view::npos;
}

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

std::string nodes_text(int first_node, int count) {
  if (count == 1) return std::to_string(first_node);
  return fmt::format("{}-{}", first_node, first_node + count - 1);
}

std::map<std::string, std::string> this_computer() {
  return {{"host", io::host_name()}, {"boot", io::boot_id()}};
}

bool opened_here(const LedgerPool& pool) {
  const std::string boot = io::boot_id();
  return pool.setting("host") == io::host_name() || (!boot.empty() && pool.setting("boot") == boot);
}

}  // namespace skyward::provider

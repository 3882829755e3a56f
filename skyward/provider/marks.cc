#include "skyward/provider/marks.h"

#include <fmt/format.h>

#include <charconv>

#include "skyward/base/check.h"
#include "skyward/base/hash.h"
#include "skyward/io/own_process.h"
#include "skyward/provider/open_pools.h"

namespace skyward::provider {

namespace {

constexpr std::string_view kNameBegin = "skyward-";
constexpr std::size_t kLongestName = 63;
constexpr std::size_t kOwnerDigits = 8;
constexpr std::size_t kComputerDigits = 16;

bool is_hex(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Up to the next '-', which goes too; empty where there is none.
std::string_view take_part(std::string_view& rest) {
  const std::size_t dash = rest.find('-');
  if (dash == std::string_view::npos) return {};
  const std::string_view part = rest.substr(0, dash);
  rest.remove_prefix(dash + 1);
  return part;
}

}  // namespace

std::string to_name(const MarkedName& name) {
  const Mark& mark = name.mark;
  std::string out =
      fmt::format("{}{}-{}-{:x}-{}", kNameBegin, mark.pool.substr(mark.pool.rfind('-') + 1),
                  mark.owner, mark.expires_s, name.rest);
  SKYWARD_CHECK(out.size() <= kLongestName, "{} is too long for a name", out);
  return out;
}

std::optional<MarkedName> read_name(std::string_view name, std::string_view provider) {
  if (name.size() > kLongestName || !name.starts_with(kNameBegin)) return std::nullopt;
  name.remove_prefix(kNameBegin.size());
  const std::string_view digits = take_part(name);
  const std::string_view owner = take_part(name);
  const std::string_view expires = take_part(name);
  MarkedName out{
      .mark = {.pool = fmt::format("{}-{}", provider, digits), .owner = std::string(owner)},
      .rest = std::string(name)};
  const char* const end = expires.data() + expires.size();
  const auto read = std::from_chars(expires.data(), end, out.mark.expires_s, 16);
  const bool whole = read.ec == std::errc() && read.ptr == end && out.mark.expires_s > 0;
  if (!whole || digits.empty() || !is_pool_id(out.mark.pool) || owner.size() != kOwnerDigits ||
      !is_hex(owner) || out.rest.empty()) {
    return std::nullopt;
  }
  return out;
}

std::string owner_digits(std::string_view id) {
  return to_hex(sha256(as_bytes(id))).substr(0, kOwnerDigits);
}

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

std::map<std::string, std::string> this_computer(const World& world) {
  const std::string id = io::machine_id();
  // It must not be passed on as it is.
  const std::string hash = id.empty() ? id : to_hex(sha256(as_bytes("skyward " + id)));
  return {{"host", io::host_name()},
          {"boot", io::boot_id()},
          {"computer", hash.substr(0, kComputerDigits)},
          {kLedgerSetting, ledger_number(world)}};
}

bool opened_here(const LedgerPool& pool, std::int64_t booted_s,
                 const std::map<std::string, std::string>& here) {
  const auto ledger = here.find(kLedgerSetting);
  const std::string its_ledger = pool.setting(kLedgerSetting);
  if (ledger != here.end() && !its_ledger.empty() && its_ledger != ledger->second) return false;
  const std::string& boot = here.at("boot");
  const std::string its_boot = pool.setting("boot");
  if (!boot.empty() && its_boot == boot) return true;  // containers: one kernel has all locks
  if (!boot.empty() && !its_boot.empty() && pool.opened_s > booted_s) return false;
  const std::string& computer = here.at("computer");
  const std::string its_computer = pool.setting("computer");
  if (!computer.empty() && !its_computer.empty() && computer != its_computer) return false;
  return pool.setting("host") == here.at("host");
}

bool opened_here(const LedgerPool& pool, const World& world) {
  return opened_here(pool, booted_s(world), this_computer(world));
}

}  // namespace skyward::provider

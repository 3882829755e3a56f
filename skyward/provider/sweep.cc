#include "skyward/provider/sweep.h"

#include <fmt/format.h>

namespace skyward::provider {

namespace {

// Clocks differ, and a machine ends itself in its own time first.
constexpr std::int64_t kGrace_s = 120;

}  // namespace

Verdict judge(const Resource& resource, const PoolFacts& facts, const std::string& owner,
              bool asked_for, std::int64_t now_s) {
  const std::int64_t left_s = resource.expires_s + kGrace_s - now_s;
  const bool expired = left_s <= 0;
  // Its agent or its timer switched it off, since it had lost its program.
  const bool switched_off = resource.stopped && !facts.ends_itself;
  const bool is_mine = resource.owner == owner;
  if (!is_mine && !(facts.by_credentials && (asked_for || expired || switched_off))) {
    const bool costs = facts.rented && (resource.kind == "instance" || resource.kind == "volume");
    const bool overdue = costs && (expired || switched_off);
    return {false,
            fmt::format("it belongs to {}{}", resource.owner,
                        overdue ? ": its time is over and it may cost money; run gc with its "
                                  "owner's credentials"
                                : ""),
            overdue};
  }
  if (facts.at_work) return {false, "its pool is open on this computer"};
  if (facts.opened_here && (is_mine || asked_for)) {
    return {true, "the program that opened its pool is gone"};
  }
  if (expired && (!facts.is_clock_unknown || resource.stopped)) {
    return {true, "its pool's time has expired"};
  }
  if (asked_for) return {true, "its removal was requested"};
  if (switched_off) return {true, "it is switched off, and still costs money"};
  const std::string limit = expired ? "" : fmt::format(" within {} min", left_s / 60 + 1);
  const std::string otherwise =
      facts.ends_itself ? fmt::format("it terminates itself{}, ", limit) : "";
  return {false, fmt::format("another computer may be using it; {}'skyward pool delete {}' "
                             "terminates it now",
                             otherwise, resource.pool)};
}

std::string_view to_string(SweepAction action) {
  switch (action) {
    case SweepAction::removed:
      return "removed";
    case SweepAction::would_remove:
      return "would remove";
    case SweepAction::kept:
      return "kept";
    case SweepAction::failed:
      return "failed";
    case SweepAction::skipped:
      return "skipped";
  }
  return "kept";
}

}  // namespace skyward::provider

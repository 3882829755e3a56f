#include "skyward/provider/pool_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace skyward::provider {

namespace {

// Machines of an open pool are looked at more often than this. When a pool closes, they may end
// themselves a moment before they are terminated: that is no end that nobody saw.
constexpr Duration kRarestLook = std::chrono::minutes(10);

bool is_called(const LedgerEntry& entry, const std::string& key_or_id) {
  return entry.id == key_or_id || (entry.id.empty() && entry.key == key_or_id);
}

}  // namespace

Status PoolBook::ask(LedgerEntry entry) {
  entry.pool = pool_;
  entry.asked_s = world_.wall_s();
  if (Status status = ledger_.ask(entry); !status) return status;
  asked_[entry.key] = world_.time_with_sleep();
  requested_.push_back(std::move(entry));
  return {};
}

Status PoolBook::made(const std::string& key, const std::vector<std::string>& ids) {
  // As in the ledger, an id that was told before does not count again.
  std::vector<std::string> fresh;
  for (const std::string& id : ids) {
    const bool is_known = std::ranges::any_of(
        requested_, [&](const LedgerEntry& one) { return one.key == key && one.id == id; });
    if (!is_known) fresh.push_back(id);
  }
  const auto asked = std::ranges::find_if(
      requested_, [&](const LedgerEntry& one) { return one.key == key && one.id.empty(); });
  if (asked != requested_.end()) {
    LedgerEntry entry = *asked;
    const int left = entry.count - static_cast<int>(fresh.size());
    entry.count = 1;
    if (left > 0) {
      asked->count = left;
    } else {
      requested_.erase(asked);
    }
    for (const std::string& id : fresh) {
      entry.id = id;
      requested_.push_back(entry);
      stays_.try_emplace(
          id,
          Stay{.asked = asked_[key], .seen = world_.time_with_sleep(), .seen_awake = world_.now()});
    }
  }
  return ledger_.made(pool_, key, ids);
}

void PoolBook::note_price(const std::string& id, MicroDollars hourly) {
  for (LedgerEntry& entry : requested_) {
    if (entry.id != id || std::exchange(entry.hourly_micro_dollars, hourly) == hourly) continue;
    (void)ledger_.price(pool_, id, hourly);  // else it keeps the offer's
  }
}

void PoolBook::note_taken_back(const std::string& id, Duration limit) {
  const auto stay = stays_.find(id);
  if (stay == stays_.end() || !stay->second.gone) return;
  if (*stay->second.gone - stay->second.asked < limit) {
    (void)ledger_.price(pool_, id, kTakenBackFree);
  }
}

void PoolBook::note_wasted(const std::vector<std::string>& ids) {
  for (const LedgerEntry& entry : requested_) {
    if (std::ranges::find(ids, entry.id) == ids.end()) continue;
    const bool known = std::ranges::find(wasted_, entry.id, &LedgerEntry::id) != wasted_.end();
    if (!known) wasted_.push_back(entry);
  }
}

bool PoolBook::has_leftovers() const {
  const auto is_unanswered = [](const LedgerEntry& entry) {
    return entry.kind == "instance" && entry.id.empty();
  };
  const auto stands = [](const LedgerEntry& entry) { return !entry.gone_s; };
  return std::ranges::any_of(requested_, is_unanswered) || std::ranges::any_of(wasted_, stands);
}

void PoolBook::gone(const std::vector<std::string>& keys_or_ids) {
  for (const std::string& one : keys_or_ids) {
    see_gone(one);
    std::erase_if(requested_, [&](const LedgerEntry& entry) { return is_called(entry, one); });
    for (LedgerEntry& entry : wasted_) {
      if (entry.id != one || entry.gone_s) continue;
      const auto end = ends_.find(one);
      entry.gone_s = end == ends_.end() ? world_.wall_s() : end->second.at_s;
    }
  }
  if (!record_gone(keys_or_ids)) {
    unrecorded_.insert(unrecorded_.end(), keys_or_ids.begin(), keys_or_ids.end());
  }
}

void PoolBook::see_gone(const std::string& id, const MachineEnd& end) {
  if (ends_.contains(id)) return;
  const Time now = world_.time_with_sleep();
  const auto stay = stays_.find(id);
  const bool is_known = stay != stays_.end();
  if (is_known && stay->second.gone) return;
  const Duration unseen = is_known ? now - stay->second.seen : Duration{};
  const Duration asleep = is_known ? unseen - (world_.now() - stay->second.seen_awake) : Duration{};
  Duration ago{};  // it ended, or must have
  if (end.told_s) {
    ago = std::chrono::seconds(world_.wall_s() - *end.told_s);
  } else if (end.unseen && longest_unseen_) {
    // While this computer was awake, the machine may have heard from it.
    ago = std::min(unseen - *longest_unseen_, asleep);
  }
  ago = std::max(ago, Duration{});
  if (is_known) ago = std::min(ago, now - stay->second.asked);
  if (is_known) stay->second.gone = now - ago;
  // Without looks at what stands, the pool notices an end soon while this computer is awake.
  const Duration unnoticed = longest_unseen_ ? unseen : asleep;
  const bool is_late = end.unseen && (!is_known || unnoticed >= kRarestLook);
  if (!end.told_s && !is_late) return;
  ends_[id] = {.at_s = world_.wall_s() - ago / std::chrono::seconds(1), .late = !end.told_s};
}

// What was missing for a while did not end.
void PoolBook::see_standing(const std::string& id) {
  const auto stay = stays_.find(id);
  if (stay == stays_.end()) return;
  stay->second.seen = world_.time_with_sleep();
  stay->second.seen_awake = world_.now();
  stay->second.missed = 0;
  const auto end = ends_.find(id);
  if (end == ends_.end() || !end->second.late) return;
  stay->second.gone.reset();
  ends_.erase(end);
}

void PoolBook::miss(const std::string& id) {
  const auto stay = stays_.find(id);
  if (stay == stays_.end() || !longest_unseen_) return;
  Stay& known = stay->second;
  ++known.missed;
  const Duration unseen = world_.time_with_sleep() - known.seen;
  if (unseen <= *longest_unseen_) return;
  // One look may be wrong about a machine that may have heard from this computer.
  const bool has_slept = unseen - (world_.now() - known.seen_awake) > *longest_unseen_;
  if (has_slept || known.missed > 1) see_gone(id, {.unseen = true});
}

std::vector<std::string> PoolBook::standing(const std::vector<std::string>& ids) const {
  std::vector<std::string> out;
  std::ranges::copy_if(ids, std::back_inserter(out), [this](const std::string& id) {
    const auto stay = stays_.find(id);
    return stay != stays_.end() && !stay->second.gone;
  });
  return out;
}

std::vector<Charge> PoolBook::times_of(const std::vector<std::string>& ids) const {
  const Time now = world_.time_with_sleep();
  std::vector<Charge> out;
  for (const std::string& id : ids) {
    const auto stay = stays_.find(id);
    if (stay == stays_.end()) continue;
    Charge charge{.instance = id, .began = now - stay->second.asked};
    if (stay->second.gone) charge.ended = now - *stay->second.gone;
    out.push_back(std::move(charge));
  }
  return out;
}

Status PoolBook::record_gone(const std::vector<std::string>& keys_or_ids) {
  std::map<std::int64_t, std::vector<std::string>> by_end;
  for (const std::string& one : keys_or_ids) {
    const auto end = ends_.find(one);
    if (end == ends_.end() || !end->second.late) {
      by_end[end == ends_.end() ? world_.wall_s() : end->second.at_s].push_back(one);
    } else if (Status told = ledger_.gone_by(pool_, one, end->second.at_s); !told) {
      return told;
    }
  }
  for (const auto& [at_s, ended] : by_end) {
    if (Status told = ledger_.gone(pool_, ended, at_s); !told) return told;
  }
  return {};
}

Duration PoolBook::age_of(const LedgerEntry& entry) const {
  const auto asked = asked_.find(entry.key);
  if (asked != asked_.end()) return world_.time_with_sleep() - asked->second;
  return std::chrono::seconds(world_.wall_s() - entry.asked_s);
}

std::vector<LedgerEntry> PoolBook::open_entries() {
  std::vector<LedgerEntry> out = requested_;
  const auto written = ledger_.entries(pool_, true);
  if (!written) return out;
  for (const LedgerEntry& entry : *written) {
    const auto same = [&](const LedgerEntry& one) {
      return one.key == entry.key && (one.id == entry.id || entry.id.empty());
    };
    const bool known = std::ranges::any_of(out, same);
    const bool untold = std::ranges::any_of(
        unrecorded_, [&](const std::string& one) { return is_called(entry, one); });
    if (!known && !untold) out.push_back(entry);
  }
  return out;
}

Status PoolBook::close_when_clear(std::int64_t patience_s) {
  const auto unwritten = [](Error why) {
    return fail(why.kind,
                "everything of the pool has terminated, but the ledger could not be updated: " +
                    why.message,
                "'skyward gc' removes it from the ledger when the ledger can be used again: check "
                "the permissions and free space there");
  };
  if (const Status told = record_gone(unrecorded_); !told) {
    return unwritten(told.error());
  }
  unrecorded_.clear();
  const auto entries = ledger_.entries(pool_, true);
  if (!entries) return unwritten(entries.error());
  std::vector<std::string> unanswered;
  for (const LedgerEntry& entry : *entries) {
    if (entry.id.empty() && age_of(entry) >= std::chrono::seconds(patience_s)) {
      unanswered.push_back(entry.key);
    }
  }
  if (const Status told = record_gone(unanswered); !told) {
    return unwritten(told.error());
  }
  if (unanswered.size() < entries->size()) return {};
  const Status closed = ledger_.close_pool(pool_, world_.wall_s());
  return closed ? closed : unwritten(closed.error());
}

Charge wasted_charge(const LedgerEntry& entry, std::int64_t now_s) {
  using std::chrono::seconds;
  Charge charge{.instance = entry.id,
                .since = seconds(now_s - entry.asked_s),
                .began = seconds(now_s - entry.asked_s),
                .failed_launch = true,
                .spot = entry.spot};
  if (entry.hourly_micro_dollars > 0) charge.hourly = to_dollars(entry.hourly_micro_dollars);
  if (entry.gone_s) charge.ended = seconds(now_s - *entry.gone_s);
  return charge;
}

}  // namespace skyward::provider

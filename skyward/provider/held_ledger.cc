#include "skyward/provider/held_ledger.h"

#include <algorithm>

#include "skyward/provider/marks.h"

namespace skyward::provider {

template <typename Verb>
auto HeldLedger::use(Verb verb) -> decltype(verb(*ledger_)) {
  if (!ledger_) {
    auto opened = open_();
    if (!opened) return fail(opened);
    ledger_ = *std::move(opened);
    opened_number_ = number_();
  }
  auto done = verb(*ledger_);
  // SQLite reads a file that has lost its name, but does not write to it.
  if (done || number_() == opened_number_ || !reopen()) return done;
  return verb(*ledger_);
}

bool HeldLedger::reopen() {
  auto opened = open_();
  if (!opened || !copy_to(**opened)) return false;
  ledger_ = *std::move(opened);
  opened_number_ = number_();
  return true;
}

// The open pools of this process, with what they have cost. The new file may be an older copy.
Status HeldLedger::copy_to(Ledger& fresh) {
  for (LedgerPool& pool : open_pools_) {
    pool.settings[kLedgerSetting] = number_();
    const auto listed = fresh.find_pool(pool.id);
    Status status = listed ? Status() : fail(listed);
    if (status && !*listed) status = fresh.open_pool(pool);
    const auto there = fresh.entries(pool.id, false);
    if (status && !there) status = fail(there);
    // A damaged file may not say; those machines are found by their marks.
    for (const LedgerEntry& entry :
         ledger_->entries(pool.id, false).value_or(std::vector<LedgerEntry>())) {
      const auto same = [&](const LedgerEntry& one) {
        return one.key == entry.key && one.id == entry.id;
      };
      const auto listed_there = std::ranges::find_if(*there, same);
      const bool is_new = listed_there == there->end();
      if (status && is_new) status = fresh.ask(entry);
      if (!status || !entry.gone_s || (!is_new && listed_there->gone_s)) continue;
      const std::string name = entry.id.empty() ? entry.key : entry.id;
      status = entry.gone_late ? fresh.gone_by(pool.id, name, *entry.gone_s)
                               : fresh.gone(pool.id, {name}, *entry.gone_s);
    }
    if (!status) return status;
  }
  return {};
}

Status HeldLedger::open_pool(const LedgerPool& pool) {
  Status opened = use([&](Ledger& ledger) { return ledger.open_pool(pool); });
  if (opened) open_pools_.push_back(pool);
  return opened;
}

Status HeldLedger::close_pool(const std::string& pool, std::int64_t now_s) {
  Status closed = use([&](Ledger& ledger) { return ledger.close_pool(pool, now_s); });
  if (closed) std::erase_if(open_pools_, [&](const LedgerPool& one) { return one.id == pool; });
  return closed;
}

Status HeldLedger::ask(const LedgerEntry& entry) {
  return use([&](Ledger& ledger) { return ledger.ask(entry); });
}

Status HeldLedger::made(const std::string& pool, const std::string& key,
                        const std::vector<std::string>& ids) {
  return use([&](Ledger& ledger) { return ledger.made(pool, key, ids); });
}

Status HeldLedger::price(const std::string& pool, const std::string& id,
                         std::int64_t hourly_micro_dollars) {
  return use([&](Ledger& ledger) { return ledger.price(pool, id, hourly_micro_dollars); });
}

Status HeldLedger::gone(const std::string& pool, const std::vector<std::string>& keys_or_ids,
                        std::int64_t now_s) {
  return use([&](Ledger& ledger) { return ledger.gone(pool, keys_or_ids, now_s); });
}

Status HeldLedger::gone_by(const std::string& pool, const std::string& key_or_id,
                           std::int64_t latest_s) {
  return use([&](Ledger& ledger) { return ledger.gone_by(pool, key_or_id, latest_s); });
}

Result<std::vector<LedgerPool>> HeldLedger::pools(bool open_only) {
  return use([&](Ledger& ledger) { return ledger.pools(open_only); });
}

Result<std::optional<LedgerPool>> HeldLedger::find_pool(const std::string& id) {
  return use([&](Ledger& ledger) { return ledger.find_pool(id); });
}

Result<std::vector<LedgerEntry>> HeldLedger::entries(const std::string& pool, bool open_only) {
  return use([&](Ledger& ledger) { return ledger.entries(pool, open_only); });
}

}  // namespace skyward::provider

#include "skyward/provider/held_ledger.h"

namespace skyward::provider {

template <typename Verb>
auto HeldLedger::use(Verb verb) -> decltype(verb(*ledger_)) {
  if (!ledger_) {
    auto opened = open_();
    if (!opened) return fail(opened);
    ledger_ = *std::move(opened);
  }
  return verb(*ledger_);
}

Status HeldLedger::open_pool(const LedgerPool& pool) {
  return use([&](Ledger& ledger) { return ledger.open_pool(pool); });
}

Status HeldLedger::close_pool(const std::string& pool, std::int64_t now_s) {
  return use([&](Ledger& ledger) { return ledger.close_pool(pool, now_s); });
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

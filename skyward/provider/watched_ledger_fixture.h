#pragma once

// For the tests in which a driver dies at a write of its ledger, or cannot use it.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/provider/ledger.h"

namespace skyward::provider {

// The driver is killed: nothing of ours runs after this.
struct DriverDied {};

// A ledger that calls `write` before and after each write; it may throw. While `trouble`
// gives an error, each verb fails with that. `list` hears of each listing of all pools.
class WatchedLedger final : public Ledger {
 public:
  WatchedLedger(
      std::unique_ptr<Ledger> ledger, std::function<void(bool after)> write,
      std::function<Status()> trouble = [] { return Status(); }, std::function<void()> list = [] {})
      : ledger_(std::move(ledger)),
        write_(std::move(write)),
        trouble_(std::move(trouble)),
        list_(std::move(list)) {}

  Status open_pool(const LedgerPool& pool) override {
    return written([&] { return ledger_->open_pool(pool); });
  }
  Status close_pool(const std::string& pool, std::int64_t now_s) override {
    return written([&] { return ledger_->close_pool(pool, now_s); });
  }
  Status ask(const LedgerEntry& entry) override {
    return written([&] { return ledger_->ask(entry); });
  }
  Status made(const std::string& pool, const std::string& key,
              const std::vector<std::string>& ids) override {
    return written([&] { return ledger_->made(pool, key, ids); });
  }
  Status price(const std::string& pool, const std::string& id,
               std::int64_t hourly_micro_dollars) override {
    return written([&] { return ledger_->price(pool, id, hourly_micro_dollars); });
  }
  Status gone(const std::string& pool, const std::vector<std::string>& keys_or_ids,
              std::int64_t now_s) override {
    return written([&] { return ledger_->gone(pool, keys_or_ids, now_s); });
  }
  Status gone_by(const std::string& pool, const std::string& key_or_id,
                 std::int64_t latest_s) override {
    return written([&] { return ledger_->gone_by(pool, key_or_id, latest_s); });
  }
  Result<std::vector<LedgerPool>> pools(bool open_only) override {
    list_();
    if (const Status trouble = trouble_(); !trouble) return fail(trouble);
    return ledger_->pools(open_only);
  }
  Result<std::optional<LedgerPool>> find_pool(const std::string& id) override {
    if (const Status trouble = trouble_(); !trouble) return fail(trouble);
    return ledger_->find_pool(id);
  }
  Result<std::vector<LedgerEntry>> entries(const std::string& pool, bool open_only) override {
    if (const Status trouble = trouble_(); !trouble) return fail(trouble);
    return ledger_->entries(pool, open_only);
  }

 private:
  template <typename Write>
  Status written(Write write) {
    write_(false);
    Status status = trouble_();
    if (status) status = write();
    write_(true);
    return status;
  }

  const std::unique_ptr<Ledger> ledger_;
  const std::function<void(bool after)> write_;
  const std::function<Status()> trouble_;
  const std::function<void()> list_;
};

// Counts what is written into ledgers, kills the driver at a write, or lets every use fail.
struct LedgerWatch {
  int writes = 0;
  int listings = 0;     // of all pools, which take longer in a ledger of many
  int die_before = -1;  // the number of a write
  int die_after = -1;
  Status trouble{};

  Result<std::unique_ptr<Ledger>> open(const std::string& path);
};

inline Result<std::unique_ptr<Ledger>> LedgerWatch::open(const std::string& path) {
  if (!trouble) return fail(trouble);
  auto ledger = Ledger::open(path);
  if (!ledger) return ledger;
  return std::make_unique<WatchedLedger>(
      *std::move(ledger),
      [this](bool after) {
        if (!after) ++writes;
        if (writes == (after ? die_after : die_before)) throw DriverDied();
      },
      [this] { return trouble; }, [this] { ++listings; });
}

}  // namespace skyward::provider

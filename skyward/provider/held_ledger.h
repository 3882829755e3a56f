#pragma once

// The ledger of one provider, opened on first use and kept open: when the disk is full, an open
// file can still be read. If it cannot be opened, every call fails: launching stops then,
// and terminating works without it. If somebody moves the file away or deletes it, the open pools
// of this process continue in a new one.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/provider/ledger.h"

namespace skyward::provider {

class HeldLedger final : public Ledger {
 public:
  using Open = std::function<Result<std::unique_ptr<Ledger>>()>;
  using Number = std::function<std::string()>;  // of the file that open() would open
  HeldLedger(Open open, Number number) : open_(std::move(open)), number_(std::move(number)) {}

  Status open_pool(const LedgerPool& pool) override;
  Status close_pool(const std::string& pool, std::int64_t now_s) override;
  Status ask(const LedgerEntry& entry) override;
  Status made(const std::string& pool, const std::string& key,
              const std::vector<std::string>& ids) override;
  Status price(const std::string& pool, const std::string& id,
               std::int64_t hourly_micro_dollars) override;
  Status gone(const std::string& pool, const std::vector<std::string>& keys_or_ids,
              std::int64_t now_s) override;
  Status gone_by(const std::string& pool, const std::string& key_or_id,
                 std::int64_t latest_s) override;
  Result<std::vector<LedgerPool>> pools(bool open_only) override;
  Result<std::optional<LedgerPool>> find_pool(const std::string& id) override;
  Result<std::vector<LedgerEntry>> entries(const std::string& pool, bool open_only) override;

 private:
  const Open open_;
  const Number number_;
  std::unique_ptr<Ledger> ledger_;
  std::string opened_number_;
  std::vector<LedgerPool> open_pools_;  // of this process

  template <typename Verb>
  auto use(Verb verb) -> decltype(verb(*ledger_));
  bool reopen();
  Status copy_to(Ledger& fresh);
};

}  // namespace skyward::provider

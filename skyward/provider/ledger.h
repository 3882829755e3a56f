#pragma once

// The ledger on disk. Every resource is written here before it is requested from a cloud, and
// marked as gone only when the cloud says so. If a driver dies in between, the entry remains and
// `skyward gc` finds it.
//
// An SQLite file, safe for several processes, written through to the disk. libsqlite3 is loaded
// when the first ledger is opened. A file from an older version gets the missing columns.

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"

namespace skyward::provider {

// One pool that this computer opened.
struct LedgerPool {
  std::string id{};  // "aws-1a2b3c4d"
  std::string provider{};
  std::string region{};
  std::map<std::string, std::string> settings{};  // how to reach the cloud again; no secrets
  std::int64_t opened_s = 0;                      // seconds since 1970
  std::optional<std::int64_t> closed_s{};         // nothing of it is left
  std::int64_t expires_s = 0;  // its machines terminate themselves by then; 0: unknown

  // Empty if there is no such setting.
  std::string setting(const std::string& name) const;
  bool operator==(const LedgerPool&) const = default;
};

// The price of a machine that the cloud took back, so early that it charges nothing.
inline constexpr std::int64_t kTakenBackFree = -1;

// One resource of a pool. `key` is our own name for it, chosen before it exists: a client token, a
// name.
struct LedgerEntry {
  std::string key{};
  std::string pool{};
  std::string kind{};  // "instance", "key_pair", "security_group"
  std::string id{};    // the cloud's id; empty: requested, not yet answered
  int count = 1;       // machines requested with this key
  bool spot = false;
  std::string instance_type{};
  // Of one machine; 0: unknown, or free (table.h). kTakenBackFree: the cloud charges nothing for
  // it.
  std::int64_t hourly_micro_dollars = 0;
  std::int64_t asked_s = 0;
  std::optional<std::int64_t> gone_s{};
  bool gone_late = false;  // nobody saw it go: `gone_s` is an upper bound

  bool operator==(const LedgerEntry&) const = default;
};

// The time by which an unwatched machine has terminated itself; `now_s` if it may still run.
std::int64_t latest_end_s(const LedgerPool& pool, const LedgerEntry& entry, std::int64_t now_s);

// For other processes that write, or that read for a long time.
inline constexpr Duration kLedgerPatience = std::chrono::seconds(10);

class Ledger {
 public:
  // Creates the file and its directory if missing. Waits for other processes at most for
  // `patience`, now and later.
  static Result<std::unique_ptr<Ledger>> open(const std::string& path,
                                              Duration patience = kLedgerPatience);
  // For reading: creates and changes nothing, but undoes what a killed writer began. A missing file
  // reads as an empty ledger.
  static Result<std::unique_ptr<Ledger>> open_to_read(const std::string& path);
  virtual ~Ledger() = default;

  virtual Status open_pool(const LedgerPool& pool) = 0;
  virtual Status close_pool(const std::string& pool, std::int64_t now_s) = 0;

  // Call before the request to the cloud. On disk when this returns.
  virtual Status ask(const LedgerEntry& entry) = 0;
  // The cloud's answer: the entry of `key` becomes one entry for each id. When there are fewer ids
  // than were asked for, it stays, with the rest of its count.
  virtual Status made(const std::string& pool, const std::string& key,
                      const std::vector<std::string>& ids) = 0;
  // The price of a machine, where it is not that of the request.
  virtual Status price(const std::string& pool, const std::string& id,
                       std::int64_t hourly_micro_dollars) = 0;
  // The cloud says that these do not exist, or never did: all are marked, or none.
  virtual Status gone(const std::string& pool, const std::vector<std::string>& keys_or_ids,
                      std::int64_t now_s) = 0;
  // It is gone, and went at some time until then.
  virtual Status gone_by(const std::string& pool, const std::string& key_or_id,
                         std::int64_t latest_s) = 0;

  // Newest first; `open_only`: without pools of which nothing is left.
  virtual Result<std::vector<LedgerPool>> pools(bool open_only) = 0;
  // Equally quick however many pools the ledger has. Empty: it does not have this one.
  virtual Result<std::optional<LedgerPool>> find_pool(const std::string& id) = 0;
  virtual Result<std::vector<LedgerEntry>> entries(const std::string& pool, bool open_only) = 0;
};

// Whether the ledger at this path cannot be used: all its errors name it first.
bool is_of_ledger(const Error& error, const std::string& path);

// An empty ledger that stores nothing; used when the real one cannot be read.
std::unique_ptr<Ledger> blank_ledger();

}  // namespace skyward::provider

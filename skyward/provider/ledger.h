#pragma once

// What was bought, on disk: each thing that costs or clutters is written here before the cloud is
// asked for it, and struck off only when the cloud says that it is gone. A driver that dies in
// between leaves its line, and `skyward gc` finds it.
//
// An SQLite file, safe for several processes, written through to the disk. libsqlite3 is loaded
// when the first ledger is opened. One that an older version wrote gets the columns that it lacks.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "skyward/base/error.h"

namespace skyward::provider {

// One pool that this computer opened.
struct LedgerPool {
  std::string id{};  // "aws-1a2b3c4d"
  std::string provider{};
  std::string region{};
  std::map<std::string, std::string> settings{};  // how to reach the cloud again; no secrets
  std::int64_t opened_s = 0;                      // seconds since 1970
  std::optional<std::int64_t> closed_s{};         // nothing of it is left
  std::int64_t expires_s = 0;  // its machines end themselves by then; 0: not known

  // Empty where it has none of that name.
  std::string setting(const std::string& name) const;
  bool operator==(const LedgerPool&) const = default;
};

// One thing of a pool. `key` is our own name for it, made before it exists: a client token, a name.
struct LedgerEntry {
  std::string key{};
  std::string pool{};
  std::string kind{};  // "instance", "key_pair", "security_group"
  std::string id{};    // the cloud's name; empty: asked for, not yet answered
  int count = 1;       // machines that were asked for with this key
  bool spot = false;
  std::string instance_type{};
  std::int64_t hourly_micro_dollars = 0;  // of one machine; 0: not known
  std::int64_t asked_s = 0;
  std::optional<std::int64_t> gone_s{};
  bool gone_late = false;  // nobody saw it go: `gone_s` is the latest moment at which it did

  bool operator==(const LedgerEntry&) const = default;
};

// When a machine that nobody watches has ended itself at the latest; `now_s` if it may stand still.
std::int64_t latest_end_s(const LedgerPool& pool, const LedgerEntry& entry, std::int64_t now_s);

class Ledger {
 public:
  // Makes the file and its directory when missing.
  static Result<std::unique_ptr<Ledger>> open(const std::string& path);
  // For reading: makes and changes nothing. What is not there is an empty one.
  static Result<std::unique_ptr<Ledger>> open_to_read(const std::string& path);
  virtual ~Ledger() = default;

  virtual Status open_pool(const LedgerPool& pool) = 0;
  virtual Status close_pool(const std::string& pool, std::int64_t now_s) = 0;

  // Before the cloud is asked. On disk when this returns.
  virtual Status ask(const LedgerEntry& entry) = 0;
  // The cloud's answer: the entry of `key` becomes one entry for each id. When there are fewer ids
  // than were asked for, it stays, with the rest of its count.
  virtual Status made(const std::string& pool, const std::string& key,
                      const std::vector<std::string>& ids) = 0;
  // The cloud says that it is not there, or never was.
  virtual Status gone(const std::string& pool, const std::string& key_or_id,
                      std::int64_t now_s) = 0;
  // It is not there, and went at some moment until then.
  virtual Status gone_by(const std::string& pool, const std::string& key_or_id,
                         std::int64_t latest_s) = 0;

  // Newest first; `open_only` leaves out pools of which nothing is left.
  virtual Result<std::vector<LedgerPool>> pools(bool open_only) = 0;
  virtual Result<std::vector<LedgerEntry>> entries(const std::string& pool, bool open_only) = 0;
};

// Knows nothing and keeps nothing: used instead of one that cannot be read.
std::unique_ptr<Ledger> blank_ledger();

}  // namespace skyward::provider

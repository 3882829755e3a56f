#pragma once

// What one pool has bought, as its driver knows it: in memory, and in the ledger. Nothing is
// launched that could not be written to the ledger first. Releasing never waits for the ledger: it
// is told when possible, and close_when_clear() says when it was not.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "skyward/provider/ledger.h"
#include "skyward/provider/world.h"
#include "skyward/spec/cost.h"

namespace skyward::provider {

class PoolBook {
 public:
  // Both outlive this. `pool` is open in the ledger.
  PoolBook(const World& world, Ledger& ledger, std::string pool)
      : world_(world), ledger_(ledger), pool_(std::move(pool)) {}

  const std::string& pool() const { return pool_; }
  const World& world() const { return world_; }

  // Before the cloud is asked: on disk when this returns. Pool and time of the entry are set here.
  Status ask(LedgerEntry entry);
  // The cloud's answer.
  Status made(const std::string& key, const std::vector<std::string>& ids);
  // Machines that a launch made and that are of no use: they cost all the same. Before they are
  // gone.
  void note_wasted(const std::vector<std::string>& ids);
  const std::vector<LedgerEntry>& wasted() const { return wasted_; }
  // The cloud says that these are not there, or never were.
  void gone(const std::vector<std::string>& keys_or_ids);

  // What is not known to be gone: all that was bought through this, and what else the ledger has
  // of the pool, where that can be read.
  std::vector<LedgerEntry> open_entries();

  // How long ago it was asked for: by a clock that nobody sets, where this process asked.
  Duration age_of(const LedgerEntry& entry) const;

  // The pool is over in the ledger, unless something may still come of it: of a request that was
  // not answered, nothing comes after `patience_s`.
  Status close_when_clear(std::int64_t patience_s);

 private:
  const World& world_;
  Ledger& ledger_;
  const std::string pool_;
  std::vector<LedgerEntry> bought_;    // through this, and not gone
  std::vector<LedgerEntry> wasted_;    // gone or not
  std::vector<std::string> untold_;    // gone, and still open in the ledger
  std::map<std::string, Time> asked_;  // by key
};

// What a machine that was bought in vain costs, as it was asked for and seen to go.
Charge wasted_charge(const LedgerEntry& entry, std::int64_t now_s);

}  // namespace skyward::provider

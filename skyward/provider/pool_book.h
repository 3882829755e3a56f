#pragma once

// What one pool has requested from its cloud, in memory and in the ledger. Nothing is launched
// unless the ledger has it first. Releasing never depends on the ledger: close_when_clear() writes
// what could not be written before, and fails if it still cannot.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/provider/ledger.h"
#include "skyward/provider/world.h"
#include "skyward/spec/cost.h"

namespace skyward::provider {

// How a machine came to its end.
struct MachineEnd {
  std::optional<std::int64_t> told_s{};  // when it ended, if the cloud says so: seconds since 1970
  bool unseen = false;  // it was gone when it was looked for: it ended at some time before
};

class PoolBook {
 public:
  // Both outlive this. `pool` is open in the ledger.
  PoolBook(const World& world, Ledger& ledger, std::string pool)
      : world_(world), ledger_(ledger), pool_(std::move(pool)) {}

  const std::string& pool() const { return pool_; }
  const World& world() const { return world_; }

  // Call before the request to the cloud: the entry is on disk when this returns. Sets the entry's
  // pool and time.
  Status ask(LedgerEntry entry);
  // The cloud's answer.
  Status made(const std::string& key, const std::vector<std::string>& ids);
  // What this machine costs an hour, where the cloud says so: the offer may be out of date.
  void note_price(const std::string& id, MicroDollars hourly);
  // The cloud took this machine back, and charges nothing if it stood for less than `limit`.
  void note_taken_back(const std::string& id, Duration limit);
  // Machines of a failed launch, which cost money all the same. Call before gone().
  void note_wasted(const std::vector<std::string>& ids);
  const std::vector<LedgerEntry>& wasted() const { return wasted_; }
  // Whether launches of this process may have left machines: of a request without an answer, or
  // released and not yet gone.
  bool has_leftovers() const;
  // The cloud says that these no longer exist, or never did.
  void gone(const std::vector<std::string>& keys_or_ids);
  // The same of one, as soon as it is seen: only its time stops. gone() follows.
  void see_gone(const std::string& id, const MachineEnd& end = {});
  // Of those of these machines that this process requested: since when each may have cost money,
  // and until when.
  std::vector<Charge> times_of(const std::vector<std::string>& ids) const;

  // The longest that a machine keeps running after it was last seen, while this computer sleeps:
  // then it terminates itself.
  void set_longest_unseen(Duration limit) { longest_unseen_ = limit; }
  // It costs money now.
  void see_standing(const std::string& id);
  // The cloud does not list it, or says that it ended but not when: its time stops once it must
  // have terminated itself.
  void miss(const std::string& id);
  // Those of these machines that this process requested and whose time goes on.
  std::vector<std::string> standing(const std::vector<std::string>& ids) const;

  // Everything of the pool that is not known to be gone: what this process requested, and what the
  // ledger has, if it can be read.
  std::vector<LedgerEntry> open_entries();

  // The time since the request; by a clock that nobody sets if this process sent it.
  Duration age_of(const LedgerEntry& entry) const;

  // Closes the pool in the ledger, unless resources may be left or may still appear. A request
  // without an answer creates nothing after `patience_s`.
  Status close_when_clear(std::int64_t patience_s);

 private:
  Status record_gone(const std::vector<std::string>& keys_or_ids);

  const World& world_;
  Ledger& ledger_;
  const std::string pool_;
  std::vector<LedgerEntry> requested_;   // requested by this process, and not gone
  std::vector<LedgerEntry> wasted_;      // gone or not
  std::vector<std::string> unrecorded_;  // gone, but still open in the ledger
  // Clouds bill while this computer sleeps: times are by time_with_sleep().
  std::map<std::string, Time> asked_;  // by key
  struct Stay {
    Time asked{};
    Time seen{};        // standing, last
    Time seen_awake{};  // the same by a clock that stops while this computer sleeps
    int missed = 0;     // looks since then
    std::optional<Time> gone{};
  };
  std::map<std::string, Stay> stays_;  // of machines, by id
  std::optional<Duration> longest_unseen_{};
  // Of machines that did not end when their end was seen, for the ledger.
  struct LedgerEnd {
    std::int64_t at_s = 0;
    bool late = false;
  };
  std::map<std::string, LedgerEnd> ends_;  // by id
};

// The cost of a machine of a failed launch, from the request until it was gone.
Charge wasted_charge(const LedgerEntry& entry, std::int64_t now_s);

}  // namespace skyward::provider

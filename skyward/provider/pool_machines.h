#pragma once

// The machines of one pool at any cloud: in the book before they are requested, launched all or
// none, and terminated until the cloud confirms it. What differs between clouds is a MachineApi:
// four requests and their delays. Used by providers and sweeps.

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/launch.h"
#include "skyward/provider/pool_book.h"

namespace skyward::provider {

// Machines of one type in one place, launched with one request: all of them or an error.
struct LaunchBatch {
  std::string token{};  // their mark; idempotent: the same token returns the same machines
  int count = 1;
  LaunchTarget place{};
  bool spot = false;
};

// Why a batch was not launched.
struct LaunchRefusal {
  LaunchFailure why{};
  std::string code{};    // the cloud's code; empty if it did not answer
  bool certain = false;  // nothing was launched, by any try of the request
  // Without `certain`: the cloud refused it in its own words, and may have launched it all the
  // same. It is looked for at once and after MachineApiFacts::doubt.
  bool doubtful = false;
};

// What a client must know about a cloud.
struct MachineApiFacts {
  std::string cloud{};  // as messages name it: "AWS"
  std::string region{};
  Duration listing_lag{};  // how long new machines may be missing from listings
  // ... and unknown to every other request. One that is missing for longer while it starts has
  // vanished.
  Duration known_after{};
  Duration release_time{};  // to release the machines of a failed launch, even past its deadline
  // After so long, a request that was never answered has launched nothing, or its machines have
  // terminated themselves and are listed as such.
  std::int64_t unanswered_limit_s = 0;
  // Look for what came of a doubtful refusal after this long; gc finds what is listed later.
  Duration doubt{};
  int launch_tries = 1;    // of a launch without an answer that brought nothing
  int most_per_batch = 0;  // machines that one request can launch; 0: any number
  Duration slowest_look = std::chrono::seconds(5);  // between looks at machines that start
  // For so long, machines that start are waited for although looking at them fails.
  Duration patience = std::chrono::minutes(3);
  // Another machine is launched for one that has not started this long after its request. Zero: the
  // launch's deadline is the only limit.
  Duration start_limit{};
  // The machines of a type in a place are on unlike hosts: one that does not start says little
  // about the next.
  bool hosts_differ = false;
  bool ends_itself = false;  // a machine that nobody uses ends its cost by itself
  // Machines cannot be terminated before they run, so even a failed launch costs money.
  bool runs_first = false;
};

// The requests of a cloud, for the machines of one pool.
class MachineApi {
 public:
  virtual ~MachineApi() = default;

  virtual const MachineApiFacts& facts() const = 0;
  // Returns the ids.
  virtual std::expected<std::vector<std::string>, LaunchRefusal> launch(const LaunchBatch& batch,
                                                                        Time deadline) = 0;
  // The listed machines with the mark of a batch; of the pool, if `token` is empty.
  virtual Result<std::vector<MachineStatus>> find(std::string_view token, Time deadline) = 0;
  // Those of these machines that are listed.
  virtual Result<std::vector<MachineStatus>> look_up(const std::vector<std::string>& ids,
                                                     Time deadline) = 0;
  // Requests termination. Returns the machines for which the cloud accepted it: not those that it
  // does not know, yet or any more.
  virtual Result<std::vector<std::string>> terminate(const std::vector<std::string>& ids,
                                                     Time deadline) = 0;
  // The words in which the cloud refused to terminate this machine when it was asked last, though
  // it may do so later. Empty: it did not.
  virtual std::string why_refused(const std::string&) const { return {}; }
};

class PoolMachines {
 public:
  // Both outlive this.
  PoolMachines(PoolBook& book, MachineApi& api) : book_(book), api_(api) {}

  // Returns running machines, sorted by id, with their prices. Leaves nothing behind that the book
  // does not have as open.
  Result<std::vector<MachineStatus>> launch(const LaunchSpec& spec, Time deadline);

  // Terminates machines and waits until they are gone, then notes that in the book. Trouble with
  // the ledger does not fail it.
  Status terminate(const std::vector<std::string>& ids, Time deadline);
  // Terminates what earlier launches may have left: machines of requests that nobody answered, and
  // those that could not be released. Not while one is under way, whose machines it would take for
  // such. It does not wait for them to be gone: the next call sees that.
  void release_late(Time deadline);
  // Enters what has come of requests that nobody answered. Call it before machines are terminated
  // that were found by their mark: their cost is in the ledger only if they are.
  void enter_unanswered(Time deadline);
  // Notes in the book which of these have ended by themselves: while this computer slept, say.
  Status look_for_ends(const std::vector<std::string>& ids, Time deadline);
  // Terminates every machine that has the pool's mark or is in the book.
  Status terminate_all(Time deadline);

  // Closes the pool in the ledger, unless machines may still appear.
  Status close_when_clear() { return book_.close_when_clear(api_.facts().unanswered_limit_s); }

 private:
  std::expected<std::vector<MachineStatus>, LaunchFailure> attempt(const LaunchSpec& spec,
                                                                   const Attempt& wanted,
                                                                   LaunchRecord& record,
                                                                   Time deadline);
  std::optional<LaunchFailure> launch_batches(const LaunchBatch& all, std::vector<std::string>& ids,
                                              LaunchRecord& record, Time deadline);
  std::expected<std::vector<std::string>, LaunchFailure> launch_batch(const LaunchBatch& batch,
                                                                      LaunchRecord& record,
                                                                      Time deadline);
  std::expected<std::vector<std::string>, LaunchFailure> on_refused(const LaunchBatch& batch,
                                                                    const LaunchRefusal& answer,
                                                                    LaunchRecord& record,
                                                                    Time deadline);
  struct NotRunning {
    LaunchFailure why{};
    std::vector<std::string> ended{};
  };
  std::expected<std::vector<MachineStatus>, NotRunning> await_running(
      const std::vector<std::string>& ids, Time deadline);
  void note_sight(const std::vector<MachineStatus>& machines);
  // Those that take too long to start count as stopped.
  void stop_slow(std::vector<MachineStatus>& machines) const;
  static std::optional<NotRunning> find_ended(const std::vector<MachineStatus>& machines);
  struct Found {
    std::vector<std::string> ids{};
    bool seen = false;  // the last look succeeded
  };
  Found find_launched(const LaunchBatch& batch, const std::vector<std::string>& ids,
                      Time look_until, Time until);
  Result<std::vector<std::string>> enter_marked(const std::string& token, Time until);
  bool release_marked(const std::string& token, Time until);
  void settle_doubts();
  // Of machines that are of no use. Returns `why`, and what else went wrong.
  LaunchFailure release(const std::vector<std::string>& ids, LaunchFailure why, Time until);
  Status terminate_and_wait(const std::vector<std::string>& ids, std::vector<std::string>& gone,
                            Time deadline, bool waits = true);
  Error still_there(const std::vector<std::string>& ids) const;
  std::string where() const;

  PoolBook& book_;
  MachineApi& api_;
  bool launches_ = false;  // launch() was called
  struct Doubt {
    std::string token{};
    Time refused{};
  };
  std::vector<Doubt> doubts_{};  // of the launch at hand: refusals that may not be true
};

}  // namespace skyward::provider

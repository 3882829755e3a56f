#pragma once

// The machines of one pool, at whatever cloud: launched all or not at all, ended until the cloud
// says so, and in the book before anything is asked for. What differs between clouds is a
// MachineApi: four requests, and how patient one has to be. Used by the providers, and by the
// sweeps after them.

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/launch.h"
#include "skyward/provider/pool_book.h"

namespace skyward::provider {

// Machines of one type in one place, asked for at once: all of them or an error.
struct LaunchBatch {
  std::string token{};  // their mark; the same again brings the same machines
  int count = 1;
  LaunchTarget place{};
  bool spot = false;
};

// Why no batch was sold.
struct LaunchRefusal {
  LaunchFailure why{};
  std::string code{};    // in the cloud's own word; empty when nobody answered
  bool certain = false;  // nothing was made, by any try of the request
};

// What a client of a cloud has to know.
struct MachineApiFacts {
  std::string cloud{};  // as messages name it: "AWS"
  std::string region{};
  Duration listing_lag{};   // what was made may not be listed for so long
  Duration known_after{};   // ... and may be unknown to every other request at the longest
  Duration release_time{};  // for what a failed launch has made, whatever is left of its time
  // After so long, a request that was never answered has brought nothing, or what it has brought
  // has ended itself and is listed as such.
  std::int64_t nothing_comes_of_it_s = 0;
};

// A cloud, for the machines of one pool.
class MachineApi {
 public:
  virtual ~MachineApi() = default;

  virtual const MachineApiFacts& facts() const = 0;
  // The ids.
  virtual std::expected<std::vector<std::string>, LaunchRefusal> launch(const LaunchBatch& batch,
                                                                        Time deadline) = 0;
  // What is listed with the mark of a batch; of the pool, when `token` is empty.
  virtual Result<std::vector<MachineStatus>> find(std::string_view token, Time deadline) = 0;
  // Of these, what is listed.
  virtual Result<std::vector<MachineStatus>> look_up(const std::vector<std::string>& ids,
                                                     Time deadline) = 0;
  // Asks for the end of machines. Gives those that the cloud has heard it of: not the ones that it
  // does not know, yet or any more.
  virtual Result<std::vector<std::string>> terminate(const std::vector<std::string>& ids,
                                                     Time deadline) = 0;
};

class PoolMachines {
 public:
  // Both outlive this.
  PoolMachines(PoolBook& book, MachineApi& api) : book_(book), api_(api) {}

  // Running machines, in the order of their ids, with their prices. Leaves nothing behind that the
  // book does not have as open.
  Result<std::vector<MachineStatus>> launch(const LaunchSpec& spec, Time deadline);

  // Ends them and sees them go; then the book is told, whose troubles are its own.
  Status terminate(const std::vector<std::string>& ids, Time deadline);
  // Everything that bears the pool's mark or stands in the book.
  Status terminate_all(Time deadline);

  // The pool is over in the ledger, unless something may still come of it.
  Status close_when_clear() { return book_.close_when_clear(api_.facts().nothing_comes_of_it_s); }

 private:
  std::expected<std::vector<MachineStatus>, LaunchFailure> attempt(const LaunchSpec& spec,
                                                                   const Attempt& wanted,
                                                                   LaunchRecord& record,
                                                                   Time deadline);
  LaunchFailure on_refused(const LaunchBatch& batch, const LaunchRefusal& answer,
                           LaunchRecord& record);
  std::expected<std::vector<MachineStatus>, LaunchFailure> settle(
      const LaunchBatch& batch, const std::vector<std::string>& ids, Time deadline);
  std::expected<std::vector<MachineStatus>, LaunchFailure> await_running(
      const std::vector<std::string>& ids, Time deadline);
  LaunchFailure withdraw(const LaunchBatch& batch, const std::vector<std::string>& ids,
                         LaunchFailure why);
  Status see_off(const std::vector<std::string>& ids, std::vector<std::string>& gone,
                 Time deadline);
  std::string where() const;

  PoolBook& book_;
  MachineApi& api_;
};

}  // namespace skyward::provider

#pragma once

// The pools that this computer has open at clouds: the ledger, and for each pool a directory with a
// lock that its driver holds. The lock ends with the driver, so that any process here can tell a
// pool in use from a leak.
//
//   <state>/ledger.db              provider/ledger.h
//   <state>/clouds/<pool id>/      lock, and what the provider keeps there: keys

#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/io/file_lock.h"
#include "skyward/provider/ledger.h"
#include "skyward/provider/world.h"
#include "skyward/spec/offer.h"

namespace skyward::provider {

// The ledger of this user on this computer.
Result<std::unique_ptr<Ledger>> open_ledger(const World& world);
// The same, for reading: creates and changes nothing, and works on a disk that cannot be written
// to.
Result<std::unique_ptr<Ledger>> read_ledger(const World& world);
// The number of its file, which copies do not share; empty: there is no file yet.
std::string ledger_number(const World& world);
// Whether this is an error of the ledger itself, whatever the clouds said.
bool is_of_ledger(const World& world, const Error& error);

// A pool's directory, created and locked. The lock is held until this is destroyed.
struct PoolDirectory {
  std::string path{};
  std::unique_ptr<io::FileLock> lock{};
  std::vector<std::unique_ptr<io::FileLock>> lost_locks{};  // of deleted files: reapers watch them
};
Result<PoolDirectory> make_pool_directory(const World& world, const std::string& pool);
// Locks another file where somebody has deleted the lock's. Without one, 'skyward gc' and new
// reapers would take the pool for one that was left behind.
Status keep_pool_locked(const World& world, const std::string& pool, PoolDirectory& directory);
std::string pool_directory(const World& world, const std::string& pool);
// The file that a pool's reaper (renting/reaping.h) holds locked.
std::string reaper_lock(const World& world, const std::string& pool);
void remove_pool_directory(const World& world, const std::string& pool);

// Removes such directories of pools that the ledger does not list or has closed, a day after their
// last change: programs were killed at that moment, or the ledger was moved away. Those that are
// locked stay.
void remove_unused_directories(const World& world);

// The id of a pool at a cloud: "aws-1a2b3c4d" for the job 1a2b3c4d. If the ledger has that id
// already, from a region that was tried before, the digits are new.
std::string new_pool_id(const World& world, Ledger& ledger, std::string_view provider,
                        const std::string& job_id);
// The port at which the nodes of a pool meet: below the kernel's ephemeral ports, and rarely the
// same for two pools on the same machines. `pool`: its digits are hexadecimal.
int head_port_of(std::string_view pool);
// The setting of a pool in the ledger that names its job, which its log files are named after.
inline constexpr const char* kJobSetting = "job";
// ... and the one that names Offer::billing_increment_minutes, if there are any.
inline constexpr const char* kBillingSetting = "billing_minutes";
// ... and the one that names BillingRules::minimum, in seconds, if it is not the usual one.
inline constexpr const char* kMinimumSetting = "minimum_seconds";
// ... and the one that names BillingRules::least, in millionths of a dollar, if there is any.
inline constexpr const char* kLeastChargeSetting = "least_micro_dollars";

// Whether a process of this computer has the pool open, or may have: its lock cannot be read.
bool is_open_here(const World& world, const std::string& pool);
// A verb was called for a pool that was not prepared here.
std::unexpected<Error> not_open_here(const Cluster& cluster);
// The pool's lock, to be watched whatever happens to its name.
io::LockWatch watch_pool(const World& world, const std::string& pool);
// Which process; 0: unknown, or none.
int process_of(const World& world, const std::string& pool);

}  // namespace skyward::provider

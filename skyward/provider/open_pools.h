#pragma once

// The pools that this computer has open at clouds: the ledger, and for each pool a directory that
// its driver holds a lock in. The lock ends with the driver, so that anybody here can tell a pool
// at work from one that was left behind.
//
//   <state>/ledger.db              provider/ledger.h
//   <state>/clouds/<pool id>/      lock, and what the provider keeps there: keys

#include <memory>
#include <optional>
#include <string>

#include "skyward/base/error.h"
#include "skyward/io/file_lock.h"
#include "skyward/provider/ledger.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

// The ledger of this user on this computer.
Result<std::unique_ptr<Ledger>> open_ledger(const World& world);
// The same to look things up only: nothing is made or changed, and a disk that cannot be written to
// will do.
Result<std::unique_ptr<Ledger>> read_ledger(const World& world);

// A pool's directory, made and locked. The lock is held until this is destroyed.
struct PoolDirectory {
  std::string path{};
  std::unique_ptr<io::FileLock> lock{};
};
Result<PoolDirectory> make_pool_directory(const World& world, const std::string& pool);
void remove_pool_directory(const World& world, const std::string& pool);

// Whether a process of this computer has the pool open.
bool is_open_here(const World& world, const std::string& pool);

}  // namespace skyward::provider

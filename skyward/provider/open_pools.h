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
#include <string_view>
#include <utility>

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

// What a pool is called at a cloud: "aws-1a2b3c4d" of the job 1a2b3c4d. Where the ledger has one of
// that name already, of another region in which it sought machines, the digits are new ones.
std::string new_pool_id(const World& world, Ledger& ledger, std::string_view provider,
                        const std::string& job_id);
// Where the nodes of a pool meet, as Cluster::details has it: below the ports that kernels hand
// out. Pools on the same machines seldom have the same one. `pool`: its digits are hexadecimal.
std::pair<std::string, std::string> head_port_of(std::string_view pool);
// Among the settings of a pool in the ledger: the id of its job, by which its log files are found.
inline constexpr const char* kJobSetting = "job";

// Whether a process of this computer has the pool open.
bool is_open_here(const World& world, const std::string& pool);
// Which one; 0: not known, or none has.
int process_of(const World& world, const std::string& pool);

}  // namespace skyward::provider

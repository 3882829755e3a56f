#pragma once

// The names of a pool. Its id is the eight digits in the first line of its log, "161f1c15". Its
// name at a cloud contains them, "aws-161f1c15", or other digits if it tried several regions. The
// directory of its log files ends with them, "20240131-235900-161f1c15".

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/provider/ledger.h"
#include "skyward/provider/table.h"
#include "skyward/provider/world.h"

namespace skyward::cli {

// The id of a pool in the ledger; empty: an older version wrote it.
std::string job_of(const provider::LedgerPool& pool);

// The computer that opened the pool; empty: this one. Computers that share a home share the ledger,
// but not always each other's locks, and the number in a lock is no process of this computer.
std::string host_elsewhere(const provider::World& world, const provider::LedgerPool& pool);

// The error of a command that must leave a pool alone since a program of this computer has it open,
// with what ends that program. `process`: 0 if it is not known.
Error still_open(const std::string& pool, int process);
// The same of a pool in the ledger; empty: nobody is known to have it open.
std::optional<Error> why_in_use(const provider::World& world, const provider::LedgerPool& pool);

// All that the ledger has; none where it cannot be read, for those who can do without.
std::vector<provider::LedgerPool> pools_if_readable(const provider::World& world);

// Those of the ledger that are called so, by any of the names; in the order given.
std::vector<provider::LedgerPool> pools_named(const std::vector<provider::LedgerPool>& pools,
                                              std::string_view name);

// "aws" of "aws-161f1c15"; empty for other names, and for a record and its path.
std::string_view cloud_in_name(std::string_view name);

// The names of the directories that hold the pools' log files, newest first.
std::vector<std::string> records(const provider::World& world);
std::string job_of_record(std::string_view record);
// Empty for none.
std::string path_of_record(const provider::World& world, const std::string& record);
// The record of a pool that is called so, of those that are there; empty: there is none.
std::string record_named(const std::vector<std::string>& records,
                         const std::vector<provider::LedgerPool>& pools, std::string_view name);

// The provider that its pool asked for machines last; empty: not known.
std::string provider_of_record(const provider::World& world, const std::string& record);
// The providers that its pool asked for machines and where some can be left behind.
struct RecordedClouds {
  std::vector<const provider::TableRow*> rows{};
  bool is_all = false;  // it asked no others; false: the record does not say
};
RecordedClouds clouds_of_record(const provider::World& world, const std::string& record);
// The process that has its pool open, 0 if it is not known which; empty: none has.
std::optional<int> opener_of_record(const provider::World& world, const std::string& record);

// Whether resources of this kind cost nothing and may stay for minutes, until their machines have
// shut down. The next pool or `skyward gc` removes them.
bool may_stay(std::string_view kind);

}  // namespace skyward::cli

#include "skyward/cli/pool_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <ranges>

#include "skyward/io/file.h"
#include "skyward/io/file_lock.h"
#include "skyward/io/private_directory.h"
#include "skyward/provider/marks.h"
#include "skyward/provider/open_pools.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::cli {

using provider::LedgerPool;

namespace {

// "161f1c15" of "aws-161f1c15", of a record's name, and of itself.
std::string_view digits_of(std::string_view name) { return name.substr(name.rfind('-') + 1); }

// "aws" of "aws-161f1c15"; empty without.
std::string_view cloud_of(std::string_view name) {
  const std::size_t dash = name.rfind('-');
  return dash == std::string_view::npos ? std::string_view() : name.substr(0, dash);
}

// The lines of a record's list of providers; none if it is not whole.
std::vector<std::string> lines_of(const provider::World& world, const std::string& record) {
  const auto text = io::read_file(path_of_record(world, record) + "/providers");
  if (!text || !text->ends_with('\n')) return {};
  std::vector<std::string> out;
  for (const auto& line : std::views::split(*text, '\n'))
    out.emplace_back(line.begin(), line.end());
  out.pop_back();  // after the last line
  return out;
}

// "20240131-235900-1a2b3c4d"
bool is_record(std::string_view name) {
  return name.size() == 24 && name[8] == '-' && name[15] == '-' &&
         name.find_first_not_of("0123456789abcdef-") == std::string::npos;
}

// Of a line of such a list, which has the label of a provider or its name.
const provider::TableRow* row_of_line(std::string_view line) {
  const auto& table = provider::provider_table();
  const auto row = std::ranges::find_if(table, [&](const provider::TableRow& one) {
    return one.name == line || provider_label(std::string(one.name)) == line;
  });
  return row == table.end() ? nullptr : &*row;
}

}  // namespace

bool may_stay(std::string_view kind) { return kind == "security_group"; }

std::string job_of(const LedgerPool& pool) { return pool.setting(provider::kJobSetting); }

std::string host_elsewhere(const provider::World& world, const LedgerPool& pool) {
  if (provider::opened_here(pool, world)) return "";
  const std::string host = pool.setting("host");
  return host.empty() ? "another computer" : host;
}

Error still_open(const std::string& pool, int process) {
  const std::string whose = process == 0 ? "a program" : fmt::format("the process {}", process);
  const std::string how = process == 0 ? "end it" : fmt::format("end it with 'kill {}'", process);
  return {ErrorKind::unsupported,
          fmt::format("the pool {} is open: {} on this computer uses it", pool, whose),
          how + ", or call close() on the pool there; it then releases its machines"};
}

std::optional<Error> why_in_use(const provider::World& world, const LedgerPool& pool) {
  if (!provider::is_open_here(world, pool.id)) return std::nullopt;
  // The number in another computer's lock is no process of this one.
  if (const std::string host = host_elsewhere(world, pool); !host.empty()) {
    return Error{ErrorKind::unsupported,
                 fmt::format("the pool {} is open: a program on {} uses it", pool.id, host),
                 "end it there, and it releases its machines"};
  }
  return still_open(pool.id, provider::process_of(world, pool.id));
}

std::vector<LedgerPool> pools_if_readable(const provider::World& world) {
  const auto ledger = provider::read_ledger(world);
  return ledger ? (*ledger)->pools(false).value_or(std::vector<LedgerPool>{})
                : std::vector<LedgerPool>{};
}

std::string_view cloud_in_name(std::string_view name) {
  return is_record(name.substr(name.rfind('/') + 1)) ? std::string_view() : cloud_of(name);
}

std::vector<LedgerPool> pools_named(const std::vector<LedgerPool>& pools, std::string_view name) {
  const auto exact = std::ranges::find(pools, name, &LedgerPool::id);
  if (exact != pools.end()) return {*exact};
  std::vector<LedgerPool> out;
  const std::string_view cloud = cloud_in_name(name);
  std::ranges::copy_if(pools, std::back_inserter(out), [&](const LedgerPool& pool) {
    const bool is_there = cloud.empty() || cloud == cloud_of(pool.id);
    return digits_of(pool.id) == name ||
           (!name.empty() && is_there && job_of(pool) == digits_of(name));
  });
  return out;
}

std::vector<std::string> records(const provider::World& world) {
  std::vector<std::string> names;
  for (std::string& name : io::list_directory(provider::state_directory(world))) {
    if (is_record(name)) names.push_back(std::move(name));
  }
  std::ranges::reverse(names);
  return names;
}

std::string job_of_record(std::string_view record) { return std::string(digits_of(record)); }

std::string path_of_record(const provider::World& world, const std::string& record) {
  return record.empty() ? "" : provider::state_directory(world) + "/" + record;
}

std::string provider_of_record(const provider::World& world, const std::string& record) {
  const std::vector<std::string> told = lines_of(world, record);
  if (told.empty()) return "";
  const provider::TableRow* row = row_of_line(told.back());
  return row == nullptr ? told.back() : std::string(row->name);
}

RecordedClouds clouds_of_record(const provider::World& world, const std::string& record) {
  const std::vector<std::string> told = lines_of(world, record);
  RecordedClouds out{.is_all = !told.empty()};
  for (const std::string& name : told) {
    const provider::TableRow* row = row_of_line(name);
    if (row == nullptr) {
      out.is_all = false;
    } else if (row->sweep != nullptr && std::ranges::find(out.rows, row) == out.rows.end()) {
      out.rows.push_back(row);
    }
  }
  return out;
}

std::optional<int> opener_of_record(const provider::World& world, const std::string& record) {
  return io::FileLock::holder(path_of_record(world, record) + "/lock");
}

std::string record_named(const std::vector<std::string>& records,
                         const std::vector<LedgerPool>& pools, std::string_view name) {
  std::string job(digits_of(name));
  const std::vector<LedgerPool> named = pools_named(pools, name);
  for (const LedgerPool& pool : named) {
    if (!job_of(pool).empty()) job = job_of(pool);
  }
  const std::string_view cloud = cloud_in_name(name);
  if (named.empty() && !cloud.empty()) {
    // The ledger may have lost it. Of another cloud, it has none of that name.
    const bool is_elsewhere =
        std::ranges::any_of(pools, [&](const LedgerPool& pool) { return job_of(pool) == job; });
    if (is_elsewhere || provider::find_row(cloud) == nullptr) return "";
  }
  const auto found = std::ranges::find_if(records, [&](const std::string& record) {
    return record == name || job_of_record(record) == job;
  });
  return found == records.end() ? std::string() : *found;
}

}  // namespace skyward::cli

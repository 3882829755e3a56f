#include "skyward/provider/open_pools.h"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <utility>

#include "skyward/io/file.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/private_directory.h"
#include "skyward/provider/marks.h"

namespace skyward::provider {

namespace {

constexpr const char* kOtherPlace = "set XDG_STATE_HOME to a directory of yours";
constexpr const char* kNoPlace =
    "there is no place for the ledger: neither XDG_STATE_HOME nor HOME is an absolute path";

Result<std::string> state_of(const World& world) {
  std::string state = state_directory(world);
  if (!state.empty()) return state;
  return fail(ErrorKind::invalid, kNoPlace, kOtherPlace);
}

std::string path_of(const std::string& state, const std::string& pool) {
  return state + "/clouds/" + pool;
}

std::string lock_file(const std::string& state, const std::string& pool) {
  return path_of(state, pool) + "/lock";
}

}  // namespace

Result<std::unique_ptr<Ledger>> open_ledger(const World& world) {
  const Result<std::string> state = state_of(world);
  if (!state) return fail(state);
  return world.open_ledger(*state + "/ledger.db");
}

Result<std::unique_ptr<Ledger>> read_ledger(const World& world) {
  const Result<std::string> state = state_of(world);
  if (!state) return fail(state);
  return Ledger::open_to_read(*state + "/ledger.db");
}

std::string ledger_number(const World& world) {
  const std::string state = state_directory(world);
  const std::uint64_t number = state.empty() ? 0 : io::file_number(state + "/ledger.db");
  return number == 0 ? "" : std::to_string(number);
}

bool is_of_ledger(const World& world, const Error& error) {
  const std::string state = state_directory(world);
  return state.empty() ? error.message == kNoPlace : is_of_ledger(error, state + "/ledger.db");
}

Result<PoolDirectory> make_pool_directory(const World& world, const std::string& pool) {
  const Result<std::string> state = state_of(world);
  if (!state) return fail(state);
  const std::string path = path_of(*state, pool);
  if (Status status = io::ensure_private_path(path); !status) {
    status.error().hint = kOtherPlace;
    return fail(status);
  }
  const std::string file = lock_file(*state, pool);
  auto lock = io::FileLock::try_lock(file);
  if (!lock && errno != EWOULDBLOCK) {
    return fail(ErrorKind::unavailable,
                fmt::format("the file {} cannot be locked: {}", file, io::errno_text(errno)),
                kOtherPlace);
  }
  if (!lock) {
    return fail(ErrorKind::unavailable, fmt::format("the pool {} is open already", pool),
                "close it first");
  }
  return PoolDirectory{.path = path, .lock = std::move(lock)};
}

Status keep_pool_locked(const World& world, const std::string& pool, PoolDirectory& directory) {
  if (is_open_here(world, pool)) return {};
  auto again = make_pool_directory(world, pool);
  if (!again) return fail(again);
  directory.lost_locks.push_back(std::exchange(directory.lock, std::move(again->lock)));
  return {};
}

std::string pool_directory(const World& world, const std::string& pool) {
  return path_of(state_directory(world), pool);
}

std::string reaper_lock(const World& world, const std::string& pool) {
  return pool_directory(world, pool) + "/reaper.lock";
}

void remove_pool_directory(const World& world, const std::string& pool) {
  const Result<std::string> state = state_of(world);
  if (state) (void)io::remove_tree(path_of(*state, pool));  // keys of machines that are gone
}

void remove_unused_directories(const World& world) {
  constexpr Duration kDay = std::chrono::hours(24);
  const Result<std::string> state = state_of(world);
  if (!state) return;
  const auto ledger = read_ledger(world);
  if (!ledger) return;
  for (const std::string& id : io::list_directory(*state + "/clouds")) {
    if (!is_pool_id(id) || !io::is_untouched_directory(path_of(*state, id), kDay)) continue;
    const auto listed = (*ledger)->find_pool(id);
    const bool may_be_used = !listed || (*listed && !(*listed)->closed_s);
    const bool is_reaped = io::FileLock::holder(reaper_lock(world, id)).has_value();
    if (may_be_used || is_open_here(world, id) || is_reaped) continue;
    remove_pool_directory(world, id);
  }
}

std::string new_pool_id(const World& world, Ledger& ledger, std::string_view provider,
                        const std::string& job_id) {
  constexpr int kDigits = 8;
  std::string id = fmt::format("{}-{}", provider, job_id);
  const auto known = ledger.find_pool(id);
  const bool taken = known && known->has_value();
  if (!job_id.empty() && !taken) return id;
  return fmt::format("{}-{}", provider, world.random_hex(kDigits));
}

int process_of(const World& world, const std::string& pool) {
  const Result<std::string> state = state_of(world);
  if (!state) return 0;
  return io::FileLock::holder(lock_file(*state, pool)).value_or(0);
}

bool is_open_here(const World& world, const std::string& pool) {
  const Result<std::string> state = state_of(world);
  if (!state) return false;
  return io::FileLock::holder(lock_file(*state, pool)).has_value();
}

std::unexpected<Error> not_open_here(const Cluster& cluster) {
  return fail(ErrorKind::invalid, fmt::format("the pool {} is not open here", cluster.id),
              "call prepare() first");
}

io::LockWatch watch_pool(const World& world, const std::string& pool) {
  return io::LockWatch(lock_file(state_directory(world), pool));
}

int head_port_of(std::string_view pool) {
  constexpr unsigned kFirstPort = 20000;
  constexpr unsigned kPorts = 12000;
  const std::string_view digits = pool.substr(pool.rfind('-') + 1);
  unsigned number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  return static_cast<int>(kFirstPort + number % kPorts);
}

}  // namespace skyward::provider

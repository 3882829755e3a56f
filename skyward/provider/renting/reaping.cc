#include "skyward/provider/renting/reaping.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "skyward/io/file_lock.h"
#include "skyward/provider/json_read.h"
#include "skyward/provider/marks.h"
#include "skyward/provider/open_pools.h"
#include "skyward/spec/reaper.h"

namespace skyward::provider {

namespace {

using namespace std::chrono_literals;

// How often the reaper checks the driver's lock. One check may be wrong (the file could not be
// opened, say), so it acts after several in a row that found the lock free.
constexpr Duration kLockLook = 2s;
constexpr int kFreeLooks = 5;
// After a failure; doubles up to the longest.
constexpr Duration kFirstReaperPause = 5s;
constexpr Duration kLongestReaperPause = 300s;
// Of one try to terminate and remove everything.
constexpr Duration kOneTry = 600s;
// A pool closes itself when its time is over; it gets so long for that.
constexpr std::int64_t kGrace_s = 300;
// Past the end of the pool's time, for a cloud that does not answer.
constexpr Duration kReaperPatience = 24h;
constexpr Duration kReaperStart = 20s;

// At the end of a job or a step, the runners of GitHub, Azure Pipelines and Jenkins kill every
// process that has these. So do agents (agent/node_directory.h) and local pools (local/local.cc)
// with what tasks have started, which may have opened a pool.
constexpr std::array kMarksOfJobs = {
    "RUNNER_TRACKING_ID", "VSTS_PROCESS_LOOKUP_ID", "JENKINS_NODE_COOKIE",  "JENKINS_SERVER_COOKIE",
    "BUILD_ID",           "HUDSON_COOKIE",          "HUDSON_SERVER_COOKIE", "SKYWARD_NODE",
    "SKYWARD_WORK",       "SKYWARD_LOCAL_NODE"};

std::string last_words_path(const World& world, const std::string& pool) {
  return pool_directory(world, pool) + "/gave-up";
}

// What a ledger says of a pool. One that does not know it may be another one by now.
enum class Entered : std::uint8_t { unreadable, unknown, open, closed };
Entered find_entered(const Result<std::unique_ptr<Ledger>>& ledger, const std::string& pool) {
  if (!ledger) return Entered::unreadable;
  const auto found = (*ledger)->find_pool(pool);
  if (!found) return Entered::unreadable;
  if (!*found) return Entered::unknown;
  return (*found)->closed_s ? Entered::closed : Entered::open;
}

Status terminate_pool(const World& world, PoolResources& resources, const ReaperOrder& order,
                      Ledger& ledger, Time deadline) {
  const Cluster cluster{.id = order.pool, .region = order.region};
  PoolBook book(world, ledger, order.pool);
  const std::unique_ptr<MachineApi> api = resources.machine_api(cluster);
  const Status gone = PoolMachines(book, *api).terminate_all(deadline);
  if (!gone) return gone;
  return clear_and_close(world, resources, cluster, book, deadline);
}

// Open in the ledger, in this account, and no process here holds a lock of it.
std::vector<LedgerPool> unattended(const World& world, Ledger& ledger, const ProviderSpec& provider,
                                   const std::string& account) {
  auto pools = ledger.pools(true).value_or(std::vector<LedgerPool>());
  std::erase_if(pools, [&](const LedgerPool& pool) {
    return pool.provider != provider.name || pool.setting("account") != account ||
           is_open_here(world, pool.id) || io::FileLock::holder(reaper_lock(world, pool.id));
  });
  return pools;
}

}  // namespace

std::string to_text(const ReaperOrder& order) {
  return json_line({{"provider", order.provider.name},
                    {"settings", order.provider.settings},
                    {"pool", order.pool},
                    {"region", order.region},
                    {"expires", order.expires_s}});
}

Result<ReaperOrder> read_reaper_order(std::string_view text) {
  const nlohmann::json told = read_json(text);
  ReaperOrder out;
  out.provider.name = json_text(told, "provider");
  out.pool = json_text(told, "pool");
  out.region = json_text(told, "region");
  out.expires_s = json_whole(told, "expires").value_or(0);
  const nlohmann::json& settings = json_at(told, "settings");
  if (settings.is_object()) {
    for (const auto& [name, value] : settings.items()) {
      out.provider.settings[name] = json_text(value);
    }
  }
  if (out.provider.name.empty() || !is_pool_id(out.pool) || out.expires_s <= 0) {
    return fail(ErrorKind::invalid, "this is not an order for a reaper",
                "a pool starts its reaper");
  }
  return out;
}

ReaperStep next_step(const ReaperOrder& order, const ReaperView& view) {
  if (view.is_closed || view.is_lost_and_clear) return ReaperStep::finish;
  const bool over = view.now_s >= order.expires_s + kGrace_s;
  return view.driver_runs && !over ? ReaperStep::wait : ReaperStep::terminate;
}

Time reaper_deadline(const World& world, const ReaperOrder& order) {
  return world.now() + std::chrono::seconds(order.expires_s - world.wall_s()) + kReaperPatience;
}

Status reap(const World& world, PoolResources& resources, const ReaperOrder& order, Time deadline) {
  Status last;
  if (!why_reaper_gave_up(world, order.pool).empty()) {  // an earlier one has
    (void)world.write_file(last_words_path(world, order.pool), "");
  }
  const io::LockWatch lock = watch_pool(world, order.pool);
  const Duration unanswered =
      std::chrono::seconds(resources.machine_api({.id = order.pool, .region = order.region})
                               ->facts()
                               .unanswered_limit_s);
  const std::int64_t began_s = world.wall_s();
  const Time began = world.time_with_sleep();
  Duration pause = kFirstReaperPause;
  int free_looks = 0;                 // in a row
  std::optional<Time> clear_since{};  // since then, every search has left nothing
  while (true) {
    auto ledger = open_ledger(world);
    const Entered entered = find_entered(ledger, order.pool);
    free_looks = lock.holder() ? 0 : free_looks + 1;
    const bool is_clear = clear_since && world.now() - *clear_since >= unanswered;
    const ReaperView view{.driver_runs = free_looks < kFreeLooks,
                          .is_closed = entered == Entered::closed,
                          .is_lost_and_clear = entered == Entered::unknown && is_clear,
                          .now_s = began_s + (world.time_with_sleep() - began) / 1s};
    const ReaperStep step = next_step(order, view);
    if (step == ReaperStep::finish) return {};
    if (world.now() >= deadline) break;
    if (step == ReaperStep::wait) {
      world.pause(kLockLook, {});
      continue;
    }
    // Machines end with or without a ledger.
    const std::unique_ptr<Ledger> usable = ledger ? *std::move(ledger) : blank_ledger();
    last = terminate_pool(world, resources, order, *usable, world.now() + kOneTry);
    clear_since = last ? clear_since.value_or(world.now()) : std::optional<Time>();
    world.pause(pause, {});
    pause = std::min(pause * 2, kLongestReaperPause);
  }
  if (last) last = fail(ErrorKind::timeout, "a request may still take effect", "");
  (void)world.write_file(last_words_path(world, order.pool), last.error().message);
  return last;
}

std::string why_reaper_gave_up(const World& world, const std::string& pool) {
  return world.read_file(last_words_path(world, pool)).value_or("");
}

Status start_reaper(const World& world, const std::string& agent_path, const ReaperOrder& order) {
  const std::string folder = agent_path.substr(0, agent_path.rfind('/') + 1);
  const std::string program = folder + kReaperCommand[0];
  constexpr const char* kHint =
      "install skyward again: without that program, the machines would keep costing money";
  if (!world.exists(program)) {
    return fail(ErrorKind::invalid,
                fmt::format("there is no {}: nothing would terminate the machines of a program "
                            "that dies",
                            program),
                kHint);
  }
  const io::SpawnOptions options{.command = {program, kReaperCommand[1]},
                                 .unset = {kMarksOfJobs.begin(), kMarksOfJobs.end()},
                                 .new_session = true};
  const auto started = world.run_with_input(options, kReaperStart, to_text(order));
  if (!started) return fail(started);
  if (started->status.code == 0 && started->status.signal == 0) return {};
  return fail(ErrorKind::unavailable,
              fmt::format("the process that terminates the machines of a program that dies did not "
                          "start ({}): {}",
                          started->status.describe(), started->err),
              kHint);
}

std::vector<std::string> resume_reapers(const World& world, Ledger& ledger,
                                        const std::string& agent_path, const ProviderSpec& provider,
                                        const std::string& account) {
  std::vector<std::string> resumed;
  for (const LedgerPool& pool : unattended(world, ledger, provider, account)) {
    if (!opened_here(pool, world)) continue;
    const std::int64_t in_a_day_s = world.wall_s() + 24h / 1s;
    const Status started = start_reaper(world, agent_path,
                                        {.provider = provider,
                                         .pool = pool.id,
                                         .region = pool.region,
                                         .expires_s = std::max(pool.expires_s, in_a_day_s)});
    if (started) resumed.push_back(pool.id);
  }
  return resumed;
}

std::vector<LedgerPool> unattended_elsewhere(const World& world, Ledger& ledger,
                                             const ProviderSpec& provider,
                                             const std::string& account) {
  std::vector<LedgerPool> pools = unattended(world, ledger, provider, account);
  std::erase_if(pools, [&](const LedgerPool& pool) { return opened_here(pool, world); });
  return pools;
}

Status clear_and_close(const World& world, PoolResources& resources, const Cluster& cluster,
                       PoolBook& book, Time deadline) {
  const auto kept = resources.clear(cluster, book, deadline);
  const Status closed =
      kept ? book.close_when_clear(resources.machine_api(cluster)->facts().unanswered_limit_s)
           : fail(kept);
  // Keys are of no use when the machines have ended; while some may still appear, the reaper has
  // its lock there.
  const bool may_appear = std::ranges::any_of(
      book.open_entries(), [](const LedgerEntry& entry) { return entry.kind == "instance"; });
  if (!may_appear) remove_pool_directory(world, cluster.id);
  return closed;
}

}  // namespace skyward::provider

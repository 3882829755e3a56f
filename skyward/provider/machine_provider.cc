#include "skyward/provider/machine_provider.h"

#include <fmt/format.h>

#include <chrono>
#include <variant>

#include "skyward/provider/choosing.h"
#include "skyward/provider/marks.h"
#include "skyward/provider/remote_image.h"
#include "skyward/provider/renting/reaping.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::provider {

namespace {

using namespace std::chrono_literals;

constexpr Duration kNoLimit = 24h * 3650;  // of a pool without a timeout

}  // namespace

Status MachineProvider::check(const PoolSpec& spec) {
  if (Status status = check_agent(spec); !status) return status;
  if (Status status = check_architecture(spec); !status) return status;
  const bool splits =
      spec.accelerator && !std::holds_alternative<std::monostate>(spec.accelerator->mig);
  if (!splits || capabilities().splits_gpus) return {};
  return fail(ErrorKind::unsupported,
              fmt::format("{}: mig: nodes may not split their GPUs there; nothing was started",
                          provider_label(std::string(name()))),
              "leave mig out to use whole GPUs, or rent whole machines, such as those of AWS");
}

PoolBook& MachineProvider::book_of(const Cluster& cluster) {
  return books_.try_emplace(cluster.id, world_, ledger_, cluster.id).first->second;
}

Duration MachineProvider::lifetime_of(const PoolSpec& spec) {
  return (spec.timeout > Duration{} ? spec.timeout : kNoLimit) + kLifeGrace;
}

Status MachineProvider::enter_in_ledger(const Cluster& cluster, Entry entry) {
  entry.settings.merge(this_computer(world_));
  if (!entry.job.empty()) entry.settings[kJobSetting] = entry.job;
  return ledger_.open_pool({.id = cluster.id,
                            .provider = std::string(name()),
                            .region = cluster.region,
                            .settings = std::move(entry.settings),
                            .opened_s = world_.wall_s(),
                            .expires_s = entry.expires_s});
}

Result<std::optional<Instance>> MachineProvider::get_instance(const Cluster& cluster,
                                                              const std::string& id,
                                                              Time deadline) {
  const auto api = machine_api(cluster, deadline);
  if (!api) return fail(api);
  const auto found = (*api)->look_up({id}, deadline);
  if (!found) return fail(found);
  for (const MachineStatus& one : *found) {
    if (one.instance.id == id && one.stage < Stage::stopped) return one.instance;
  }
  return std::nullopt;
}

Status MachineProvider::terminate(const Cluster& cluster, const std::vector<std::string>& ids,
                                  Time deadline) {
  const auto api = machine_api(cluster, deadline);
  if (!api) return fail(api);
  return with_end(PoolMachines(book_of(cluster), **api).terminate(ids, deadline));
}

// What becomes of machines that these credentials may not terminate.
Status MachineProvider::with_end(Status ended) {
  if (ended || ended.error().kind != ErrorKind::denied || !capabilities().stop_ends_billing) {
    return ended;
  }
  ended.error().message += "; the machines terminate themselves when their lease expires";
  return ended;
}

Status MachineProvider::teardown(const Cluster& cluster, Time deadline) {
  const auto api = machine_api(cluster, deadline);
  if (!api) return fail(api);
  PoolBook& book = book_of(cluster);
  const Status gone = PoolMachines(book, **api).terminate_all(deadline);
  if (!gone) return with_end(gone);
  const Status closed = clear_and_close(world_, resources(), cluster, book, deadline);
  forget(cluster);
  if (closed) books_.erase(cluster.id);
  return closed;
}

std::vector<std::string> MachineProvider::standing(const Cluster& cluster) {
  std::vector<std::string> ids;
  for (const LedgerEntry& entry : book_of(cluster).open_entries()) {
    if (entry.kind == "instance" && !entry.id.empty()) ids.push_back(entry.id);
  }
  return ids;
}

}  // namespace skyward::provider

#include "skyward/provider/slurm/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/provider/keeping/kept_nodes.h"
#include "skyward/provider/slurm/keeper.h"
#include "skyward/provider/slurm/partitions.h"
#include "skyward/provider/slurm/slurm_account.h"

namespace skyward::provider {

namespace {

using namespace slurm;
using namespace std::chrono_literals;

// A queue may be longer than any pool lives: the pool's timeout ends the wait, and Ctrl-C.
constexpr Duration kQueueTimeout = 24h * 90;
// From the start of the job to the agent's first word: its upload, perhaps through a login node.
constexpr Duration kJobGreetTimeout = 300s;
// Of a replacement in the last minutes of its pool.
constexpr Duration kLeastTime = 5min;

// From the start of the job to the first connection to it: a look at the queue, and srun.
constexpr Duration kSoonConnected = 2min;

// What srun says of a job that has ended.
std::vector<std::string> signs_of_end(std::string_view job) {
  return {fmt::format("Slurm job {} has expired", job), "Invalid job id",
          "Job/step already complet"};
}

class SlurmProvider final : public KeptNodes {
 public:
  SlurmProvider(World world, Access access, Wishes wishes, std::string login)
      : KeptNodes(std::move(world), kProvider),
        access_(std::move(access)),
        wishes_(std::move(wishes)),
        login_(std::move(login)) {}

  Capabilities capabilities() const override {
    return {.spot = false,
            .private_network = true,
            .root = false,
            .fuse = false,
            .stop_ends_billing = true,
            .provision_timeout = kQueueTimeout,
            .greet_timeout = kJobGreetTimeout,
            .tend_interval = kTendInterval,
            .gateway = true};
  }

  Result<std::vector<Offer>> offers(const PoolSpec& spec, Time deadline) override;
  Result<Cluster> prepare(const PoolSpec& spec, const Offer& offer, Time deadline) override;
  Connection connection(const Cluster& cluster, const Instance& instance) override;
  Error explain(const Instance& instance, Error error) override;

 protected:
  NamedAccount& account() override { return account_; }
  std::string keeper_directory(const Instance&) const override {
    return std::string(kKeeperDirectory);
  }
  Status check_wishes(const PoolSpec& spec) override;
  Result<std::vector<Offer>> all_offers(Time deadline) override;

 private:
  Status look(Time deadline);

  const Access access_;
  const Wishes wishes_;
  const std::string login_;  // as it was given
  SlurmAccount account_{world_, access_};
  std::vector<Candidate> candidates_;  // of the last look
  SweepAccount user_;                  // the same
  // When a job was first connected to, by time_with_sleep(). On the loop.
  std::map<std::string, Time> connected_;
};

Status SlurmProvider::check_wishes(const PoolSpec& spec) {
  if (!spec.volumes.empty()) {
    return fail(ErrorKind::unsupported,
                "Slurm: volumes cannot be mounted on nodes that belong to a site; nothing was "
                "submitted",
                "read and write the site's own file system, or the bucket in the function");
  }
  if (!spec.architecture.empty() && wishes_.partition.empty() && spec.machine.empty()) {
    return fail(ErrorKind::unsupported,
                fmt::format("Slurm: architecture=\"{}\": Slurm does not say which architecture "
                            "nodes have; nothing was submitted",
                            spec.architecture),
                fmt::format("name a partition= whose nodes are {}, or leave architecture out",
                            spec.architecture));
  }
  return {};
}

// ---- What there is

Status SlurmProvider::look(Time deadline) {
  auto user = account_.sign_in(deadline);
  if (!user) return fail(user);
  const auto groups = account_.api().node_groups(deadline);
  if (!groups) return std::unexpected(to_error(groups.error(), "Slurm: listing partitions"));
  user_ = *std::move(user);
  candidates_ = candidates_of(*groups, wishes_, user_.home_region);
  return {};
}

Result<std::vector<Offer>> SlurmProvider::offers(const PoolSpec& spec, Time deadline) {
  if (Status looked = look(deadline); !looked) return fail(looked);
  return fitting_candidates(candidates_, wishes_, spec);
}

Result<std::vector<Offer>> SlurmProvider::all_offers(Time deadline) {
  if (Status looked = look(deadline); !looked) return fail(looked);
  std::vector<Offer> out;
  for (const Candidate& candidate : candidates_) out.push_back(candidate.offer);
  return out;
}

// ---- Opening

Result<Cluster> SlurmProvider::prepare(const PoolSpec& spec, const Offer& offer, Time) {
  const auto candidate = std::ranges::find_if(candidates_, [&](const Candidate& one) {
    return one.offer.instance_type == offer.instance_type;
  });
  if (candidate == candidates_.end()) {
    return fail(ErrorKind::exhausted,
                fmt::format("Slurm: {} is no longer there", offer.instance_type),
                "'sinfo -s' lists the partitions");
  }
  auto request = request_of(*candidate, wishes_, spec);
  if (!request) return fail(request);
  if (wishes_.time > Duration{} && wishes_.time < spec.timeout) {
    tell_once(fmt::format(
        "Slurm: time= ends each job after {}, before the pool's timeout of {}: a call that runs "
        "then starts again in a new job. Leave out time=, or set the pool's timeout= no higher",
        text_of(wishes_.time), text_of(spec.timeout)));
  }
  request->script = job_script(keeper_terms(spec));
  JobOrder order{.request = *std::move(request),
                 .nodes_there = nodes_for(candidates_, wishes_, offer),
                 // When it may start changes at each look of Slurm's scheduler.
                 .tell = [this](const Job& job) {
                   tell_once(fmt::format("Slurm: job {}: {}", job.id, waiting_text(job)),
                             fmt::format("{} {}", job.id, job.reason));
                 }};
  std::map<std::string, std::string> way_back;
  if (!login_.empty()) way_back["login"] = login_;
  return open_pool(
      spec, offer,
      {.user = user_,
       .way_back = std::move(way_back),
       .zone = offer.region,
       .queues = true,
       .launch_api = [this, order = std::move(order)](const Mark& mark, Duration left) {
         JobOrder now = order;
         now.request.time = std::min(now.request.time, std::max(left, kLeastTime));
         return account_.launch_api(mark, std::move(now));
       }});
}

// ---- The way to them

Connection SlurmProvider::connection(const Cluster& cluster, const Instance& instance) {
  const auto node = read_job_node(instance.id);
  SKYWARD_CHECK(node, "{} was not prepared here", instance.id);
  connected_.try_emplace(node->job, world_.time_with_sleep());
  Connection out = connection_by(cluster, access_.words_to(node->job, instance.private_ip));
  out.permanent_errors = signs_of_end(node->job);
  if (access_.login) {
    out.environment = {{"SSH_ASKPASS_REQUIRE", "never"}};
    // They say nothing about a node that was reached: a home may not be mounted yet.
    out.hopeless_errors = permanent_ssh_errors();
  }
  return out;
}

Error SlurmProvider::explain(const Instance& instance, Error error) {
  if (access_.login) error = explain_ssh_error(*access_.login, {}, std::move(error));
  const auto node = read_job_node(instance.id);
  if (!node) return error;
  const auto said = [&](const std::string& text) { return error.message.contains(text); };
  if (std::ranges::any_of(signs_of_end(node->job), said)) {
    const auto since = connected_.find(node->job);
    const bool is_over = wishes_.time > Duration{} && since != connected_.end() &&
                         world_.time_with_sleep() - since->second + kSoonConnected >= wishes_.time;
    const std::string limit =
        is_over ? fmt::format(" (time= limits it to {})", text_of(wishes_.time)) : std::string();
    return {.kind = ErrorKind::lost,
            .message = fmt::format("its job {} has ended{}: {}", node->job, limit, error.message),
            .hint = fmt::format("'scontrol show job {0}' and 'sacct -j {0}' show why", node->job)};
  }
  if (!error.hint.empty()) return error;
  error.hint = fmt::format("'scontrol show job {}' shows the state of its job", node->job);
  return error;
}

}  // namespace

Result<std::unique_ptr<Provider>> make_slurm(const ProviderSpec& spec, World world) {
  const std::string login = spec.setting("login");
  auto access = find_access(login);
  if (!access) return fail(access);
  auto wishes = read_wishes(spec);
  if (!wishes) return fail(wishes);
  return std::make_unique<SlurmProvider>(std::move(world), *std::move(access), *std::move(wishes),
                                         login);
}

}  // namespace skyward::provider

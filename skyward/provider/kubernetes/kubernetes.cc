#include "skyward/provider/kubernetes/kubernetes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/provider/keeping/kept_nodes.h"
#include "skyward/provider/kubernetes/diagnose.h"
#include "skyward/provider/kubernetes/kubernetes_account.h"
#include "skyward/provider/kubernetes/nodes.h"

namespace skyward::provider {

namespace {

using namespace kubernetes;
using namespace std::chrono_literals;

// Nodes that are started for the pool, and an image of many GB.
constexpr Duration kPodTimeout = 20min;
// From the start of the pod to the agent's first word: its upload through the API server.
constexpr Duration kPodGreetTimeout = 120s;

class KubernetesProvider final : public KeptNodes {
 public:
  KubernetesProvider(World world, Access access, Wishes wishes)
      : KeptNodes(std::move(world), kProvider),
        wishes_(std::move(wishes)),
        account_(world_, std::move(access)) {
    account_.set_tell([this](const std::string& line) { tell_once(line); });
  }

  Capabilities capabilities() const override {
    return {.spot = false,
            .private_network = true,
            .root = !wishes_.user,
            .fuse = false,
            .stop_ends_billing = true,
            .preemption = kNotice,
            .provision_timeout = kPodTimeout,
            .greet_timeout = kPodGreetTimeout,
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
  Result<std::unique_ptr<MachineApi>> machine_api(const Cluster& cluster, Time deadline) override;

 private:
  Status look(Time deadline);
  Status look_at_nodes(Time deadline);

  const Wishes wishes_;
  KubernetesAccount account_;
  SweepAccount user_;                  // of the last look
  std::vector<Candidate> candidates_;  // the same
  bool nodes_seen_ = false;            // the same
};

Status KubernetesProvider::check_wishes(const PoolSpec& spec) {
  if (!spec.volumes.empty()) {
    return fail(ErrorKind::unsupported,
                "Kubernetes: volumes cannot be mounted in pods, which may not use FUSE; nothing "
                "was created",
                "read and write the bucket in the function");
  }
  if (wishes_.user && !spec.image.apt.empty()) {
    return fail(ErrorKind::invalid,
                "Kubernetes: pods with run_as_user= may not install the packages of apt=; "
                "nothing was created",
                "use an image= that has them");
  }
  return check_packages(spec.image);
}

// ---- What there is

// Users of a namespace often may not look at nodes or at others' pods.
Status KubernetesProvider::look_at_nodes(Time deadline) {
  const auto may_not = [](const ApiError& error) { return error.kind() == ErrorKind::denied; };
  const auto nodes = account_.api().nodes(deadline);
  if (!nodes && !may_not(nodes.error())) {
    return std::unexpected(to_error(nodes.error(), "Kubernetes: listing nodes"));
  }
  nodes_seen_ = nodes.has_value();
  candidates_.clear();
  if (!nodes_seen_) return {};
  const auto usage = account_.api().usage(deadline);
  if (!usage && !may_not(usage.error())) {
    return std::unexpected(to_error(usage.error(), "Kubernetes: listing pods"));
  }
  candidates_ = candidates_of(*nodes, usage.value_or(Usage()), wishes_, user_.home_region);
  return {};
}

Status KubernetesProvider::look(Time deadline) {
  auto user = account_.sign_in(deadline);
  if (!user) return fail(user);
  user_ = *std::move(user);
  if (Status allowed = check_rights(account_.api(), account_.access(), deadline); !allowed) {
    return allowed;
  }
  return look_at_nodes(deadline);
}

Result<std::vector<Offer>> KubernetesProvider::offers(const PoolSpec& spec, Time deadline) {
  if (Status looked = look(deadline); !looked) return fail(looked);
  const bool is_said = !spec.accelerator || !wishes_.gpu.empty();
  if (!nodes_seen_ && !is_said) {
    return fail(ErrorKind::denied,
                fmt::format("Kubernetes: you may not list nodes, so Skyward cannot tell which of "
                            "them have {}; nothing was created",
                            spec.accelerator->name),
                "specify it yourself: gpu=\"nvidia.com/gpu\" and node_selector= for such nodes");
  }
  if (!nodes_seen_ || (wishes_.autoscaled && is_said)) {
    candidates_.push_back(unseen_candidate(spec, wishes_, user_.home_region));
  }
  return fitting_candidates(candidates_, wishes_, spec);
}

Result<std::vector<Offer>> KubernetesProvider::all_offers(Time deadline) {
  if (Status looked = look(deadline); !looked) return fail(looked);
  std::vector<Offer> out;
  for (const Candidate& candidate : candidates_) out.push_back(candidate.offer);
  return out;
}

// ---- Opening

Result<Cluster> KubernetesProvider::prepare(const PoolSpec& spec, const Offer& offer, Time) {
  const Candidate* const candidate = candidate_for(candidates_, offer);
  if (candidate == nullptr) {
    return fail(ErrorKind::exhausted,
                fmt::format("Kubernetes: {} is no longer there", offer.instance_type),
                "'kubectl get nodes' lists the nodes");
  }
  PodRequest request = request_of(*candidate, wishes_, spec);
  request.keeper = keeper_script(keeper_terms(spec));
  return open_pool(
      spec, offer,
      {.user = user_,
       .way_back = way_back_of(account_.access()),
       .zone = account_.access().name_space,
       .launch_api = [this, request = std::move(request)](const Mark& mark, Duration left) {
         PodRequest now = request;
         now.life = left;
         return account_.launch_api(mark, std::move(now));
       }});
}

Result<std::unique_ptr<MachineApi>> KubernetesProvider::machine_api(const Cluster& cluster,
                                                                    Time deadline) {
  if (const auto signed_in = account_.sign_in(deadline); !signed_in) return fail(signed_in);
  return account_.machine_api(cluster);
}

// ---- The way to them

Connection KubernetesProvider::connection(const Cluster& cluster, const Instance& instance) {
  const Access& access = account_.access();
  Connection out = connection_by(
      cluster,
      access.words({"exec", "--stdin", instance.id, "--container", kContainer, "--", "sh", "-c"}));
  out.environment = access.environment();
  out.permanent_errors = {"Error from server (NotFound)", "in a completed pod",
                          fmt::format("container not found (\"{}\")", kContainer)};
  // An API server that has just started may not know its rules yet.
  out.hopeless_errors = {"Error from server (Forbidden)"};
  return out;
}

Error KubernetesProvider::explain(const Instance& instance, Error error) {
  if (!error.hint.empty()) return error;
  error.hint = error.message.contains("\"bash\"")
                   ? "the container image needs bash: use another one with image="
                   : fmt::format("'kubectl describe pod {}' shows its events", instance.id);
  return error;
}

}  // namespace

Result<std::unique_ptr<Provider>> make_kubernetes(const ProviderSpec& spec, World world) {
  auto wishes = read_wishes(spec);
  if (!wishes) return fail(wishes);
  Access access = access_of(world, spec);
  return std::make_unique<KubernetesProvider>(std::move(world), std::move(access),
                                              *std::move(wishes));
}

}  // namespace skyward::provider

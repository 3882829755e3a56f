#include "skyward/provider/kubernetes/kubernetes_account.h"

#include <fmt/format.h>

#include <utility>

#include "skyward/base/text.h"

namespace skyward::provider::kubernetes {

namespace {

// Where a pod finds its own namespace.
constexpr const char* kOwnNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

// Where this program runs in a pod itself, and no context is chosen.
ClusterUser user_within(const World& world) {
  const auto space = world.read_file(kOwnNamespace);
  return {.server = world.variable("KUBERNETES_SERVICE_HOST").value_or(""),
          .user = "service account",
          .name_space = space ? std::string(trimmed(*space)) : "default"};
}

}  // namespace

std::unique_ptr<Api> KubernetesAccount::make_api() const {
  return std::make_unique<Api>(runner_of(world_, access_), command_clock(world_));
}

Result<SweepAccount> KubernetesAccount::sign_in(Time deadline) {
  if (account_) return *account_;
  const auto found = api_->user(deadline);
  if (!found) return std::unexpected(to_error(found.error(), "Kubernetes: the context"));
  const ClusterUser user = *found ? **found : user_within(world_);
  if (user.server.empty()) {
    return fail(ErrorKind::unsupported,
                "Kubernetes: kubectl is not set up for any cluster on this computer",
                "'kubectl config get-contexts' lists those that it knows; $KUBECONFIG names its "
                "file");
  }
  access_.context = user.context;
  if (access_.name_space.empty()) access_.name_space = user.name_space;
  api_ = make_api();
  const std::string account = fmt::format("{}/{}", user.server, access_.name_space);
  // A cluster has another address from within: what a listing shows is one namespace of it anyway.
  account_ = SweepAccount{.owner = owner_digits(account),
                          .account = account,
                          .lists_own = true,
                          .home_region = user.context.empty() ? user.server : user.context,
                          .is_clock_unknown = true};
  return *account_;
}

ApiResult<std::vector<NamedMachine>> KubernetesAccount::machines(Time deadline) {
  const auto pods = api_->pods(selector_of(""), deadline);
  if (!pods) return std::unexpected(pods.error());
  return machines_of(*pods, sight_, api_->now());
}

std::map<std::string, std::string> way_back_of(const Access& access) {
  return {{"kubeconfig", access.kubeconfig},
          {"context", access.context},
          {"namespace", access.name_space}};
}

Access access_of(const LedgerPool& pool) {
  return {.kubeconfig = pool.setting("kubeconfig"),
          .context = pool.setting("context"),
          .name_space = pool.setting("namespace")};
}

// `gc` may run in another directory.
Access access_of(const World& world, const ProviderSpec& spec) {
  std::string files;
  for (const std::string& file : items_of(world.variable("KUBECONFIG").value_or(""), ':')) {
    files += fmt::format("{}{}{}", files.empty() ? "" : ":",
                         file.starts_with('/') ? "" : world.directory() + "/", file);
  }
  return {.kubeconfig = std::move(files),
          .context = spec.setting("context"),
          .name_space = spec.setting("namespace")};
}

}  // namespace skyward::provider::kubernetes

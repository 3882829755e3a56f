#include "skyward/provider/kubernetes/diagnose.h"

#include <fmt/format.h>

#include <string>

#include "skyward/provider/kubernetes/kubernetes_account.h"
#include "skyward/provider/kubernetes/nodes.h"
#include "skyward/provider/renting/findings.h"
#include "skyward/provider/settings.h"

namespace skyward::provider::kubernetes {

namespace {

std::string names_of(const std::vector<Candidate>& candidates) {
  std::string out;
  for (const Candidate& candidate : candidates) {
    out += fmt::format("{}{} ({})", out.empty() ? "" : ", ", candidate.offer.instance_type,
                       candidate.nodes.size());
  }
  return out;
}

void tell_nodes(Api& api, const Wishes& wishes, const std::string& cluster,
                const std::function<void(const Finding&)>& tell, Time deadline) {
  const auto nodes = api.nodes(deadline);
  if (!nodes && nodes.error().kind() == ErrorKind::denied) {
    tell({.what = "nodes",
          .good = true,
          .detail = "you may not list them: pools with GPUs must say which, with gpu= and "
                    "node_selector="});
    return;
  }
  if (!nodes) return tell(finding_of("nodes", nodes));
  const std::string names = names_of(candidates_of(*nodes, {}, wishes, cluster));
  tell({.what = "nodes",
        .good = !names.empty() || wishes.autoscaled,
        .detail = names.empty() ? "none accepts pods" : names,
        .hint = names.empty() ? "'kubectl describe nodes' shows their states and taints" : ""});
}

}  // namespace

const std::vector<Right>& needed_rights() {
  static const auto& all = *new std::vector<Right>{{"create", "pods", ""},
                                                   {"get", "pods", ""},
                                                   {"list", "pods", ""},
                                                   {"delete", "pods", ""},
                                                   {"create", "pods", "exec"}};
  return all;
}

Status check_rights(Api& api, const Access& access, Time deadline) {
  const auto none = api.missing(needed_rights(), access.name_space, deadline);
  if (!none) return std::unexpected(to_error(none.error(), "Kubernetes: your rights"));
  if (none->empty()) return {};
  std::string list;
  for (const Right& right : *none) list += (list.empty() ? "" : ", ") + right.text();
  return fail(ErrorKind::denied,
              fmt::format("Kubernetes: in the namespace {}, you may not {}; nothing was created",
                          access.name_space, list),
              "name a namespace= in which you may, or ask for a role with these rights");
}

Status diagnose(const World& world, const SettingOrigin&,
                const std::function<void(const Finding&)>& tell, Time deadline) {
  const auto spec = with_settings(world, {.name = kProvider, .settings = {}});
  if (!spec) return fail(spec);
  const auto failed = [&](std::string_view what, const Error& why) {
    tell(finding_of(what, why));
    return Status();
  };
  const Access access = access_of(world, *spec);
  if (const Status here = is_reachable(world, access); !here)
    return failed("kubectl", here.error());
  const auto wishes = read_wishes(*spec);
  if (!wishes) return failed("settings", wishes.error());
  KubernetesAccount account(world, access);
  const auto user = account.sign_in(deadline);
  if (!user) return failed("context", user.error());
  tell({.what = "context",
        .good = true,
        .detail = fmt::format("{}, namespace {}", user->home_region, account.access().name_space)});
  const auto none = account.api().missing(needed_rights(), account.access().name_space, deadline);
  if (!none) {
    tell(finding_of("rights", none));
    return {};
  }
  for (const Right& right : needed_rights()) {
    const bool good = std::ranges::find(*none, right) == none->end();
    tell({.what = right.text(),
          .good = good,
          .detail = good ? "allowed" : "you may not",
          .hint = good ? "" : "ask for a role with this right in the namespace"});
  }
  tell_nodes(account.api(), *wishes, user->home_region, tell, deadline);
  return {};
}

Status has_credentials(const World& world, Time) {
  return is_reachable(world, access_of(world, with_readable_settings(world, kProvider)));
}

}  // namespace skyward::provider::kubernetes

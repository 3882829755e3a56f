#include "skyward/provider/kubernetes/kubectl.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "skyward/base/text.h"

namespace skyward::provider::kubernetes {

namespace {

constexpr int kNoProgram = 127;

// "E1124 14:57:21.197855 8598 memcache.go:265] …": a line of kubectl's own log.
bool is_logged(std::string_view line) {
  return line.size() > 5 && (line[0] == 'E' || line[0] == 'W' || line[0] == 'I') &&
         std::ranges::all_of(line.substr(1, 4), is_digit) && line[5] == ' ';
}

// The reason in "Error from server (NotFound): …"; empty without one.
std::string_view reason_of(std::string_view line) {
  constexpr std::string_view kBegin = "Error from server (";
  const std::size_t at = line.find(kBegin);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + kBegin.size());
  return line.substr(0, line.find(')'));
}

// Without what every such line begins with.
std::string words_of(std::string_view line) {
  if (line.starts_with("Error from server")) {
    const std::size_t colon = line.find(": ");
    if (colon != std::string_view::npos) line.remove_prefix(colon + 2);
  } else if (line.starts_with("error: ")) {
    line.remove_prefix(7);
  }
  constexpr std::string_view kCreating = "error when creating \"STDIN\": ";
  if (line.starts_with(kCreating)) line.remove_prefix(kCreating.size());
  return std::string(line);
}

// No word of the API server is in it.
std::optional<ApiError> broken_way(std::string_view line) {
  ApiError out{.refusal = Refusal::transient, .heard = Heard::unknown, .message = words_of(line)};
  if (contains_any(line, {"localhost:8080 was refused", "localhost:8080: connect"})) {
    out.refusal = Refusal::invalid;
    out.heard = Heard::not_sent;
    out.own_kind = ErrorKind::unsupported;
    out.message = "kubectl is not set up for any cluster on this computer";
    out.hint =
        "'kubectl config get-contexts' lists those that it knows; $KUBECONFIG names its file";
    return out;
  }
  if (contains_any(line, {"context was not found", "cannot locate context", "context \"",
                          "cluster \"", "current-context must exist"}) &&
      reason_of(line).empty()) {
    out.refusal = Refusal::invalid;
    out.heard = Heard::not_sent;
    out.hint = "'kubectl config get-contexts' lists the contexts";
    return out;
  }
  if (contains_any(line, {"must be logged in", "Unauthorized", "getting credentials", "certificate",
                          "x509", "invalid configuration", "executable "})) {
    out.refusal = Refusal::auth;
    out.heard = Heard::not_sent;
    out.hint = "'kubectl get pods' must work in a shell; log in the way your cluster requires";
    return out;
  }
  const bool is_unheard = contains_any(line, {"connection refused", "was refused", "no such host",
                                              "no route to host", "network is unreachable"});
  const bool is_broken = contains_any(
      line, {"Unable to connect", "i/o timeout", "TLS handshake timeout", "EOF", "connection reset",
             "Client.Timeout", "context deadline exceeded", "request canceled", "connection lost",
             "http2:", "the server is currently", "timed out"});
  if (!is_unheard && !is_broken) return std::nullopt;
  out.heard = is_unheard ? Heard::not_sent : Heard::unknown;
  out.maybe_done = !is_unheard;
  out.hint = "'kubectl cluster-info' shows whether the cluster answers";
  return out;
}

// What an API server means by Forbidden: rights are one reason among several.
void explain_forbidden(std::string_view line, ApiError& out) {
  const std::size_t quota = line.find("exceeded quota: ");
  const std::size_t failed = line.find("failed quota: ");
  if (quota != std::string_view::npos) {
    out.refusal = Refusal::quota;
    out.code = line.substr(quota);
    out.hint =
        "'kubectl describe quota' shows the namespace's limits and what it uses; ask for less, or "
        "wait until other pods end";
  } else if (failed != std::string_view::npos) {
    out.refusal = Refusal::invalid;
    out.hint =
        "the namespace has a quota, so each pod must say what it needs: give the pool "
        "vcpus= and memory_gb=";
  } else if (line.contains("violates PodSecurity")) {
    out.refusal = Refusal::invalid;
    out.hint =
        "the namespace allows no pods that run as root: give run_as_user=, or another "
        "namespace=";
  } else if (line.contains("service account")) {
    out.refusal = Refusal::invalid;
    out.hint = "'kubectl get serviceaccounts' lists those of the namespace";
  } else if (contains_any(line, {"usage per", "maximum ", "minimum "})) {
    out.refusal = Refusal::invalid;
    out.hint = "'kubectl describe limitrange' shows the limits of one pod";
  } else {
    out.refusal = Refusal::auth;
    out.hint =
        "ask for a role that may do so; 'skyward providers check kubernetes' lists what is "
        "needed";
  }
}

void explain(std::string_view reason, std::string_view line, ApiError& out) {
  if (reason == "Forbidden") return explain_forbidden(line, out);
  if (reason == "NotFound") {
    out.refusal = Refusal::not_found;
    const bool space = line.contains("namespaces \"");
    out.hint = space ? "'kubectl get namespaces' lists them; name one of yours: namespace="
                     : "see what 'kubectl get pods' shows";
  } else if (reason == "AlreadyExists" || reason == "Conflict") {
    out.refusal = Refusal::conflict;
    out.hint = "try again";
  } else if (reason == "Unauthorized") {
    out.refusal = Refusal::auth;
    out.hint = "'kubectl get pods' must work in a shell; log in the way your cluster requires";
  } else if (reason == "TooManyRequests") {
    out.refusal = Refusal::rate_limited;
    out.hint = "try again in a minute";
  } else if (contains_any(reason, {"InternalError", "ServiceUnavailable", "Timeout", "Expired"})) {
    out.refusal = Refusal::transient;
    out.heard = Heard::unknown;
    out.maybe_done = true;
    out.hint = "'kubectl get --raw /readyz' shows whether the cluster is healthy";
  } else {
    out.refusal = Refusal::invalid;
    out.hint =
        "check image=, gpu=, node_selector= and tolerations=: the cluster gets them as they "
        "are";
  }
}

}  // namespace

Words Access::words(const Words& command) const {
  Words out{"kubectl"};
  if (!context.empty()) out.push_back("--context=" + context);
  if (!name_space.empty()) out.push_back("--namespace=" + name_space);
  out.insert(out.end(), command.begin(), command.end());
  return out;
}

// Empty counts as not set.
std::vector<std::pair<std::string, std::string>> Access::environment() const {
  return {{"KUBECONFIG", kubeconfig}};
}

Runner runner_of(const World& world, const Access& access) {
  return [access, run = world.run_with_input](const Words& words, std::string_view input,
                                              Duration timeout) {
    io::SpawnOptions options;
    options.command = access.words(words);
    options.environment = access.environment();
    return run(options, timeout, input);
  };
}

std::vector<std::string> refusals_in(std::string_view err) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin < err.size();) {
    const std::size_t end = std::min(err.find('\n', begin), err.size());
    const std::string_view line = trimmed(err.substr(begin, end - begin));
    begin = end + 1;
    if (!line.empty() && !line.starts_with("Warning: ") && !is_logged(line)) out.emplace_back(line);
  }
  return out;
}

ApiError meaning_of(std::string_view line) {
  const std::string_view reason = reason_of(line);
  // Between this computer and the API server there may be others who answer.
  if (auto broken = reason.empty() ? broken_way(line) : std::nullopt) return *std::move(broken);
  ApiError out{.refusal = Refusal::invalid, .heard = Heard::answered, .message = words_of(line)};
  if (reason.empty() && line.contains("is invalid: ")) {
    explain("Invalid", line, out);
  } else if (reason.empty() && line.starts_with("Error from server")) {
    explain("InternalError", line, out);  // a reason that kubectl does not know
  } else {
    explain(reason, line, out);
  }
  return out;
}

ApiError refusal_of(std::string_view what, const io::CommandResult& ran) {
  const std::vector<std::string> lines = refusals_in(ran.err);
  if (ran.status.code == kNoProgram) return no_kubectl(lines.empty() ? "" : lines.back());
  if (lines.empty()) {
    return no_answer({ErrorKind::unavailable,
                      fmt::format("'kubectl {}' ended with {}", what, ran.status.describe()),
                      "'kubectl get pods' must work in a shell; then try again"});
  }
  ApiError out = meaning_of(lines.front());
  // Anything uncertain among them makes the whole uncertain.
  for (const std::string& line : lines) {
    const ApiError other = meaning_of(line);
    if (!is_certain(other) && is_certain(out)) out = other;
  }
  return out;
}

ApiError no_kubectl(std::string message) {
  return {.refusal = Refusal::invalid,
          .heard = Heard::not_sent,
          .message = message.empty() ? "there is no kubectl on this computer" : std::move(message),
          .own_kind = ErrorKind::unsupported,
          .hint = "install kubectl and set it up for your cluster; 'kubectl get pods' must work"};
}

// Its file, or that of a pod in which this program runs.
Status is_reachable(const World& world, const Access& access) {
  const bool has_cluster = !access.kubeconfig.empty() ||
                           world.exists(home_directory(world) + "/.kube/config") ||
                           world.variable("KUBERNETES_SERVICE_HOST").has_value();
  const bool has_kubectl = has_program(world, "kubectl");
  if (has_kubectl && has_cluster) return {};
  return fail(ErrorKind::unsupported,
              has_kubectl ? "Kubernetes: kubectl is not set up for any cluster on this computer"
                          : "Kubernetes: there is no kubectl on this computer",
              "install kubectl and set it up for your cluster; 'kubectl get pods' must work");
}

}  // namespace skyward::provider::kubernetes

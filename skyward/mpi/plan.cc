#include "skyward/mpi/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <set>
#include <utility>

#include "skyward/base/hmac.h"
#include "skyward/io/tcp_socket.h"
#include "skyward/spec/image.h"

namespace skyward::mpi {
namespace {

constexpr std::string_view kPlaceholder = "NUMBER";

const Kind& kind_of(std::string_view name) {
  return *std::ranges::find(kinds(), name, &Kind::name);
}

std::string mac_of(const DaemonLines& lines, const std::string& key) {
  const std::string text =
      fmt::format("{}{}[{}]", lines.pattern, '\0', fmt::join(lines.numbers, ", "));
  return to_hex(hmac_sha256(key, text));
}

// The number in which the lines for the hosts differ: where it stands, and how long it is.
struct NumberPlace {
  std::size_t at = 0;
  std::size_t length = 0;
  int number = 0;
};
std::optional<NumberPlace> number_in(std::string_view line, std::string_view kind) {
  const std::string_view before = kind == "mpich" ? "--proxy-id " : "ess_base_vpid ";
  for (std::size_t from = 0;;) {
    const std::size_t found = line.find(before, from);
    if (found == line.npos) return std::nullopt;
    from = found + before.size();
    int number = 0;
    const auto parsed = std::from_chars(line.data() + from, line.data() + line.size(), number);
    if (parsed.ec != std::errc() || number < 0) continue;
    return NumberPlace{from, static_cast<std::size_t>(parsed.ptr - line.data()) - from, number};
  }
}

// Open MPI reads the profile of users whose login shell is sh or ksh; the daemon is a child of a
// worker, which has its variables.
std::string_view without_profile(std::string_view line) {
  constexpr std::string_view kBefore = "( test ! -r ./.profile || . ./.profile;";
  constexpr std::string_view kBehind = " )";
  if (!line.starts_with(kBefore) || !line.ends_with(kBehind)) return line;
  line.remove_prefix(kBefore.size());
  line.remove_suffix(kBehind.size());
  return line;
}

std::size_t common_bits(const Bytes& one, const Bytes& other) {
  std::size_t bits = 0;
  for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i) {
    const auto differs = static_cast<unsigned char>(one[i] ^ other[i]);
    if (differs != 0) return bits + static_cast<std::size_t>(std::countl_zero(differs));
    bits += 8;
  }
  return bits;
}

std::map<std::string, std::string> variables_of_openmpi(const InstanceInfo& info,
                                                        const std::string& script) {
  const std::string address = own_address(info);
  const bool loopback = address.empty() || address.starts_with("127.");
  std::map<std::string, std::string> values = {
      {"OMPI_MCA_plm", "rsh"},
      {"OMPI_MCA_plm_rsh_agent", script},
      {"OMPI_MCA_plm_rsh_no_tree_spawn", "1"},
      // In a job of a cluster, they would know better than the file of hosts: one slot, say.
      {"OMPI_MCA_ras", "^slurm,tm,lsf,gridengine"},
      // Shared memory is for processes of one machine under one daemon of MPI.
      {"OMPI_MCA_btl", share_an_address(info) ? "self,tcp" : "self,vader,tcp"},
      {"OMPI_MCA_pml", "ob1"},
  };
  if (const std::string network = loopback ? "lo" : network_of(info); !network.empty()) {
    values["OMPI_MCA_btl_tcp_if_include"] = network;
    values["OMPI_MCA_oob_tcp_if_include"] = network;
  }
  return values;
}

}  // namespace

const std::vector<Kind>& kinds() {
  static const auto* const known = new std::vector<Kind>{
      {"openmpi", "orted", {"mpirun.openmpi", "mpirun", "mpiexec"}, "openmpi-bin"},
      {"mpich", "hydra_pmi_proxy", {"mpiexec.hydra", "mpiexec.mpich", "mpiexec"}, "mpich"},
  };
  return *known;
}

std::string Launcher::daemon() const { return kind_of(kind).daemon; }

std::string version_in(std::string_view printed, std::string_view kind) {
  const auto after = [&](std::string_view mark) {
    const std::size_t found = printed.find(mark);
    printed = found == printed.npos ? "" : printed.substr(found + mark.size());
  };
  if (kind == "openmpi") after("(Open MPI)");
  if (kind == "mpich") after("HYDRA"), after("Version:");
  constexpr std::string_view kSpaces = " \t\r\n";
  printed.remove_prefix(std::min(printed.find_first_not_of(kSpaces), printed.size()));
  return std::string(printed.substr(0, printed.find_first_of(kSpaces)));
}

Error no_launcher(const std::string& wanted, bool has_prted) {
  if (has_prted && wanted != "mpich") {
    return {ErrorKind::invalid, "Open MPI 5 is not supported; use Open MPI 4 or MPICH.",
            "Debian 13 has MPICH: Image(apt=['mpich'])"};
  }
  std::vector<std::string> daemons;
  for (const Kind& kind : kinds()) daemons.push_back(kind.daemon);
  return {ErrorKind::invalid,
          fmt::format("{} is not installed on this node: there is no mpirun with its {}.",
                      wanted.empty() ? "Open MPI or MPICH" : wanted, fmt::join(daemons, " or ")),
          fmt::format("Use an image that has it: apt=['{}'], and in Python pip=['mpi4py']. Where "
                      "you are not root, put your site's MPI on the PATH: env={{'PATH': …}}.",
                      kind_of(wanted.empty() ? "openmpi" : wanted).package)};
}

bool share_an_address(const InstanceInfo& info) {
  std::set<std::string> addresses;
  for (const Peer& peer : info.peers) addresses.insert(peer.private_ip);
  return addresses.size() < std::max(info.peers.size(), static_cast<std::size_t>(info.total_nodes));
}

std::string own_address(const InstanceInfo& info) {
  for (const Peer& peer : info.peers) {
    if (peer.node == info.node && !peer.private_ip.empty()) return peer.private_ip;
  }
  return info.head_addr;
}

Status require_one_worker_per_host(const InstanceInfo& info, const std::string& name) {
  std::set<std::string> addresses;
  for (const Peer& peer : info.peers) addresses.insert(peer.private_ip);
  std::string why;
  if (info.workers_per_node > 1) {
    why = fmt::format("each node has {} workers", info.workers_per_node);
  } else if (1 < addresses.size() &&
             addresses.size() < static_cast<std::size_t>(info.total_nodes)) {
    why = fmt::format("{} nodes share {} addresses", info.total_nodes, addresses.size());
  } else {
    return {};
  }
  return fail(ErrorKind::invalid,
              fmt::format("{}: {}, but an MPI world needs a host for each worker.\n"
                          "Nothing was started. Use nodes with one worker and one address each; "
                          "ranks_per_node puts several ranks on a worker.",
                          name, why));
}

Status require_one_mpi(const std::vector<std::string>& found, const std::string& name) {
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    if (found[rank] == found[0]) continue;
    return fail(ErrorKind::invalid,
                fmt::format("{}: worker 0 has {}, but worker {} has {}.\n"
                            "The ranks of one MPI world need the same MPI; nothing was started.\n"
                            "Use one image for all nodes, or name an implementation that all have.",
                            name, found[0], rank, found[rank]));
  }
  return {};
}

std::vector<std::string> hosts_of(const InstanceInfo& info) {
  std::vector<std::string> hosts;
  if (share_an_address(info)) {
    constexpr int kHostsInNetwork = 250;
    for (int rank = 0; rank < info.total_workers(); ++rank) {
      hosts.push_back(
          fmt::format("127.2.{}.{}", rank / kHostsInNetwork, rank % kHostsInNetwork + 1));
    }
    return hosts;
  }
  for (const Peer& peer : info.peers) hosts.push_back(peer.private_ip);
  return hosts;
}

std::string hosts_file(const std::vector<std::string>& hosts, const Launcher& launcher,
                       int ranks_per_node) {
  std::string text;
  for (const std::string& host : hosts) {
    text += fmt::format("{}{}{}\n", host, launcher.is_mpich() ? ":" : " slots=", ranks_per_node);
  }
  return text;
}

std::string network_of(const InstanceInfo& info) {
  std::optional<Bytes> network;
  std::size_t bits = 0;
  for (const Peer& peer : info.peers) {
    const std::optional<Bytes> address = io::address_bytes(peer.private_ip);
    if (!address || (network && address->size() != network->size())) return {};
    if (!network) {
      network = address;
      bits = 8 * address->size();
    }
    bits = std::min(bits, common_bits(*network, *address));
  }
  if (!network) return {};
  for (std::size_t bit = bits; bit < 8 * network->size(); ++bit) {
    (*network)[bit / 8] &= ~(std::byte{0x80} >> bit % 8);
  }
  return fmt::format("{}/{}", io::address_text(*network), bits);
}

std::string noting_script(const std::string& folder) {
  const std::string line = shell_quote(folder) + "/\"$host\".line";
  return "#!/bin/sh\n"
         "while :; do case \"$1\" in -*) shift ;; *) break ;; esac; done\n"
         "host=$1\n"
         "shift\n"
         "printf %s \"$*\" > " +
         line + ".tmp && mv " + line + ".tmp " + line + "\n";
}

MpirunPlan plan_launch(const InstanceInfo& info, const Launcher& launcher,
                       const std::string& folder, int ranks, const std::string& line,
                       bool is_root) {
  const std::string script = folder + "/ssh";
  const std::string hosts = folder + "/hosts";
  std::string address = own_address(info);
  if (address.empty()) address = "127.0.0.1";
  MpirunPlan plan;
  plan.command = {launcher.program};
  const auto add = [&plan](std::initializer_list<std::string> words) {
    plan.command.insert(plan.command.end(), words);
  };
  if (launcher.is_mpich()) {
    add({"-launcher", "ssh", "-launcher-exec", script, "-f", hosts, "-localhost", address});
    add({"-genvnone"});  // each rank takes its worker's variables
    if (address.starts_with("127.")) {
      plan.environment = {{"FI_TCP_IFACE", "lo"}, {"FI_SOCKETS_IFACE", "lo"}};
    }
  } else {
    add({"--hostfile", hosts, "--map-by", "slot", "--bind-to", "none", "--noprefix"});
    if (is_root) add({"--allow-run-as-root"});
    plan.environment = variables_of_openmpi(info, script);
  }
  // The folder of this node is not on the others; each rank goes to its worker's.
  add({"-wdir", "/", "-n", std::to_string(ranks), "/bin/sh", "-c", line});
  return plan;
}

std::string key_of_call(const std::string& secret, const std::vector<std::string>& thrown_in) {
  return to_hex(hmac_sha256(secret, fmt::format("{}", fmt::join(thrown_in, " "))));
}

Result<DaemonLines> sign(const std::vector<std::string>& lines, const std::string& kind,
                         bool is_host, const std::string& key) {
  DaemonLines out;
  if (is_host) out.numbers.push_back(-1);
  for (const std::string& line : lines) {
    std::string pattern(without_profile(line));
    const std::optional<NumberPlace> place = number_in(pattern, kind);
    if (!place) {
      return fail(ErrorKind::unavailable,
                  "mpirun wants to run something unknown: " + line.substr(0, 200));
    }
    out.numbers.push_back(place->number);
    pattern.replace(place->at, place->length, kPlaceholder);
    if (!out.pattern.empty() && out.pattern != pattern) {
      return fail(ErrorKind::unavailable,
                  "mpirun wants to run different things on different hosts");
    }
    out.pattern = std::move(pattern);
  }
  out.mac = mac_of(out, key);
  return out;
}

Result<std::vector<std::string>> daemon_command(const DaemonLines& lines, const std::string& kind,
                                                int worker, const std::string& key) {
  const auto at = static_cast<std::size_t>(worker);
  if (!equal_in_constant_time(mac_of(lines, key), lines.mac) || at >= lines.numbers.size()) {
    return fail(ErrorKind::unavailable,
                "what MPI should run on this node does not come from worker 0");
  }
  if (lines.numbers[at] < 0) return std::vector<std::string>{};
  std::string line = lines.pattern;
  if (const std::size_t found = line.find(kPlaceholder); found != line.npos) {
    line.replace(found, kPlaceholder.size(), std::to_string(lines.numbers[at]));
  }
  auto words = shell_words(line);
  if (!words) return words;
  std::erase(*words, "--daemonize");  // it is a child of the worker
  for (std::size_t i = 0; i + 1 < words->size(); ++i) {
    // It starts nothing, but wants a program that is there.
    if ((*words)[i] == "plm_rsh_agent") (*words)[i + 1] = "/bin/sh";
  }
  const std::string& daemon = kind_of(kind).daemon;
  const std::string program = words->empty() ? "" : words->front();
  if (program.substr(program.rfind('/') + 1) != daemon) {
    return fail(ErrorKind::unavailable,
                fmt::format("MPI should run '{}' on this node instead of {}", program, daemon));
  }
  words->front() = daemon;
  return words;
}

Result<std::vector<std::string>> shell_words(std::string_view line) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = '\0';
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool escapes = c == '\\' && quote != '\'' && i + 1 < line.size() &&
                         (quote == '\0' || std::string_view("\"\\$`").contains(line[i + 1]));
    if (quote == '\0' && std::string_view(" \t\r\n").contains(c)) {
      in_word = false;
      continue;
    }
    if (!std::exchange(in_word, true)) words.emplace_back();
    if (escapes) {
      words.back() += line[++i];
    } else if (quote != '\0' ? c == quote : c == '\'' || c == '"') {
      quote = quote == '\0' ? c : '\0';
    } else {
      words.back() += c;
    }
  }
  if (quote != '\0')
    return fail(ErrorKind::unavailable, "a quote in MPI's command line is not closed");
  return words;
}

}  // namespace skyward::mpi

#include "skyward/provider/ssh/ssh.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/base/text.h"
#include "skyward/io/file.h"
#include "skyward/io/locked_directory.h"
#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"
#include "skyward/io/process.h"
#include "skyward/provider/choosing.h"
#include "skyward/provider/local/local.h"
#include "skyward/provider/open_pools.h"
#include "skyward/provider/ssh/command.h"
#include "skyward/provider/world.h"

namespace skyward::provider {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSshIdPrefix = "ssh-";
constexpr int kKeysDigits = 32;
constexpr Duration kSshVersionTimeout = std::chrono::seconds(5);
// Login, upload of the agent and of uv over a slow line.
constexpr Duration kSshGreetTimeout = std::chrono::seconds(90);

class SshProvider final : public Provider {
 public:
  SshProvider(std::vector<SshTarget> hosts, SshOptions options, std::string host_keys,
              std::string preemption, Variable variable, std::string state_root)
      : hosts_(std::move(hosts)),
        options_(std::move(options)),
        host_keys_(std::move(host_keys)),
        preemption_(std::move(preemption)),
        variable_(std::move(variable)),
        state_root_(std::move(state_root)) {}

  std::string_view name() const override { return "ssh"; }
  Capabilities capabilities() const override {
    return {.spot = false,
            .private_network = true,
            .descriptors = false,
            .root = true,
            .preemption = preemption_,
            .greet_timeout = kSshGreetTimeout};
  }

  Status check(const PoolSpec& spec) override;
  Result<std::vector<Offer>> offers(const PoolSpec& spec, Time deadline) override;
  Result<Cluster> prepare(const PoolSpec& spec, const Offer& offer, Time deadline) override;
  Result<std::vector<Instance>> provision(const Cluster& cluster, int count, int first_node,
                                          Time deadline) override;
  Result<std::optional<Instance>> get_instance(const Cluster& cluster, const std::string& id,
                                               Time deadline) override;
  Status terminate(const Cluster& cluster, const std::vector<std::string>& ids,
                   Time deadline) override;
  Status teardown(const Cluster& cluster, Time deadline) override;
  Connection connection(const Cluster& cluster, const Instance& instance) override;
  Bootstrap bootstrap(const Cluster& cluster, const Instance& instance) override;
  Error explain(const Instance& instance, Error error) override;

 private:
  // A host of the list, for one pool.
  struct Seat {
    std::string address{};
    int uses = 0;      // instances that it has been
    std::string id{};  // of the instance that it is; empty: free
  };
  struct Plan {
    std::vector<std::string> agents;
    RemoteImage image;
    std::vector<Seat> seats;  // as hosts_
  };

  std::size_t host_of(const std::string& id) const;
  std::string address_of(const SshTarget& host) const;
  Status keep_host_keys();

  const std::vector<SshTarget> hosts_;
  SshOptions options_;
  const std::string host_keys_;
  const std::string preemption_;
  const Variable variable_;
  const std::string state_root_;
  std::unique_ptr<io::LockedDirectory> kept_keys_;  // holds the file
  std::map<std::string, Plan> plans_;               // by cluster id
};

Status check_file(const std::string& what, const std::string& path) {
  std::error_code error;
  if (path.empty() || (fs::exists(path, error) && !fs::is_directory(path, error))) return {};
  return fail(ErrorKind::invalid, fmt::format("{}: there is no file {}", what, path),
              "check the path; it is read on the machine that opens the pool");
}

Status SshProvider::check(const PoolSpec& spec) {
  if (hosts_.empty()) {
    return fail(ErrorKind::invalid, "the SSH provider has no hosts",
                "name them: hosts=[\"10.0.0.5\", \"me@gpu-box:2222\"], or in skyward.toml below "
                "[providers.ssh]");
  }
  if (static_cast<std::size_t>(spec.nodes) > hosts_.size()) {
    return fail(ErrorKind::invalid,
                fmt::format("nodes={}, but the SSH provider has {} host{}", spec.nodes,
                            hosts_.size(), hosts_.size() == 1 ? "" : "s"),
                "each host is one node: ask for fewer nodes, or name more hosts");
  }
  if (Status status = check_nothing_to_choose(spec, name()); !status) return status;
  if (Status status = check_agent(spec); !status) return status;
  for (const auto& [what, path] : {std::pair("identity_file", options_.identity_file),
                                   std::pair("host_keys", options_.known_hosts_file),
                                   std::pair("config", options_.configuration_file)}) {
    if (Status status = check_file(what, path); !status) return status;
  }
  io::SpawnOptions version;
  version.command = {options_.program, "-V"};
  if (const auto ran = io::run_command(version, kSshVersionTimeout); !ran) {
    if (ran.error().kind == ErrorKind::unsupported) return fail(ran);
    return fail(ErrorKind::unsupported,
                fmt::format("the OpenSSH client does not run: {}", ran.error().message),
                "install it, for example with 'apt-get install openssh-client'");
  }
  return {};
}

Result<std::vector<Offer>> SshProvider::offers(const PoolSpec&, Time) {
  return std::vector<Offer>{{.instance_type = "ssh",
                             .region = "ssh",
                             .price_on_demand = 0.0,
                             .billing_increment_minutes = 0}};
}

// Each provider has a folder of its own, which goes with its last pool. Those of programs that were
// killed go with the next.
Status SshProvider::keep_host_keys() {
  if (host_keys_.empty()) return {};
  if (!kept_keys_) {
    const std::string root = state_root_ + "/host-keys";
    if (Status status = io::ensure_private_path(root); !status) return status;
    io::LockedDirectory::remove_abandoned(
        root, [](std::string_view name) { return name.size() == std::size_t{kKeysDigits}; });
    auto made = io::LockedDirectory::make(root, io::random_hex(kKeysDigits));
    if (!made) return fail(made);
    kept_keys_ = *std::move(made);
    options_.known_hosts_file = kept_keys_->path() + "/known_hosts";
  }
  if (io::exists(options_.known_hosts_file)) return {};
  return io::write_private_file(options_.known_hosts_file, host_keys_);
}

// Where other nodes reach it: what the user's ssh configuration makes of its name, as an address
// where this machine can tell.
std::string SshProvider::address_of(const SshTarget& host) const {
  std::string name = host.host;
  io::SpawnOptions query;
  query.command = ssh_command(host, options_);
  query.command.insert(query.command.begin() + 1, "-G");
  if (const auto answer = io::run_command(query, kSshVersionTimeout); answer) {
    for (const std::string& line : items_of(answer->out, '\n')) {
      if (line.starts_with("hostname ")) name = line.substr(9);
    }
  }
  if (!options_.jumps.empty()) return name;
  return io::address_of_name(name).value_or(name);
}

Result<Cluster> SshProvider::prepare(const PoolSpec& spec, const Offer& offer, Time) {
  if (Status status = keep_host_keys(); !status) return fail(status);
  Result<RemoteImage> image = plan_remote_image(spec, variable_);
  if (!image) return fail(image);
  const std::string digits = spec.job_id.empty() ? io::random_hex(kJobIdDigits) : spec.job_id;
  const std::string id = std::string(kSshIdPrefix) + digits;
  Plan plan{.agents = agents_of(spec), .image = std::move(*image), .seats = {}};
  for (const SshTarget& host : hosts_) plan.seats.push_back({.address = address_of(host)});
  plans_.emplace(id, std::move(plan));
  return Cluster{.id = id,
                 .region = offer.region,
                 .instance_type = offer.instance_type,
                 .head_port = head_port_of(id)};
}

// The host of "ssh-1a2b3c4d-7" or "ssh-1a2b3c4d-7-r2"; past the end for anything else.
std::size_t SshProvider::host_of(const std::string& id) const {
  const std::size_t begin = kSshIdPrefix.size() + kJobIdDigits + 1;
  std::size_t host = hosts_.size();
  if (id.size() <= begin || !id.starts_with(kSshIdPrefix)) return host;
  const auto [end, error] = std::from_chars(id.data() + begin, id.data() + id.size(), host);
  const bool whole = end == id.data() + id.size() || *end == '-';
  return error == std::errc{} && whole ? std::min(host, hosts_.size()) : hosts_.size();
}

Result<std::vector<Instance>> SshProvider::provision(const Cluster& cluster, int count, int, Time) {
  const auto plan = plans_.find(cluster.id);
  if (plan == plans_.end()) return not_open_here(cluster);
  std::vector<Seat>& seats = plan->second.seats;
  // The one that failed least often first, then in the order of the list.
  std::vector<std::size_t> free;
  for (std::size_t i = 0; i < seats.size(); ++i) {
    if (seats[i].id.empty()) free.push_back(i);
  }
  if (free.size() < static_cast<std::size_t>(count)) {
    return fail(ErrorKind::exhausted,
                fmt::format("{} more hosts are needed, but {} are free", count, free.size()),
                "name more hosts than nodes, so that one that fails can be replaced");
  }
  std::ranges::stable_sort(free, {}, [&](std::size_t i) { return seats[i].uses; });
  std::vector<Instance> instances;
  for (const std::size_t i : std::span(free).first(static_cast<std::size_t>(count))) {
    Seat& seat = seats[i];
    std::string id = fmt::format("{}-{}", cluster.id, i);
    if (seat.uses > 0) id += fmt::format("-r{}", seat.uses);
    ++seat.uses;
    seat.id = id;
    instances.push_back(
        {.id = id, .spot = false, .private_ip = seat.address, .public_ip = std::nullopt});
  }
  return instances;
}

Result<std::optional<Instance>> SshProvider::get_instance(const Cluster& cluster,
                                                          const std::string& id, Time) {
  const auto plan = plans_.find(cluster.id);
  const std::size_t host = host_of(id);
  if (plan == plans_.end() || host >= hosts_.size()) return std::nullopt;
  const Seat& seat = plan->second.seats[host];
  if (seat.id != id) return std::nullopt;
  return Instance{.id = id, .spot = false, .private_ip = seat.address, .public_ip = std::nullopt};
}

// The machines are not ours to switch off; the agent ends with the pool or its lease.
Status SshProvider::terminate(const Cluster& cluster, const std::vector<std::string>& ids, Time) {
  const auto plan = plans_.find(cluster.id);
  if (plan == plans_.end()) return {};
  for (const std::string& id : ids) {
    const std::size_t host = host_of(id);
    // A seat may be another instance by now.
    if (host < hosts_.size() && plan->second.seats[host].id == id) plan->second.seats[host].id = "";
  }
  return {};
}

Status SshProvider::teardown(const Cluster& cluster, Time) {
  plans_.erase(cluster.id);
  if (!plans_.empty() || !kept_keys_) return {};
  options_.known_hosts_file.clear();
  (void)kept_keys_->remove();  // else the next program does it
  kept_keys_.reset();
  return {};
}

Connection SshProvider::connection(const Cluster& cluster, const Instance& instance) {
  const auto plan = plans_.find(cluster.id);
  const std::size_t host = host_of(instance.id);
  SKYWARD_CHECK(plan != plans_.end() && host < hosts_.size(), "{} was not prepared here",
                instance.id);
  (void)keep_host_keys();  // somebody may have removed them; where they cannot be kept, ssh says so
  return {.command = ssh_command(hosts_[host], options_),
          .environment = {{"SSH_ASKPASS_REQUIRE", "never"}},
          .shell = true,
          .stands = true,
          .agents = plan->second.agents,
          .uploads = plan->second.image.uploads,
          .permanent_errors = permanent_ssh_errors(),
          .hopeless_errors = hopeless_ssh_errors()};
}

Bootstrap SshProvider::bootstrap(const Cluster& cluster, const Instance&) {
  const auto plan = plans_.find(cluster.id);
  SKYWARD_CHECK(plan != plans_.end(), "{} was not prepared here", cluster.id);
  return plan->second.image.bootstrap;
}

Error SshProvider::explain(const Instance& instance, Error error) {
  const std::size_t host = host_of(instance.id);
  if (host >= hosts_.size()) return error;
  return explain_ssh_error(hosts_[host], options_, std::move(error));
}

Result<std::vector<SshTarget>> read_targets(const std::vector<std::string>& texts) {
  std::vector<SshTarget> targets;
  for (const std::string& text : texts) {
    const Result<SshTarget> target = parse_ssh_target(text);
    if (!target) return fail(target);
    targets.push_back(*target);
  }
  return targets;
}

// What is known of the machines' keys: path of a file, or its text.
struct HostKeys {
  std::string path{};
  std::string lines{};
  bool pinned = false;  // the lines name the machines by SshTarget::place()
};

// Of the setting `host_keys`, whose mapping names the machines by their texts.
Result<HostKeys> read_host_keys(const std::string& text, const std::vector<SshTarget>& targets,
                                const std::vector<std::string>& names) {
  if (text.starts_with('/')) return HostKeys{.path = text};
  if (!text.starts_with('{')) {
    return HostKeys{.lines = text.empty() || text.ends_with('\n') ? text : text + '\n'};
  }
  const auto mapping = nlohmann::json::parse(text, nullptr, false);
  HostKeys keys{.pinned = true};
  std::string missing;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const auto key = mapping.find(names[i]);
    if (key == mapping.end() || !key->is_string()) {
      missing += (missing.empty() ? "" : ", ") + names[i];
    } else {
      keys.lines += fmt::format("{} {}\n", targets[i].place(), key->get<std::string>());
    }
  }
  if (missing.empty()) return keys;
  return fail(ErrorKind::invalid, fmt::format("host_keys has no key for {}", missing),
              "each host and each jump needs one, so that Skyward can verify it");
}

}  // namespace

Result<std::unique_ptr<Provider>> make_ssh(const ProviderSpec& spec, Variable variable,
                                           std::string state_root) {
  std::vector<std::string> names = items_of(spec.setting("hosts"), '\n');
  Result<std::vector<SshTarget>> hosts = read_targets(names);
  if (!hosts) return fail(hosts);
  SshTarget defaults{.host = "x", .user = spec.setting("user")};
  if (const std::string port = spec.setting("port"); !port.empty()) {
    const Result<SshTarget> with_port = parse_ssh_target("x:" + port);
    if (!with_port) return fail(with_port);
    defaults.port = with_port->port;
  }
  if (!defaults.user.empty() && !is_ssh_user(defaults.user)) {
    return fail(ErrorKind::invalid,
                fmt::format("user=\"{}\" is not a valid user name", defaults.user),
                "write the name that ssh logs in with, for example alice or CORP\\alice");
  }
  std::set<std::string> seen;
  for (SshTarget& host : *hosts) {
    if (host.user.empty()) host.user = defaults.user;
    if (host.port == 0) host.port = defaults.port;
    if (!seen.insert(host.text()).second) {
      return fail(ErrorKind::invalid, fmt::format("the host {} is named twice", host.text()),
                  "each host is one node; use concurrency= for more tasks at a time on it");
    }
  }
  const std::vector<std::string> jump_names = items_of(spec.setting("jump"), ',');
  Result<std::vector<SshTarget>> jumps = read_targets(jump_names);
  if (!jumps) return fail(jumps);
  std::vector<SshTarget> targets = *hosts;
  targets.insert(targets.end(), jumps->begin(), jumps->end());
  names.insert(names.end(), jump_names.begin(), jump_names.end());
  Result<HostKeys> keys = read_host_keys(spec.setting("host_keys"), targets, names);
  if (!keys) return fail(keys);
  SshOptions options{.identity_file = spec.setting("identity_file"),
                     .jumps = std::move(*jumps),
                     .known_hosts_file = std::move(keys->path),
                     .pinned = keys->pinned,
                     .configuration_file = spec.setting("config")};
  const std::string preemption = spec.setting("preemption");
  if (!preemption.empty() && preemption != "ec2") {
    return fail(ErrorKind::invalid,
                fmt::format("preemption=\"{}\": unknown kind of preemption notice", preemption),
                "choose \"ec2\", or leave it out");
  }
  return std::make_unique<SshProvider>(std::move(*hosts), std::move(options),
                                       std::move(keys->lines), preemption, std::move(variable),
                                       std::move(state_root));
}

Result<std::unique_ptr<Provider>> make_ssh(const ProviderSpec& spec) {
  LocalSurroundings surroundings = surroundings_of_this_process();
  World world;
  world.variable = surroundings.variable;
  std::string root = state_directory(world);  // nothing cleans up there
  const bool has_keys = !spec.setting("host_keys").empty();
  // Where other computers see it, too, they might take the keys for those of a killed program.
  if (root.empty() ||
      (has_keys && !(io::ensure_private_path(root) && io::is_on_local_disk(root)))) {
    root = std::move(surroundings.state_root);
  }
  return make_ssh(spec, std::move(surroundings.variable), std::move(root));
}

}  // namespace skyward::provider

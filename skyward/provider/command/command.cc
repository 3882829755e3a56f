#include "skyward/provider/command/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/io/machine.h"
#include "skyward/provider/choosing.h"
#include "skyward/provider/open_pools.h"
#include "skyward/provider/remote_image.h"

namespace skyward::provider {

namespace {

using Command = std::vector<std::string>;

Result<std::vector<Command>> parse_commands(const std::string& text) {
  std::vector<Command> commands;
  if (text.empty()) return commands;
  const auto refused = [&](std::string_view why) {
    return fail(ErrorKind::invalid, fmt::format("commands={}: {}", text, why),
                R"(give a list of commands, each a list of words: [["podman", "exec", "-i", "c1", )"
                R"("sh", "-c"]])");
  };
  const auto parsed = nlohmann::json::parse(text, nullptr, false);
  if (!parsed.is_array()) return refused("it is not a list");
  for (const auto& words : parsed) {
    if (!words.is_array() || words.empty()) return refused("a command is a list of words");
    Command& command = commands.emplace_back();
    for (const auto& word : words) {
      if (!word.is_string()) return refused("a word is a string");
      command.push_back(word.get<std::string>());
    }
  }
  return commands;
}

// None, or one for each command.
Result<std::vector<std::string>> parse_addresses(const std::string& text, std::size_t commands) {
  std::vector<std::string> addresses;
  if (text.empty()) return addresses;
  const auto parsed = nlohmann::json::parse(text, nullptr, false);
  bool good = parsed.is_array() && (parsed.empty() || parsed.size() == commands);
  for (const auto& address : parsed) {
    good = good && address.is_string() && !address.get<std::string>().empty();
    if (good) addresses.push_back(address.get<std::string>());
  }
  if (good) return addresses;
  return fail(ErrorKind::invalid,
              fmt::format("addresses={}: not a list of {} addresses", text, commands),
              "give one for each command, by which the nodes reach each other, or leave it out");
}

// Of "command-1a2b3c4d-7-2", the 7.
std::size_t command_of(const std::string& id) {
  const std::size_t last = id.rfind('-');
  const std::size_t before = id.rfind('-', last - 1);
  return std::stoul(id.substr(before + 1, last - before - 1));
}

class CommandProvider final : public Provider {
 public:
  CommandProvider(std::vector<Command> commands, std::vector<std::string> addresses,
                  std::string python)
      : commands_(std::move(commands)),
        addresses_(std::move(addresses)),
        python_(std::move(python)) {}

  std::string_view name() const override { return "command"; }
  Capabilities capabilities() const override {
    return {
        .spot = false, .private_network = !addresses_.empty(), .descriptors = false, .root = false};
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

 private:
  struct Plan {
    std::vector<std::string> agents;
    RemoteImage image;
    std::set<std::string> placed;  // instances that stand
    std::vector<int> uses;         // of each command; an id never comes back
  };

  // Where nothing is said, the nodes are believed to be on one machine.
  std::string address_of(std::size_t command) const {
    return addresses_.empty() ? "127.0.0.1" : addresses_.at(command);
  }

  const std::vector<Command> commands_;
  const std::vector<std::string> addresses_;  // none, or one for each command
  const std::string python_;
  std::map<std::string, Plan> plans_;  // by cluster id
};

Status CommandProvider::check(const PoolSpec& spec) {
  if (static_cast<std::size_t>(spec.nodes) > commands_.size()) {
    return fail(ErrorKind::invalid,
                fmt::format("nodes={}, but commands= has {}: each node needs a command of its own",
                            spec.nodes, commands_.size()),
                "name more commands or ask for fewer nodes");
  }
  if (Status status = check_nothing_to_choose(spec, name()); !status) return status;
  if (Status status = check_agent(spec); !status) return status;
  if (!python_.empty() && !spec.volumes.empty()) {
    return fail(ErrorKind::invalid,
                fmt::format("volume: nodes that share this machine's files see {} as it is here",
                            spec.volumes.front().mount_path),
                "mount it here, or leave python out");
  }
  if (!python_.empty() && (!spec.image.pip.empty() || !spec.image.apt.empty())) {
    return fail(ErrorKind::invalid,
                fmt::format("the image's packages are not installed where python=\"{}\" names the "
                            "interpreter to use",
                            python_),
                "leave python out, then each node gets an environment of its own; or leave pip and "
                "apt out of the image");
  }
  return {};
}

Result<std::vector<Offer>> CommandProvider::offers(const PoolSpec&, Time) {
  return std::vector<Offer>{{.instance_type = "command", .region = "commands"}};
}

Result<Cluster> CommandProvider::prepare(const PoolSpec& spec, const Offer& offer, Time) {
  RemoteImage image;
  if (python_.empty()) {
    Result<RemoteImage> planned =
        plan_remote_image(spec, [](const char* name) { return io::environment_variable(name); });
    if (!planned) return fail(planned);
    image = *std::move(planned);
  } else {
    image.bootstrap.python = python_;
  }
  const std::string digits = spec.job_id.empty() ? io::random_hex(kJobIdDigits) : spec.job_id;
  const std::string id = "command-" + digits;
  plans_[id] = {.agents = agents_of(spec),
                .image = std::move(image),
                .placed = {},
                .uses = std::vector<int>(commands_.size())};
  return Cluster{.id = id,
                 .region = offer.region,
                 .instance_type = offer.instance_type,
                 .head_port = head_port_of(id)};
}

// The commands that have been used least: a node that was lost comes back by its own only when all
// others are taken.
Result<std::vector<Instance>> CommandProvider::provision(const Cluster& cluster, int count, int,
                                                         Time) {
  const auto plan = plans_.find(cluster.id);
  if (plan == plans_.end()) return not_open_here(cluster);
  std::vector<int>& uses = plan->second.uses;
  std::vector<std::size_t> free;
  for (std::size_t command = 0; command < commands_.size(); ++command) free.push_back(command);
  for (const std::string& id : plan->second.placed) std::erase(free, command_of(id));
  if (free.size() < static_cast<std::size_t>(count)) {
    return fail(ErrorKind::exhausted,
                fmt::format("{} of {} commands are free, but {} more nodes are needed", free.size(),
                            commands_.size(), count),
                "name more commands");
  }
  std::ranges::stable_sort(free, {}, [&](std::size_t command) { return uses[command]; });
  free.resize(static_cast<std::size_t>(count));
  std::vector<Instance> instances;
  for (const std::size_t command : free) {
    const std::string id = fmt::format("{}-{}-{}", cluster.id, command, ++uses[command]);
    plan->second.placed.insert(id);
    instances.push_back({.id = id, .private_ip = address_of(command)});
  }
  return instances;
}

Result<std::optional<Instance>> CommandProvider::get_instance(const Cluster& cluster,
                                                              const std::string& id, Time) {
  const auto plan = plans_.find(cluster.id);
  if (plan == plans_.end() || !plan->second.placed.contains(id)) return std::nullopt;
  return Instance{.id = id, .private_ip = address_of(command_of(id))};
}

// The engine has ended the agent; the machine is not ours.
Status CommandProvider::terminate(const Cluster& cluster, const std::vector<std::string>& ids,
                                  Time) {
  const auto plan = plans_.find(cluster.id);
  if (plan == plans_.end()) return {};
  for (const std::string& id : ids) plan->second.placed.erase(id);
  return {};
}

Status CommandProvider::teardown(const Cluster& cluster, Time) {
  plans_.erase(cluster.id);
  return {};
}

Connection CommandProvider::connection(const Cluster& cluster, const Instance& instance) {
  const Plan& plan = plans_.at(cluster.id);
  return {.command = commands_.at(command_of(instance.id)),
          .shell = true,
          .stands = true,
          .agents = plan.agents,
          .uploads = plan.image.uploads,
          .permanent_errors = {"no such container", "is not running", "not found in namespace"}};
}

Bootstrap CommandProvider::bootstrap(const Cluster& cluster, const Instance&) {
  return plans_.at(cluster.id).image.bootstrap;
}

}  // namespace

Result<std::unique_ptr<Provider>> make_command(const ProviderSpec& spec) {
  auto commands = parse_commands(spec.setting("commands"));
  if (!commands) return fail(commands);
  auto addresses = parse_addresses(spec.setting("addresses"), commands->size());
  if (!addresses) return fail(addresses);
  return std::make_unique<CommandProvider>(*std::move(commands), *std::move(addresses),
                                           spec.setting("python"));
}

}  // namespace skyward::provider

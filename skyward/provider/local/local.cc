#include "skyward/provider/local/local.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/base/text.h"
#include "skyward/io/daemon.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/locked_directory.h"
#include "skyward/io/machine.h"
#include "skyward/io/other_processes.h"
#include "skyward/io/private_directory.h"
#include "skyward/io/process.h"
#include "skyward/provider/disk_packages.h"
#include "skyward/provider/local/devices.h"
#include "skyward/provider/local/environment.h"
#include "skyward/provider/open_pools.h"
#include "skyward/provider/pip_settings.h"
#include "skyward/provider/remote_image.h"
#include "skyward/provider/uv_config.h"
#include "skyward/spec/accelerator_script.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/pip_index.h"

namespace skyward::provider {

namespace {

namespace fs = std::filesystem;

constexpr Duration kQueryTimeout = std::chrono::seconds(10);  // of dpkg-query and nvidia-smi
constexpr std::string_view kMachine = "local";
constexpr std::string_view kLocalIdPrefix = "local-";
// Every process below an agent has the directory of its node here, unless it cleared its
// environment. What they start ends with their agent; where that was killed, its owner ends it.
constexpr const char* kNodeVariable = "SKYWARD_LOCAL_NODE";
constexpr double kProcessGib = 16.0 / 1024;  // of an interpreter that has loaded nothing yet

bool is_cluster_id(std::string_view id) {
  return id.size() == kLocalIdPrefix.size() + kJobIdDigits && id.starts_with(kLocalIdPrefix) &&
         id.find_first_not_of("0123456789abcdef", kLocalIdPrefix.size()) == std::string_view::npos;
}

// True for "<cluster>-<rest>" that is one plain name.
bool is_instance_of(std::string_view cluster, std::string_view id) {
  return id.size() > cluster.size() + 1 && id.starts_with(cluster) && id[cluster.size()] == '-' &&
         !id.contains('/') && !id.contains('\0');
}

class LocalProvider final : public Provider {
 public:
  LocalProvider(const ProviderSpec& spec, LocalSurroundings surroundings)
      : settings_(spec.settings), surroundings_(std::move(surroundings)) {}

  std::string_view name() const override { return "local"; }
  Capabilities capabilities() const override {
    return {.spot = false,
            .private_network = true,
            .descriptors = true,
            .root = false,
            .fuse = false,
            .splits_gpus = true,
            .stop_ends_billing = true};
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
  // What prepare() keeps of a spec for the verbs that come after it.
  struct Plan {
    std::string agent_path;
    Bootstrap bootstrap;                        // without its directory
    std::unique_ptr<io::LockedDirectory> held;  // says that this pool's driver lives
    std::map<std::string, int> used_ids;        // of each instance its node; an id never comes back
    std::vector<int> devices;                   // of all nodes
    double devices_per_node = 0;
  };

  std::string interpreter(const PoolSpec& spec) const;
  bool needs_environment(const PoolSpec& spec) const;
  EnvironmentRequest environment_request(const PoolSpec& spec) const;
  Result<Bootstrap> plan_bootstrap(const PoolSpec& spec) const;
  Status check_machine(const PoolSpec& spec) const;
  Result<std::vector<int>> devices_for(const PoolSpec& spec) const;
  void remove_abandoned() const;
  Result<std::string> directory_of(const Cluster& cluster) const;

  const std::map<std::string, std::string> settings_;
  const LocalSurroundings surroundings_;
  std::map<std::string, Plan> plans_;  // by cluster id
  std::mutex ids_mutex_;  // bootstrap() looks at used_ids while a verb launches a replacement
};

// Whose functions the nodes get; empty: nobody's.
std::string client_python(const PoolSpec& spec) {
  return value_at(spec.runtime.environment, "SKYWARD_CLIENT_PYTHON");
}

Status check_python(const PoolSpec& spec) {
  const std::string client = client_python(spec);
  const std::string& wanted = spec.image.python;
  if (client.empty() || wanted.empty() || wanted == "auto") return {};
  if (minor_version(wanted) == minor_version(client)) return {};
  return fail(
      ErrorKind::invalid,
      fmt::format("Image(python=\"{}\") does not match this program, which runs Python {}: "
                  "functions pickled by one minor version do not load in another",
                  wanted, client),
      fmt::format("leave python out, write python=\"{}\", or run this program with Python {}",
                  minor_version(client), minor_version(wanted)));
}

// The versions of a system package that are installed here, one for each architecture.
Result<std::vector<std::string>> installed_versions(const std::string& name) {
  io::SpawnOptions query;
  query.command = {"dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}\n", name};
  const Result<io::CommandResult> answer = io::run_command(query, kQueryTimeout);
  if (!answer && answer.error().kind == ErrorKind::unsupported) return fail(answer);
  std::vector<std::string> versions;
  if (!answer || answer->status.code != 0 || answer->status.signal != 0) return versions;
  constexpr std::string_view kInstalled = "installed ";
  for (std::string_view rest = answer->out; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.starts_with(kInstalled)) versions.emplace_back(line.substr(kInstalled.size()));
  }
  return versions;
}

// System packages are the user's own to install here; those that are there already are fine.
Status check_apt(const std::vector<std::string>& packages) {
  std::string missing;
  std::string found;
  for (const std::string& package : packages) {
    const std::string name = package.substr(0, package.find_first_of("=/"));
    const Result<std::vector<std::string>> versions = installed_versions(name);
    if (!versions) return fail(versions);
    const std::size_t equals = package.find('=');
    if (equals == std::string::npos) {
      if (!versions->empty()) continue;
    } else {
      if (std::ranges::find(*versions, package.substr(equals + 1)) != versions->end()) continue;
      if (!versions->empty()) {
        found += fmt::format("; of {}, {} is installed", name, versions->front());
      }
    }
    missing += (missing.empty() ? "" : " ") + package;
  }
  if (missing.empty()) return {};
  return fail(ErrorKind::invalid,
              fmt::format("Image(apt=…) needs system packages that are not installed on this "
                          "machine, and the local provider cannot install them: {}{}",
                          missing, found),
              fmt::format("run 'sudo apt-get install {}' once, or leave them out", missing));
}

Status LocalProvider::check(const PoolSpec& spec) {
  if (Status status = check_python(spec); !status) return status;
  if (Status status = check_agent(spec); !status) return status;
  if (needs_environment(spec)) {
    const EnvironmentRequest request = environment_request(spec);
    std::error_code error;
    if (!fs::exists(environment_marker(request), error) &&
        !io::find_program(request.uv, surroundings_.variable("PATH"))) {
      return fail(
          ErrorKind::invalid,
          fmt::format("the image's Python and packages are set up with uv, but there is no program "
                      "'{}'",
                      request.uv),
          "install uv ('pip install uv'), or use this computer's own Python and no packages");
    }
  }
  if (Status status = check_machine(spec); !status) return status;
  return check_apt(spec.image.apt);
}

// What is asked of each machine; all nodes of a pool stand on this one.
Status LocalProvider::check_machine(const PoolSpec& spec) const {
  const int workers = workers_per_node(spec);
  const std::string each = workers == 1 ? "" : fmt::format(" for each of {} workers", workers);
  if (spec.cpus * workers > io::usable_cpus()) {
    return fail(ErrorKind::invalid,
                fmt::format("cpu={:g}{}: this machine has {}", spec.cpus, each, io::usable_cpus()),
                "ask for less, or leave cpu out to use what there is");
  }
  const double memory_gib = static_cast<double>(spec.memory_mb) / 1024;
  if (memory_gib * workers > io::memory_gib()) {
    return fail(
        ErrorKind::invalid,
        fmt::format("memory={}{}: {:.1f} GB may be used here",
                    spec.memory_mb % 1024 == 0 ? fmt::format("\"{}GB\"", spec.memory_mb / 1024)
                                               : fmt::format("\"{}MB\"", spec.memory_mb),
                    each, io::memory_gib()),
        "ask for less, or leave memory out to use what there is");
  }
  const std::int64_t processes = std::int64_t{spec.nodes} * workers * spec.concurrency;
  if (static_cast<double>(processes) * kProcessGib > io::memory_gib()) {
    return fail(ErrorKind::invalid,
                fmt::format("nodes={} with {} tasks at a time each means {} processes: too many "
                            "for the memory here ({:.1f} GB)",
                            spec.nodes, workers * spec.concurrency, processes, io::memory_gib()),
                "ask for fewer: further calls wait for their turn");
  }
  if (!spec.architecture.empty() && spec.architecture != own_architecture()) {
    return fail(ErrorKind::invalid,
                fmt::format("architecture=\"{}\": this machine is {}", spec.architecture,
                            own_architecture()),
                "leave architecture out, or use a provider that rents such machines");
  }
  if (!spec.machine.empty() && spec.machine != kMachine) {
    return fail(
        ErrorKind::invalid,
        fmt::format("machine=\"{}\": the local provider has this machine only", spec.machine),
        "leave machine out, or use a provider that rents such machines");
  }
  if (!spec.volumes.empty()) {
    return fail(ErrorKind::invalid,
                fmt::format("volume: the local provider mounts none, so {} would stay empty",
                            spec.volumes.front().mount_path),
                "tasks see this machine's files as they are; leave volume out");
  }
  if (const auto devices = devices_for(spec); !devices) return fail(devices);
  return {};
}

// What nvidia-smi prints, or why it prints nothing.
Result<std::string> ask_nvidia_smi(std::vector<std::string> query) {
  const Result<io::CommandResult> answer =
      io::run_command({.command = std::move(query)}, kQueryTimeout);
  if (answer && answer->status.code == 0 && answer->status.signal == 0) return answer->out;
  std::string why;
  if (answer) {
    why = io::failure_text(*answer);
  } else if (answer.error().kind == ErrorKind::timeout) {
    why = fmt::format("it did not answer in {:g} s", seconds(kQueryTimeout));
  } else {
    why = answer.error().message;
  }
  return fail(ErrorKind::invalid,
              fmt::format("accelerator: nvidia-smi cannot list this machine's GPUs: {}", why),
              "repair NVIDIA's driver, leave accelerator out, or use a provider that rents such "
              "machines");
}

Result<std::vector<int>> LocalProvider::devices_for(const PoolSpec& spec) const {
  if (!spec.accelerator) return std::vector<int>();
  std::vector<Device> devices;
  if (const auto program = io::find_program("nvidia-smi", surroundings_.variable("PATH"))) {
    const Result<std::string> rows = ask_nvidia_smi(device_query(*program));
    if (!rows) return fail(rows);
    devices = parse_devices(*rows);
    if (!mig_partitions(*spec.accelerator).empty()) {
      const Result<std::string> list = ask_nvidia_smi({*program, "-L"});
      if (!list) return fail(list);
      add_partitions(devices, *list);
    }
  }
  const auto visible = surroundings_.variable("CUDA_VISIBLE_DEVICES");
  if (visible) devices = visible_devices(devices, *visible);
  return choose_devices(devices, *spec.accelerator, spec.nodes, !visible.has_value());
}

std::string LocalProvider::interpreter(const PoolSpec& spec) const {
  const std::string given = value_at(settings_, "python");
  return given.empty() ? spec.runtime.python : given;
}

// An image that adds nothing runs on the driver's own interpreter.
bool LocalProvider::needs_environment(const PoolSpec& spec) const {
  if (!spec.image.pip.empty()) return true;
  if (spec.runtime.python.empty()) return false;  // no Python in it
  const std::string& wanted = spec.image.python;
  const std::string client = client_python(spec);
  return !(wanted.empty() || wanted == "auto" || wanted == minor_version(client) ||
           wanted == client);
}

EnvironmentRequest LocalProvider::environment_request(const PoolSpec& spec) const {
  EnvironmentRequest request;
  request.root = surroundings_.environment_root;
  request.pip = spec.image.pip;
  for (const DiskPackage& package : packages_on_disk(request.pip)) {
    request.contents.push_back(package.look);
  }
  request.extra_index = spec.image.pip_extra_index_url;
  request.index_project = index_project(spec.image);
  if (const std::string uv = value_at(settings_, "uv"); !uv.empty()) request.uv = uv;

  // The driver's own interpreter, unless a patch release is asked for by name, or another Python
  // than the driver's: nothing is downloaded for it.
  const std::string& wanted = spec.image.python;
  const bool own = minor_version(wanted) == wanted && !client_python(spec).empty();
  const bool by_name = !wanted.empty() && wanted != "auto" && !own;
  request.python = interpreter(spec);
  if (by_name || request.python.empty()) request.python = wanted;
  if (request.python.empty() || request.python == "auto") request.python = std::string("3");
  request.version = by_name ? wanted : client_python(spec);
  request.machine = own_architecture();

  request.variables = steering_variables(spec);
  if (request.pip.empty()) return request;
  request.image_variables = spec.image.env;
  for (const char* name : kIndexVariables) {
    const auto here = surroundings_.variable(name);
    if (here && !request.variables.contains(name)) request.indexes[name] = *here;
  }
  return request;
}

Result<Bootstrap> LocalProvider::plan_bootstrap(const PoolSpec& spec) const {
  Bootstrap bootstrap;
  if (!needs_environment(spec)) {
    bootstrap.python = interpreter(spec);
    return bootstrap;
  }
  const EnvironmentRequest request = environment_request(spec);
  bootstrap.python = environment_python(request);

  UvSettings settings;
  std::error_code error;
  if (!fs::exists(environment_marker(request), error)) {
    const auto variable = [&](const char* name) {
      const std::string given = value_at(request.variables, name);
      return given.empty() ? surroundings_.variable(name) : std::optional(given);
    };
    const bool uv_is_configured =
        std::ranges::any_of(uv_config_files(variable),
                            [&](const std::string& path) { return fs::exists(path, error); });
    std::map<std::string, std::string> pip;
    if (!uv_is_configured) {
      auto said = pip_config(interpreter(spec));
      if (!said) return fail(said);
      pip = *std::move(said);
    }
    settings = uv_settings(pip, request.extra_index, variable);
  }
  bootstrap.script = environment_script(request, settings.no_index);
  bootstrap.environment.assign(request.variables.begin(), request.variables.end());
  bootstrap.environment.insert(bootstrap.environment.end(), settings.environment.begin(),
                               settings.environment.end());
  if (!request.index_project.empty()) {
    bootstrap.environment.emplace_back(kIndexProject, request.index_project);
  }
  add_image_variables(bootstrap.environment, spec.image);
  return bootstrap;
}

Result<std::vector<Offer>> LocalProvider::offers(const PoolSpec&, Time) {
  return std::vector<Offer>{{.instance_type = std::string(kMachine),
                             .region = "localhost",
                             .cpus = io::usable_cpus(),
                             .memory_gb = io::memory_gib(),
                             .price_on_demand = 0.0,
                             .price_spot = std::nullopt,
                             .billing_increment_minutes = 0}};
}

// Those of drivers that are gone.
void LocalProvider::remove_abandoned() const {
  io::LockedDirectory::remove_abandoned(
      surroundings_.state_root, is_cluster_id,
      [](const std::string& path) { io::kill_marked(kNodeVariable, {path + "/"}, kKillTimeout); });
}

Result<Cluster> LocalProvider::prepare(const PoolSpec& spec, const Offer& offer, Time) {
  const std::string& root = surroundings_.state_root;
  if (Status status = io::ensure_private_directory(root); !status) return fail(status);
  remove_abandoned();
  Result<std::vector<int>> devices = devices_for(spec);
  if (!devices) return fail(devices);
  Result<Bootstrap> bootstrap = plan_bootstrap(spec);
  if (!bootstrap) return fail(bootstrap);
  const Result<int> port = io::free_tcp_port();
  if (!port) return fail(port);

  std::string id = std::string(kLocalIdPrefix) + spec.job_id;
  if (!is_cluster_id(id) || io::is_directory(root + "/" + id)) {  // a try of that job
    id = std::string(kLocalIdPrefix) + io::random_hex(kJobIdDigits);
  }
  auto directory = io::LockedDirectory::make(root, id);
  if (!directory) return fail(directory);
  const std::string path = (*directory)->path();

  Plan plan{.agent_path = spec.agent_path,
            .bootstrap = *std::move(bootstrap),
            .held = *std::move(directory),
            .used_ids = {},
            .devices = *std::move(devices),
            .devices_per_node = spec.accelerator ? spec.accelerator->count : 0};
  plans_.emplace(id, std::move(plan));
  return Cluster{.id = id,
                 .region = offer.region,
                 .instance_type = offer.instance_type,
                 .details = {{"directory", path}},
                 .head_port = *port};
}

// The cluster's directory, if its details name one that this provider may have made.
Result<std::string> LocalProvider::directory_of(const Cluster& cluster) const {
  for (const auto& [key, value] : cluster.details) {
    if (key != "directory") continue;
    if (is_cluster_id(cluster.id) && fs::path(value).is_absolute() &&
        fs::path(value).filename() == cluster.id) {
      return value;
    }
  }
  return fail(ErrorKind::invalid,
              fmt::format("\"{}\" is not a pool of the local provider", cluster.id),
              "use the cluster as prepare() returned it");
}

Result<std::vector<Instance>> LocalProvider::provision(const Cluster& cluster, int count,
                                                       int first_node, Time deadline) {
  const Result<std::string> directory = directory_of(cluster);
  if (!directory) return fail(directory);
  const auto plan = plans_.find(cluster.id);
  if (plan == plans_.end()) return not_open_here(cluster);

  std::vector<Instance> instances;
  std::vector<std::string> made;
  for (int node = first_node; node < first_node + count; ++node) {
    const std::string base = fmt::format("{}-{}", cluster.id, node);
    std::string id = base;
    {
      const std::scoped_lock lock(ids_mutex_);
      for (int time = 1; !plan->second.used_ids.emplace(id, node).second; ++time) {
        id = fmt::format("{}-r{}", base, time);
      }
    }
    if (Status status = io::make_private_directory(*directory + "/" + id); !status) {
      (void)terminate(cluster, made, deadline);
      return fail(status);
    }
    made.push_back(id);
    instances.push_back(
        {.id = id, .spot = false, .private_ip = "127.0.0.1", .public_ip = std::nullopt});
  }
  return instances;
}

Result<std::optional<Instance>> LocalProvider::get_instance(const Cluster& cluster,
                                                            const std::string& id, Time) {
  const Result<std::string> directory = directory_of(cluster);
  if (!directory) return fail(directory);
  if (!is_instance_of(cluster.id, id) || !io::is_directory(*directory + "/" + id)) {
    return std::nullopt;
  }
  return Instance{.id = id, .spot = false, .private_ip = "127.0.0.1", .public_ip = std::nullopt};
}

Status LocalProvider::terminate(const Cluster& cluster, const std::vector<std::string>& ids, Time) {
  const Result<std::string> directory = directory_of(cluster);
  if (!directory) return fail(directory);
  std::vector<std::string> nodes;
  for (const std::string& id : ids) {
    if (is_instance_of(cluster.id, id)) nodes.push_back(*directory + "/" + id + "/");
  }
  if (!nodes.empty()) io::kill_marked(kNodeVariable, nodes, kKillTimeout);
  Status result;
  for (const std::string& id : ids) {
    if (!is_instance_of(cluster.id, id)) continue;
    if (Status status = io::remove_tree(*directory + "/" + id); !status && result) result = status;
  }
  return result;
}

Status LocalProvider::teardown(const Cluster& cluster, Time) {
  const Result<std::string> directory = directory_of(cluster);
  if (!directory) return fail(directory);
  const auto plan = plans_.find(cluster.id);
  Status removed = plan == plans_.end() ? io::remove_tree(*directory) : plan->second.held->remove();
  if (!removed) return removed;
  plans_.erase(cluster.id);
  return {};
}

Connection LocalProvider::connection(const Cluster& cluster, const Instance& instance) {
  const auto plan = plans_.find(cluster.id);
  const Result<std::string> directory = directory_of(cluster);
  SKYWARD_CHECK(plan != plans_.end() && directory, "{} was not prepared here", cluster.id);
  const std::string node = *directory + "/" + instance.id;
  return {.command = {plan->second.agent_path, "run"},
          .environment = {{kNodeVariable, node + "/"}},
          .directory = node};
}

Bootstrap LocalProvider::bootstrap(const Cluster& cluster, const Instance& instance) {
  const auto plan = plans_.find(cluster.id);
  const Result<std::string> directory = directory_of(cluster);
  SKYWARD_CHECK(plan != plans_.end() && directory, "{} was not prepared here", cluster.id);
  Bootstrap bootstrap = plan->second.bootstrap;
  bootstrap.directory = *directory + "/" + instance.id;
  const std::scoped_lock lock(ids_mutex_);
  const auto node = plan->second.used_ids.find(instance.id);
  if (node != plan->second.used_ids.end() && !plan->second.devices.empty()) {
    bootstrap.environment.emplace_back(
        kGpusVariable,
        devices_of_node(plan->second.devices, plan->second.devices_per_node, node->second));
  }
  return bootstrap;
}

}  // namespace

LocalSurroundings surroundings_of_this_process() {
  const auto directory = [](const char* name) -> std::optional<std::string> {
    std::optional<std::string> value = io::environment_variable(name);
    if (value && value->starts_with('/') && io::is_writable_directory(*value)) return value;
    return std::nullopt;
  };
  LocalSurroundings surroundings;
  surroundings.variable = [](const char* name) { return io::environment_variable(name); };
  std::vector<std::string> places = {directory("TMPDIR").value_or("/tmp"), "/var/tmp"};
  const auto runtime = directory("XDG_RUNTIME_DIR");
  if (runtime) places.insert(places.begin(), *runtime);
  const std::string place = io::first_on_disk(places);
  surroundings.state_root =
      place == runtime ? place + "/skyward" : fmt::format("{}/skyward-{}", place, io::user_id());
  const auto cache = io::environment_variable("XDG_CACHE_HOME");
  if (cache && cache->starts_with('/')) {
    surroundings.environment_root = *cache + "/skyward/environments";
  } else if (const auto home = directory("HOME")) {
    surroundings.environment_root = *home + "/.cache/skyward/environments";
  } else {
    surroundings.environment_root = surroundings.state_root + "/environments";
  }
  return surroundings;
}

std::unique_ptr<Provider> make_local(const ProviderSpec& spec, LocalSurroundings surroundings) {
  return std::make_unique<LocalProvider>(spec, std::move(surroundings));
}

Result<std::unique_ptr<Provider>> make_local(const ProviderSpec& spec) {
  return make_local(spec, surroundings_of_this_process());
}

}  // namespace skyward::provider

#pragma once

// An engine by the commands that podman and docker have in common: what they take and what they
// print, as plain structs. How they are run is an argument.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/time.h"
#include "skyward/provider/container/engine.h"
#include "skyward/provider/keeping/keeping.h"
#include "skyward/provider/marks.h"

namespace skyward::provider::container {

struct HostGpu {
  std::string index{};   // nvidia-smi's and the runtimes'
  std::string name{};    // "NVIDIA H100 80GB HBM3"
  double memory_gb = 0;  // 0: it shares that of the processor

  bool operator==(const HostGpu&) const = default;
};

// The computer on which containers run.
struct EngineHost {
  std::string name{};
  int cpus = 0;
  std::int64_t memory_mb = 0;
  std::string architecture{};  // "x86_64"; empty: not told
  std::string storage{};       // the engine's folder: each user of podman has one
  std::string id{};            // the engine's own; podman has none
  std::vector<HostGpu> gpus{};

  bool operator==(const EngineHost&) const = default;
};
// A line of `info`: "skyward-host=" and its name, processors, bytes of memory, architecture,
// storage, and perhaps the engine's id, between bars.
std::optional<EngineHost> read_host(std::string_view out);
// A line for each GPU: its index, its model, its memory in MiB.
void read_gpus(std::string_view out, EngineHost& host);

struct ContainerStatus {
  std::string name{};
  std::string state{};  // "running"
  int exit_code = 0;
  bool out_of_memory = false;
  std::string address{};  // empty: none that others reach

  bool operator==(const ContainerStatus&) const = default;
};
// A line for each, as kInspect prints it.
std::vector<ContainerStatus> read_containers(std::string_view out);

inline constexpr const char* kAllGpus = "all";

// Empty or 0: as the runtime has it.
struct ContainerRequest {
  std::string image{};
  std::string network{};
  double cpus = 0;             // at most
  std::int64_t memory_mb = 0;  // at most
  std::int64_t shared_mb = 0;  // of /dev/shm, at most
  Words gpus{};                // their indices, or kAllGpus; empty: none
  std::string keeper{};        // a script for sh: the container's first process
};
Words run_words(const std::string& runtime, const ContainerRequest& request,
                const std::string& name, const Mark& mark);

// The first process of a container: ends when no agent claims it, or after `life`.
std::string keeper_script(const std::string& name, const KeeperTerms& terms, Duration life);
// Of a container. Engines may be set up so that all share the host's /dev/shm.
std::string keeper_directory(const std::string& name);

// Commands are repeated when the way to the engine breaks. Names are chosen here, so that a second
// creation finds the first.
class Api {
 public:
  // `pull` runs what may take long, and can be stopped.
  Api(Access access, Runner run, Runner pull, CommandClock clock)
      : access_(std::move(access)),
        run_(std::move(run)),
        pull_(std::move(pull)),
        clock_(std::move(clock)) {}

  Time now() const { return clock_.now(); }

  // The runtime of a host that ssh reaches; empty: none.
  ApiResult<std::string> runtime(Time deadline);
  ApiResult<EngineHost> host(Time deadline);
  // Whether systemd ends the user's containers there once nobody is logged in.
  ApiResult<bool> ends_at_logout(Time deadline);
  // Fails with `not_found` if the engine has none of this name.
  ApiResult<void> network(const std::string& name, Time deadline);
  ApiResult<bool> has_image(const std::string& image, Time deadline);
  ApiResult<void> pull(const std::string& image, Time deadline);

  // Whether it runs.
  ApiResult<void> create(const ContainerRequest& request, const std::string& name, const Mark& mark,
                         Time deadline);
  // Of a pool; of all, if that is empty.
  ApiResult<std::vector<ContainerStatus>> containers(const std::string& pool, Time deadline);
  // Those of these that there are.
  ApiResult<std::vector<ContainerStatus>> look_at(const Words& names, Time deadline);
  // Kills and removes them; those that are not there are no error. Returns the others.
  ApiResult<Words> remove(const Words& names, Time deadline);

 private:
  ApiResult<io::CommandResult> run_once(const Words& words, Time deadline);
  ApiResult<io::CommandResult> run_by(const Runner& runner, const Words& words, Time deadline,
                                      Duration most);
  // Of the runtime, without its name.
  using IsFailure = bool (*)(const io::CommandResult&);
  ApiResult<std::string> ask(const Words& words, Time deadline, IsFailure is_failure = nullptr);

  const Access access_;
  const Runner run_;
  const Runner pull_;
  const CommandClock clock_;
};

}  // namespace skyward::provider::container

#pragma once

// Slurm's commands: their words, their replies, and what their refusals mean. Nothing here is
// specific to Skyward. How a command is run is an argument: here, on a login node, or in a test.
//
// `squeue -o` and `sinfo -o` have the same columns in all versions that are in use.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/io/process.h"
#include "skyward/provider/keeping/commands.h"
#include "skyward/provider/rest/api_error.h"

namespace skyward::provider::slurm {

// Empty or 0: as the site has it.
struct JobRequest {
  std::string name{};
  int nodes = 1;
  std::string partition{};
  std::string account{};
  std::string qos{};
  double cpus = 0;             // of each node
  std::int64_t memory_mb = 0;  // of each node
  std::string gres{};          // of each node
  Duration time{};
  bool exclusive = false;
  Words exclude{};       // nodes that it may not have
  Words extra{};         // as sbatch takes them, after ours
  std::string script{};  // of the job, for a shell
};

// A job as `squeue` lists it: also for some minutes after its end.
struct Job {
  std::string id{};
  std::string state{};   // "PENDING"
  int nodes = 0;         // that it has, or waits for
  std::string start{};   // when it began or may begin, as Slurm writes it; empty: unknown
  Words names{};         // of its nodes; empty while it waits
  std::string reason{};  // why it waits
  std::string name{};

  bool operator==(const Job&) const = default;
};

// The nodes of a partition that are alike.
struct NodeGroup {
  std::string partition{};
  bool is_default = false;  // the partition of jobs that name none
  bool up = false;          // takes jobs
  int nodes = 0;
  int cpus = 0;  // of each
  std::int64_t memory_mb = 0;
  std::string gres{};    // "gpu:h100:4"; empty without
  Duration most_time{};  // 0: no limit

  bool operator==(const NodeGroup&) const = default;
};

struct ClusterUser {
  std::string name{};
  std::string cluster{};

  bool operator==(const ClusterUser&) const = default;
};

// "n[1-3,07],login" written out. Fails with `invalid` on what is none, or is too long.
Result<Words> expand_nodes(std::string_view list);
// "1-12:00:00", "30:00", "infinite" (0). Fails with `invalid`.
Result<Duration> parse_time_limit(std::string_view text);

Words sbatch_words(const JobRequest& request);

// Lines that are no jobs are left out: an array's, say.
std::vector<Job> parse_jobs(std::string_view out);
std::vector<NodeGroup> parse_node_groups(std::string_view out);
// "skyward-user=" and the user's name, then what 'scontrol show config' says.
std::optional<ClusterUser> parse_user(std::string_view out);

// Commands are repeated when the controller is busy or its answer is lost; a submission only when
// it is certain that it was not heard.
class Api {
 public:
  // `login`: the host on which ssh runs them, for people; empty: this computer.
  Api(Runner run, CommandClock clock, std::string login = {})
      : run_(std::move(run)), clock_(std::move(clock)), login_(std::move(login)) {}

  Time now() const { return clock_.now(); }

  // Who runs the commands, and where.
  ApiResult<ClusterUser> user(Time deadline);
  // Returns the job's id. One that was sent to another cluster than user() said is cancelled there.
  ApiResult<std::string> submit(const JobRequest& request, Time deadline);
  // This user's jobs.
  ApiResult<std::vector<Job>> jobs(Time deadline);
  // Jobs that have ended or never were are no error.
  ApiResult<void> cancel(const Words& ids, Time deadline);
  // Leaves the job these nodes and no others.
  ApiResult<void> shrink(const std::string& id, const Words& nodes, Time deadline);
  ApiResult<std::vector<NodeGroup>> node_groups(Time deadline);

 private:
  // With `once`, a command that may have been obeyed is not repeated.
  ApiResult<std::string> ask(const Words& words, Time deadline, std::string_view input = {},
                             bool once = false);
  ApiResult<std::string> ask_once(const Words& words, std::string_view input, Time deadline);
  ApiError cancel_elsewhere(const std::string& id, const std::string& cluster, Time deadline);

  const Runner run_;
  const CommandClock clock_;
  const std::string login_;
  std::string cluster_{};  // as the last user() said
};

}  // namespace skyward::provider::slurm

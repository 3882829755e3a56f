#pragma once

// The machines of one pool at Slurm (provider/pool_machines.h): nodes of jobs. A launch is one job,
// its machines are "JOB-0", "JOB-1" and so on, in the order in which Slurm lists its nodes at the
// start (docs/decisions/0021-a-launch-at-slurm-is-one-job.md).

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/renting/named_machines.h"
#include "skyward/provider/slurm/slurm_api.h"

namespace skyward::provider::slurm {

inline constexpr const char* kProvider = "slurm";
inline constexpr const char* kSlurm = "Slurm";

// A machine's id, taken apart.
struct JobNode {
  std::string job{};
  int number = 0;

  std::string text() const;
};
std::optional<JobNode> read_job_node(std::string_view id);

// What the driver that opened a pool knows of a job beside what Slurm shows.
struct JobMemory {
  Words names{};                   // of all nodes that it began with, by number
  std::string start{};             // when that was, as Slurm writes it
  std::map<int, Time> released{};  // by number, and when
};

// What has become of a job. One that was requeued has stopped: when it starts again, its nodes are
// other ones. `memory`: null when this process has not seen it run.
Stage stage_of(const Job& job, const JobMemory* memory);
// Why a pending job will never start, in words; empty while it may.
std::string never_starts(std::string_view reason);
// While a job waits: "2 nodes wait in the queue: Priority, expected to start at 12:00".
std::string waiting_text(const Job& job);

// The nodes of every job with our marks.
std::vector<NamedMachine> machines_of(const std::vector<Job>& jobs,
                                      const std::map<std::string, JobMemory>& memories);

// What launches need.
struct JobOrder {
  JobRequest request{};  // without a name and a number of nodes
  int nodes_there = 0;   // on which the job may run
  // Hears of a job of the pool that waits, at each look at it.
  std::function<void(const Job&)> tell{};
};

class Jobs final : public NamedMachines {
 public:
  // The api outlives this, and so do the memories. To find or terminate jobs, `mark.pool` is
  // enough.
  Jobs(Api& api, std::map<std::string, JobMemory>& memories, Mark mark, JobOrder order = {});

  std::expected<std::vector<std::string>, LaunchRefusal> launch(const LaunchBatch& batch,
                                                                Time deadline) override;
  Result<std::vector<MachineStatus>> look_up(const std::vector<std::string>& ids,
                                             Time deadline) override;
  // A job goes with its last machine.
  Result<std::vector<std::string>> terminate(const std::vector<std::string>& ids,
                                             Time deadline) override;

 protected:
  ApiResult<std::vector<NamedMachine>> list(Time deadline) override;

 private:
  // Nodes that were released lately while their jobs ran: they had failed, and Slurm may not
  // know. None if `count` others are not there.
  Words failed_nodes(int count) const;
  // Every job of this user, with their nodes noted.
  ApiResult<std::vector<Job>> look(Time deadline);
  // The ids of jobs begin again one day: a ledger may name somebody else's.
  bool is_ours(const Job& job) const;
  bool is_forgotten(const std::string& job) const;
  ApiResult<void> release(const Job& job, const std::set<int>& numbers, Time deadline);

  Api& api_;
  const std::string pool_;
  std::map<std::string, JobMemory>& memories_;  // by job
  const JobOrder order_;
  // Of a job that this has launched or seen.
  struct Sight {
    Time first{};
    int absent = 0;  // listings in a row without it
  };
  std::map<std::string, Sight> sights_;  // by job
};

}  // namespace skyward::provider::slurm

#include "skyward/provider/slurm/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "skyward/base/text.h"

namespace skyward::provider::slurm {

namespace {

using namespace std::chrono_literals;

constexpr int kLaunchTries = 3;
// A controller that is too busy to answer may do so much later what it was asked.
constexpr Duration kLateSubmission = 60s;
// Slurm notices a dead node after SlurmdTimeout, five minutes as sites have it.
constexpr Duration kSuspected = 10min;
// A queue moves slowly, and its controller has other users.
constexpr Duration kQueueLook = 30s;
// A controller may be restarted while a job waits, which costs the job nothing.
constexpr Duration kPatience = 1h;
constexpr int kMostNodesOfAJob = 100'000;
constexpr int kListingsWithout = 2;  // in a row, before a job counts as forgotten

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

// How many nodes it was launched with: the last part of its name.
std::optional<int> first_count(const Job& job) {
  const auto name = read_name(job.name, kProvider);
  if (!name) return std::nullopt;
  const std::string_view rest = name->rest;
  const std::string_view digits = rest.substr(rest.rfind('-') + 1);
  int out = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  const bool good = read.ec == std::errc() && read.ptr == digits.data() + digits.size();
  return good && out > 0 && out <= kMostNodesOfAJob ? std::optional(out) : std::nullopt;
}

// Also after a failure on a node, before anything has run: "launch failed requeued held", in newer
// versions with underscores. Only people end that.
bool is_held(std::string_view reason) {
  std::string words(reason);
  std::ranges::replace(words, '_', ' ');
  return is_one_of(words, {"JobHeldAdmin", "JobHeldUser", "JobHoldMaxRequeue"}) ||
         words.ends_with(" requeued held") || words.ends_with(" in held state");
}

constexpr std::string_view kNotForThisJob = "use this partition";

std::string hint_of(std::string_view reason) {
  if (reason.contains(kNotForThisJob) || reason.ends_with("NotAllowed")) {
    return "name an account= and a qos= that the partition accepts, or another partition=: "
           "'scontrol show partition'";
  }
  if (reason == "PartitionTimeLimit")
    return "lower timeout= of the pool, or choose a partition with a higher limit: 'sinfo -s'";
  if (is_one_of(reason, {"PartitionConfig", "PartitionNodeLimit", "BadConstraints"})) {
    return "ask for fewer nodes, or for less on each: 'sinfo -o \"%P %D %c %m %G %l\"'";
  }
  return "'scontrol show job' and 'sacctmgr show assoc user=$USER' show more";
}

// Why a node does not run.
void say_why(const Job& job, MachineStatus& out) {
  if (job.state == "PENDING") {
    out.reason = job.reason;
    out.message = never_starts(job.reason);
    if (!out.message.empty()) out.hint = hint_of(job.reason);
    out.capacity = out.message.empty();
    return;
  }
  out.reason = job.state;
  const bool has_reason = !job.reason.empty() && job.reason != "None";
  out.message = fmt::format("job {} has ended{}{}", job.id, has_reason ? ": " : "",
                            has_reason ? job.reason : "");
  out.hint = fmt::format(
      "'scontrol show job {0}' and 'sacct -j {0}' show why, and so does the "
      "output that extra=[\"--output=FILE\"] keeps",
      job.id);
  // What its nodes, or other jobs, have done to it. Another job may fare better.
  out.capacity = is_one_of(job.state, {"NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REVOKED"}) ||
                 stage_of(job, nullptr) != Stage::terminated;
}

MachineStatus status_of(const Job& job, int number, const JobMemory* memory) {
  const bool has_run = memory != nullptr && !memory->names.empty();
  MachineStatus out{.instance = {.id = JobNode{job.id, number}.text()},
                    .stage = stage_of(job, memory)};
  if (memory != nullptr && memory->released.contains(number)) out.stage = Stage::terminated;
  const Words& names = has_run ? memory->names : job.names;
  if (std::cmp_less(number, names.size())) {
    out.zone = names[static_cast<std::size_t>(number)];
    out.instance.private_ip = out.zone;
    // A node that was lost is no longer in its job.
    const bool is_there = std::ranges::find(job.names, out.zone) != job.names.end();
    if (out.stage == Stage::running && !is_there) out.stage = Stage::terminated;
  }
  if (out.stage >= Stage::stopped) say_why(job, out);
  return out;
}

// Slurm forgets a job minutes after its end. Nobody may have looked meanwhile: a laptop sleeps.
MachineStatus forgotten(const JobNode& node) {
  return {
      .instance = {.id = node.text()},
      .stage = Stage::terminated,
      .reason = "not listed",
      .message = fmt::format(
          "job {0} is no longer known to Slurm; 'sacct -j {0}' may show how it ended", node.job),
      .capacity = true};
}

}  // namespace

std::string JobNode::text() const { return fmt::format("{}-{}", job, number); }

std::optional<JobNode> read_job_node(std::string_view id) {
  const std::size_t dash = id.find('-');
  if (dash == std::string_view::npos || dash == 0) return std::nullopt;
  const std::string_view digits = id.substr(dash + 1);
  JobNode out{.job = std::string(id.substr(0, dash))};
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), out.number);
  const bool whole = read.ec == std::errc() && read.ptr == digits.data() + digits.size();
  const bool plain =
      std::ranges::all_of(out.job, is_digit) && !digits.empty() && is_digit(digits[0]);
  return whole && plain && out.text() == id ? std::optional(out) : std::nullopt;
}

// A job that completes has its nodes cleared by Slurm. That waits for dead ones, and costs nothing.
Stage stage_of(const Job& job, const JobMemory* memory) {
  const bool has_run = memory != nullptr && !memory->names.empty();
  if (job.state == "RUNNING") {
    return has_run && job.start != memory->start ? Stage::stopped : Stage::running;
  }
  if (is_one_of(job.state,
                {"CONFIGURING", "POWER_UP_NODE", "SIGNALING", "STAGE_OUT", "RESIZING"})) {
    return has_run ? Stage::running : Stage::pending;
  }
  // Some of these may start again, unattended.
  if (is_one_of(job.state, {"SUSPENDED", "STOPPED", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD",
                            "RESV_DEL_HOLD", "SPECIAL_EXIT"})) {
    return Stage::stopped;
  }
  if (job.state != "PENDING") return Stage::terminated;
  return has_run || !never_starts(job.reason).empty() ? Stage::stopped : Stage::pending;
}

std::string never_starts(std::string_view reason) {
  if (reason == "PartitionTimeLimit") return "its time exceeds the partition's limit";
  if (reason == "PartitionNodeLimit") return "it has more nodes than the partition allows";
  if (reason == "PartitionConfig") return "the partition cannot hold such a job";
  if (reason == "BadConstraints") return "no nodes of the cluster can hold it";
  if (reason == "AccountNotAllowed") return "the partition does not accept jobs of this account";
  if (reason == "QOSNotAllowed") return "the partition does not accept jobs of this qos";
  // Slurm 22.05 writes a sentence: "Job's account not known, so it can't use this partition (...)".
  if (reason.contains(kNotForThisJob))
    return "the partition accepts no jobs of this account or qos";
  if (is_one_of(reason, {"InvalidAccount", "InvalidQOS"}))
    return "you may not use that account or qos";
  if (is_held(reason)) return "it is on hold";
  if (reason == "DependencyNeverSatisfied") return "what it depends on has failed";
  if (reason.starts_with("QOSMin")) return "it asks for less than its qos demands";
  if (contains_any(reason, {"PerJob", "PerNode", "MaxWallDuration"}))
    return "it exceeds what one job may have";
  return {};
}

std::string waiting_text(const Job& job) {
  std::string out =
      fmt::format("{} node{} wait{} in the queue: {}", job.nodes, job.nodes == 1 ? "" : "s",
                  job.nodes == 1 ? "s" : "", job.reason.empty() ? "None" : job.reason);
  if (!job.start.empty()) out += ", expected to start at " + job.start;
  return out;
}

std::vector<NamedMachine> machines_of(const std::vector<Job>& jobs,
                                      const std::map<std::string, JobMemory>& memories) {
  std::vector<NamedMachine> out;
  for (const Job& job : jobs) {
    const auto count = first_count(job);
    if (!count) continue;
    const auto memory = memories.find(job.id);
    for (int number = 0; number < *count; ++number) {
      NamedMachine& machine = out.emplace_back();
      machine.name = job.name;
      machine.status = status_of(job, number, memory == memories.end() ? nullptr : &memory->second);
    }
  }
  return out;
}

Jobs::Jobs(Api& api, std::map<std::string, JobMemory>& memories, Mark mark, JobOrder order)
    : NamedMachines({.cloud = kSlurm,
                     .region = order.request.partition,
                     .listing_lag = kLateSubmission,
                     .known_after = kLateSubmission,
                     .release_time = 180s,
                     .unanswered_limit_s = 600,
                     .launch_tries = kLaunchTries,
                     .slowest_look = kQueueLook,
                     .patience = kPatience,
                     .ends_itself = true},
                    kProvider, mark),
      api_(api),
      pool_(std::move(mark.pool)),
      memories_(memories),
      order_(std::move(order)) {}

Words Jobs::failed_nodes(int count) const {
  Words out;
  std::size_t kept = 0;  // that the pool has
  for (const auto& [job, memory] : memories_) {
    kept += memory.names.size();
    for (const auto& [number, at] : memory.released) {
      if (std::cmp_greater_equal(number, memory.names.size())) continue;
      --kept;
      if (api_.now() - at > kSuspected) continue;
      out.push_back(memory.names[static_cast<std::size_t>(number)]);
    }
  }
  const std::size_t needed = kept + static_cast<std::size_t>(count);
  return std::cmp_less_equal(needed + out.size(), order_.nodes_there) ? out : Words();
}

std::expected<std::vector<std::string>, LaunchRefusal> Jobs::launch(const LaunchBatch& batch,
                                                                    Time deadline) {
  JobRequest request = order_.request;
  request.name = name_of(batch, batch.count);
  request.nodes = batch.count;
  request.exclude = failed_nodes(batch.count);
  const auto job = api_.submit(request, deadline);
  if (!job) return std::unexpected(refusal(job.error()));
  sights_[*job] = {.first = api_.now()};
  std::vector<std::string> ids;
  for (int number = 0; number < batch.count; ++number) ids.push_back(JobNode{*job, number}.text());
  return ids;
}

bool Jobs::is_ours(const Job& job) const {
  const auto name = read_name(job.name, kProvider);
  return name && name->mark.pool == pool_ && first_count(job);
}

bool Jobs::is_forgotten(const std::string& job) const {
  const auto sight = sights_.find(job);
  return sight != sights_.end() && sight->second.absent >= kListingsWithout &&
         api_.now() - sight->second.first >= kLateSubmission;
}

ApiResult<std::vector<Job>> Jobs::look(Time deadline) {
  auto jobs = api_.jobs(deadline);
  if (!jobs) return jobs;
  for (auto& [id, sight] : sights_) ++sight.absent;
  for (const Job& job : *jobs) {
    if (!is_ours(job)) continue;
    sights_.try_emplace(job.id, Sight{.first = api_.now()}).first->second.absent = 0;
    if (order_.tell && stage_of(job, nullptr) == Stage::pending) order_.tell(job);
    if (job.state != "RUNNING") continue;
    if (std::cmp_not_equal(job.names.size(), *first_count(job))) continue;
    JobMemory& memory = memories_[job.id];
    if (!memory.names.empty()) continue;
    memory.names = job.names;
    memory.start = job.start;
  }
  return jobs;
}

ApiResult<std::vector<NamedMachine>> Jobs::list(Time deadline) {
  const auto jobs = look(deadline);
  if (!jobs) return std::unexpected(jobs.error());
  return machines_of(*jobs, memories_);
}

// One listing for all.
Result<std::vector<MachineStatus>> Jobs::look_up(const std::vector<std::string>& ids,
                                                 Time deadline) {
  auto all = list(deadline);
  if (!all) return std::unexpected(explained(all.error(), "listing jobs"));
  std::vector<MachineStatus> out;
  for (NamedMachine& one : *all) {
    const bool is_wanted = std::ranges::find(ids, one.status.instance.id) != ids.end();
    if (is_wanted && read_name(one.name, kProvider)->mark.pool == pool_) {
      out.push_back(std::move(one.status));
    }
  }
  for (const std::string& id : ids) {
    const auto node = read_job_node(id);
    if (node && is_forgotten(node->job)) out.push_back(forgotten(*node));
  }
  return out;
}

// A part of a job: it keeps the others. Where Slurm does not allow that, the node stays in the job
// until the others go.
ApiResult<void> Jobs::release(const Job& job, const std::set<int>& numbers, Time deadline) {
  JobMemory& memory = memories_[job.id];
  const auto is_released = [&](int number) {
    return memory.released.contains(number) || numbers.contains(number);
  };
  const int count = first_count(job).value_or(job.nodes);
  Words kept;
  bool any_left = false;
  for (int number = 0; number < count; ++number) {
    if (is_released(number)) continue;
    // Lost nodes keep nobody's job alive.
    if (std::cmp_less(number, memory.names.size())) {
      const std::string& name = memory.names[static_cast<std::size_t>(number)];
      if (std::ranges::find(job.names, name) == job.names.end()) continue;
      kept.push_back(name);
    }
    any_left = true;
  }
  if (!any_left || stage_of(job, &memory) == Stage::stopped) {
    if (auto cancelled = api_.cancel({job.id}, deadline); !cancelled) return cancelled;
  } else if (!kept.empty() && kept.size() < job.names.size()) {
    (void)api_.shrink(job.id, kept, deadline);
  }
  // Whoever looks takes them for gone from now on.
  for (const int number : numbers) memory.released.emplace(number, api_.now());
  return {};
}

Result<std::vector<std::string>> Jobs::terminate(const std::vector<std::string>& ids,
                                                 Time deadline) {
  std::map<std::string, std::set<int>> wanted;
  for (const std::string& id : ids) {
    if (const auto node = read_job_node(id)) wanted[node->job].insert(node->number);
  }
  if (wanted.empty()) return std::vector<std::string>();
  const auto jobs = look(deadline);
  if (!jobs) return std::unexpected(explained(jobs.error(), "listing jobs"));
  std::vector<std::string> heard;
  for (const Job& job : *jobs) {
    const auto numbers = wanted.find(job.id);
    if (numbers == wanted.end() || !is_ours(job)) continue;
    if (stage_of(job, nullptr) != Stage::terminated) {
      const auto done = release(job, numbers->second, deadline);
      if (!done) {
        return std::unexpected(explained(done.error(), "cancelling the job " + job.id));
      }
    }
    for (const int number : numbers->second) heard.push_back(JobNode{job.id, number}.text());
  }
  return heard;
}

}  // namespace skyward::provider::slurm

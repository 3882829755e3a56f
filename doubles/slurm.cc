#include "doubles/slurm.h"

#include <algorithm>
#include <charconv>
#include <map>

namespace skyward::doubles {

namespace {

constexpr Duration kForgets = std::chrono::seconds(300);  // a job that has ended
constexpr Duration kHoldsRequeued = std::chrono::seconds(120);

CommandReply refused(int code, const std::string& why) {
  CommandReply out;
  out.code = code;
  out.err = "sbatch: error: " + why + "\n";
  return out;
}

CommandReply said(std::string text) {
  CommandReply out;
  out.out = std::move(text);
  return out;
}

void end(SlurmJob& one, const char* state, Time at) {
  one.state = state;
  one.ended = at;
}

std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> out;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    out.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return out;
}

int number_of(std::string_view text) {
  int out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

}  // namespace

CommandReply Slurm::run(const Slurm::Words& words, std::string_view input, Time now) {
  const int number = ++requests;
  if (on_request) on_request(number, false);
  advance(now);
  const bool every_second = number % 2 == 0;
  CommandReply out;
  if (refuses) {
    out = refused(1, "Access/permission denied");
  } else if (busy && every_second) {
    out = refused(1, "slurm_receive_msg: Controller busy, try again later");
  } else {
    out = answer(words, input);
    if (lose_reply && every_second) {
      out = refused(1, "Socket timed out on send/recv operation");
    }
    if (breaks && every_second) {
      out = {};
      out.code = 255;
      out.err = "Connection to login closed by remote host.\n";
    }
  }
  if (on_request) on_request(number, true);
  return out;
}

void Slurm::advance(Time now) {
  now_ = std::max(now_, now);
  for (SlurmJob& one : jobs) {
    if (one.state == "RUNNING" && one.ends <= now_) end(one, "TIMEOUT", one.ends);
  }
  for (SlurmJob& one : jobs) start(one);
  std::erase_if(jobs, [&](const SlurmJob& one) {
    return one.ended != kNever && now_ - one.ended > kForgets;
  });
}
void Slurm::preempt(int id) { end(*find(id), "PREEMPTED", now_); }
void Slurm::requeue(int id) {
  SlurmJob& one = *find(id);
  one.state = "PENDING";
  one.reason = "BeginTime";
  one.nodes.clear();
  one.starts = kNever;
  one.submitted = now_ + kHoldsRequeued;
}
void Slurm::forget(int id) {
  std::erase_if(jobs, [id](const SlurmJob& one) { return one.id == id; });
}
void Slurm::lose(const std::string& node) {
  down_.insert(node);
  for (SlurmJob& one : jobs) {
    std::erase(one.nodes, node);
    if (one.state == "RUNNING" && one.nodes.empty()) end(one, "NODE_FAIL", now_);
  }
}
SlurmJob* Slurm::find(int id) {
  const auto at = std::ranges::find(jobs, id, &SlurmJob::id);
  return at == jobs.end() ? nullptr : &*at;
}
int Slurm::standing() const {
  int out = 0;
  for (const SlurmJob& one : jobs) {
    if (one.state == "RUNNING") out += static_cast<int>(one.nodes.size());
    if (one.state == "PENDING") out += one.wanted;
  }
  return out;
}

CommandReply Slurm::violate(const std::string& what) {
  violations.push_back(what);
  return refused(1, what);
}

CommandReply Slurm::answer(const Slurm::Words& words, std::string_view input) {
  if (words[0] == "sbatch") return submit(words, input);
  if (words[0] == "scancel") return cancel(words);
  if (words == Words{"sh", "-c", "printf skyward-user= && id -un && scontrol show config"}) {
    return said("skyward-user=me\n" + config());
  }
  if (words[0] == "sh" && words.size() == 3) return shrink(words[2]);
  if (words[0] == "sinfo") return said(sinfo());
  const std::vector<std::string> listing{
      "env",          "SLURM_TIME_FORMAT=standard",   "squeue", "--noheader", "--me",
      "--states=all", "--format=%i|%T|%D|%S|%N|%r|%j"};
  return words == listing ? said(squeue()) : violate("no such command: " + words[0]);
}

CommandReply Slurm::submit(const Slurm::Words& words, std::string_view input) {
  SlurmJob job{.id = next_++, .script = std::string(input), .submitted = now_};
  std::set<std::string> flags;
  for (std::size_t at = 1; at < words.size(); ++at) {
    const std::string& word = words[at];
    const std::size_t equal = word.find('=');
    const std::string name = word.substr(0, equal);
    const std::string value = equal == std::string::npos ? "" : word.substr(equal + 1);
    if (!flags.insert(name).second) return violate("given twice: " + name);
    if (name == "--job-name") job.name = value;
    if (name == "--partition") job.partition = value;
    if (name == "--exclude") job.excluded = names_in(value);
    if (name == "--nodes") job.wanted = number_of(value);
    if (name == "--time") job.limit = std::chrono::minutes(number_of(value));
    static const std::set<std::string> kKnown{
        "--parsable", "--no-requeue", "--no-kill",         "--export",     "--chdir",
        "--output",   "--error",      "--job-name",        "--nodes",      "--partition",
        "--account",  "--qos",        "--cpus-per-task",   "--mem",        "--gres",
        "--time",     "--exclusive",  "--ntasks-per-node", "--constraint", "--exclude"};
    if (!kKnown.contains(name)) return violate("sbatch: unrecognized option '" + word + "'");
  }
  if (!flags.contains("--parsable") || !flags.contains("--no-requeue") || job.limit <= Duration{} ||
      job.name.empty() || !input.starts_with("#!/")) {
    return violate("a job needs a name, a limit and a script, and may not be requeued");
  }
  if (job.partition == "nosuch") {
    --next_;
    return refused(1,
                   "invalid partition specified: nosuch\nsbatch: error: Batch job submission "
                   "failed: Invalid partition name specified");
  }
  if (job.wanted > static_cast<int>(nodes_.size())) job.reason = "PartitionConfig";
  if (job.limit > most_time) job.reason = "PartitionTimeLimit";
  jobs.push_back(job);
  start(jobs.back());
  return said(std::to_string(job.id) + "\n");
}

CommandReply Slurm::cancel(const Slurm::Words& words) {
  if (words.size() < 3 || words[1] != "--quiet") return violate("scancel without jobs");
  for (std::size_t at = 2; at < words.size(); ++at) {
    SlurmJob* const one = find(number_of(words[at]));
    if (one != nullptr && one->ended == kNever) end(*one, "CANCELLED", now_);
  }
  return {};
}

// The job's own script runs on its first node, which it cannot lose so.
CommandReply Slurm::shrink(const std::string& line) {
  const std::size_t at = line.find("JobId=");
  const std::size_t list = line.find("NodeList=");
  if (!line.contains("scontrol update") || at == std::string::npos || list == std::string::npos) {
    return violate("no such line: " + line);
  }
  SlurmJob* const one = find(number_of(std::string_view(line).substr(at + 6)));
  std::string_view names = std::string_view(line).substr(list + 9);
  names = names.substr(0, names.find(';'));
  if (one == nullptr || one->state != "RUNNING") return refused(1, "Invalid job id specified");
  const std::vector<std::string> kept = names_in(names);
  for (const std::string& name : kept) {
    if (std::ranges::find(one->nodes, name) == one->nodes.end()) {
      return violate(name + " is no node of the job");
    }
  }
  if (kept.empty() || kept.front() != one->nodes.front()) {
    return refused(1, "Job update not available right now");
  }
  one->nodes = kept;
  return {};
}

std::string Slurm::estimate() const {
  if (!estimates) return "N/A";
  std::string minute = std::to_string(100 + requests % 60);
  return "2026-11-24T12:" + minute.substr(1) + ":00";
}

std::string Slurm::squeue() const {
  std::string out = "99_1|RUNNING|1|N/A|elsewhere|None|somebody's array\n";
  for (const SlurmJob& one : jobs) {
    std::string list;
    for (const std::string& name : one.nodes) list += (list.empty() ? "" : ",") + name;
    const int count = one.nodes.empty() ? one.wanted : static_cast<int>(one.nodes.size());
    const bool waits = one.state == "PENDING";
    for (const std::string& column :
         {std::to_string(one.id), one.state, std::to_string(count),
          waits ? estimate() : std::to_string((one.starts - Time{}).count()), list,
          waits ? one.reason : std::string("None")}) {
      out += column + "|";
    }
    out += one.name + "\n";
  }
  return out;
}
std::string Slurm::config() {
  return "Configuration data as of 2026-01-01T00:00:00\n"
         "AccountingStorageBackupHost = (null)\nClusterName             = c1\n"
         "CommunicationParameters = (null)\n";
}
std::string Slurm::sinfo() const {
  const std::string count = std::to_string(nodes_.size());
  return "low*|up|0/" + count + "/0/" + count + "|8|8000|gpu:h100:4|1-00:00:00\n";
}

void Slurm::start(SlurmJob& one) {
  if (one.state != "PENDING" || one.reason.starts_with("Partition")) return;
  if (now_ - one.submitted < queue) return;
  std::vector<std::string> free;
  for (const std::string& name : nodes_) {
    const bool taken = std::ranges::any_of(jobs, [&](const SlurmJob& other) {
      return other.state == "RUNNING" && std::ranges::find(other.nodes, name) != other.nodes.end();
    });
    const bool usable =
        !down_.contains(name) && std::ranges::find(one.excluded, name) == one.excluded.end();
    if (!taken && usable) free.push_back(name);
  }
  if (free.size() < static_cast<std::size_t>(one.wanted)) {
    one.reason = "Resources";
    return;
  }
  free.resize(static_cast<std::size_t>(one.wanted));
  one.nodes = free;
  one.state = "RUNNING";
  one.starts = now_;
  one.ends = now_ + one.limit;
}

}  // namespace skyward::doubles

#include "skyward/provider/slurm/partitions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "skyward/base/text.h"
#include "skyward/provider/choosing.h"

namespace skyward::provider::slurm {

namespace {

using namespace std::chrono_literals;

// A job lives so much longer than its pool may: its start and its end.
constexpr Duration kGrace = 15min;
// Of a pool without a timeout, where the partition has no lower limit.
constexpr Duration kStandardTime = 24h;
// Names, numbers of nodes, and what starts or reports a job are ours.
constexpr std::string_view kOurs[] = {"--job-name", "-J",        "--nodes",    "-N",     "--array",
                                      "-a",         "--requeue", "--wrap",     "--wait", "-W",
                                      "--parsable", "--export",  "--no-kill",  "-k",     "--hold",
                                      "-H",         "--input",   "--test-only"};
// Each would start a second agent on a node.
constexpr std::string_view kTasks[] = {"--ntasks",
                                       "-n",
                                       "--ntasks-per-node",
                                       "--tasks-per-node",
                                       "--ntasks-per-socket",
                                       "--ntasks-per-gpu",
                                       "--gpus-per-task"};
// A job elsewhere would never be seen again.
constexpr std::string_view kElsewhere[] = {"--clusters", "--cluster", "-M"};

// Whether the word is one of these options of sbatch, with a value or without.
bool is_option(std::string_view word, std::span<const std::string_view> options) {
  const std::string_view name = word.substr(0, word.find('='));
  return std::ranges::any_of(options, [&](std::string_view one) {
    return name == one || (one.size() == 2 && word.starts_with(one));
  });
}

int workers_gpus(const PoolSpec& spec) {
  return spec.accelerator ? static_cast<int>(std::ceil(spec.accelerator->count)) : 0;
}

bool is_too_short(const Candidate& candidate, const Wishes& wishes, const PoolSpec& spec) {
  const Duration time = wishes.time > Duration{} ? wishes.time : spec.timeout;
  return candidate.most_time > Duration{} && time > candidate.most_time;
}

// "h100_80gb_hbm3" is an H100.
std::string model_of(std::string_view type) {
  std::string words(type);
  std::ranges::replace(words, '_', ' ');
  return accelerator_in(words);
}

}  // namespace

std::string text_of(Duration time) {
  const auto minutes = std::chrono::ceil<std::chrono::minutes>(time).count();
  if (minutes % 1440 == 0) return fmt::format("{} d", minutes / 1440);
  return minutes % 60 == 0 ? fmt::format("{} h", minutes / 60) : fmt::format("{} min", minutes);
}

Result<Wishes> read_wishes(const ProviderSpec& spec) {
  Wishes out{.partition = spec.setting("partition"),
             .account = spec.setting("account"),
             .qos = spec.setting("qos"),
             .gres = spec.setting("gres"),
             .exclusive = spec.setting("exclusive") == "true",
             .extra = items_of(spec.setting("extra"), '\n')};
  if (const std::string time = spec.setting("time"); !time.empty()) {
    const auto read = parse_time_limit(time);
    if (!read || *read <= Duration{}) {
      return fail(ErrorKind::invalid, fmt::format("Slurm: time=\"{}\" is not a time limit", time),
                  "write it as sbatch takes it: \"90\" minutes, \"8:00:00\", \"2-12:00:00\"");
    }
    out.time = *read;
  }
  for (const std::string& word : out.extra) {
    std::string_view hint;
    if (!word.starts_with("-")) {
      hint = "write each sbatch option as one string: \"--constraint=a100\"";
    } else if (is_option(word, kOurs)) {
      hint = "Skyward passes that to sbatch itself";
    } else if (is_option(word, kTasks)) {
      hint = "one agent runs on each node: use concurrency= for several tasks at once, or torchrun";
    } else if (is_option(word, kElsewhere)) {
      hint = "name a login node of that cluster: login=\"me@login\"";
    }
    if (hint.empty()) continue;
    return fail(ErrorKind::invalid, fmt::format("Slurm: extra=[\"{}\"] cannot be given", word),
                std::string(hint));
  }
  return out;
}

Gpus gpus_in(std::string_view gres) {
  for (std::string one : items_of(gres, ',')) {
    one = one.substr(0, one.find('('));  // sockets
    const std::vector<std::string> parts = items_of(one, ':');
    if (parts.empty() || parts[0] != "gpu") continue;
    Gpus out;
    const std::string& last = parts.back();
    const auto read = std::from_chars(last.data(), last.data() + last.size(), out.count);
    const bool counted =
        parts.size() > 1 && read.ec == std::errc() && read.ptr == last.data() + last.size();
    if (!counted) out.count = 1;
    if (parts.size() == 3 || (parts.size() == 2 && !counted)) out.type = parts[1];
    return out;
  }
  return {};
}

std::vector<Candidate> candidates_of(const std::vector<NodeGroup>& groups, const Wishes& wishes,
                                     const std::string& cluster) {
  const std::vector<std::string> wanted = items_of(wishes.partition, ',');
  std::vector<Candidate> out;
  for (const NodeGroup& group : groups) {
    const bool named = wanted.empty() || std::ranges::find(wanted, group.partition) != wanted.end();
    if (!group.up || !named) continue;
    const Gpus gpus = gpus_in(group.gres);
    Candidate& candidate = out.emplace_back();
    candidate.partition = group.partition;
    candidate.is_default = group.is_default;
    candidate.gpu_type = gpus.type;
    candidate.nodes = group.nodes;
    candidate.most_time = group.most_time;
    candidate.offer = {
        .instance_type = group.partition + (gpus.type.empty() ? "" : ":" + gpus.type),
        .region = cluster,
        .cpus = group.cpus,
        .memory_gb = static_cast<double>(group.memory_mb) / 1024,
        .accelerator = model_of(gpus.type),
        .accelerator_form = form_factor_in(gpus.type),
        .accelerator_count = static_cast<double>(gpus.count),
        .price_on_demand = 0.0,
        .billing_increment_minutes = 0};
  }
  return out;
}

// With `gres`, the user says what a node must have.
Result<std::vector<Offer>> fitting_candidates(const std::vector<Candidate>& candidates,
                                              const Wishes& wishes, const PoolSpec& spec) {
  if (candidates.empty()) {
    return fail(ErrorKind::invalid,
                wishes.partition.empty()
                    ? "Slurm: no partition accepts jobs right now"
                    : fmt::format("Slurm: there is no partition \"{}\" that accepts jobs",
                                  wishes.partition),
                "'sinfo -s' lists the partitions and their states");
  }
  std::vector<Offer> large;
  std::vector<Offer> long_enough;  // of these
  int most_nodes = 0;
  for (const Candidate& candidate : candidates) {
    most_nodes = std::max(most_nodes, candidate.nodes);
    Offer offer = candidate.offer;
    const bool other = !spec.machine.empty() && offer.instance_type != spec.machine;
    if (other || candidate.nodes < spec.nodes) continue;
    if (!wishes.gres.empty() && spec.accelerator) {
      offer.accelerator = spec.accelerator->name;
      offer.accelerator_form.clear();
      offer.accelerator_count = spec.accelerator->count;
    }
    if (!is_too_short(candidate, wishes, spec)) long_enough.push_back(offer);
    large.push_back(std::move(offer));
  }
  if (large.empty() && most_nodes < spec.nodes) {
    return fail(ErrorKind::invalid,
                fmt::format("Slurm: nodes={}, but no partition has more than {} identical nodes",
                            spec.nodes, most_nodes),
                "ask for fewer nodes, or name another partition: 'sinfo -s'");
  }
  auto out = fitting_offers(long_enough, spec);
  if (!out) out = fitting_offers(large, spec);  // request_of() says what the limit is
  if (!out) {
    Error why = std::move(out.error());
    why.message = "Slurm: " + why.message;
    if (spec.accelerator && wishes.gres.empty()) {
      why.hint += "; if the site has other names for its GPUs, give them: gres=\"gpu:NAME:1\"";
    }
    return std::unexpected(std::move(why));
  }
  const int workers = workers_per_node(spec);
  for (Offer& offer : *out) {
    if (wishes.exclusive) continue;
    if (spec.cpus > 0) offer.cpus = static_cast<int>(std::ceil(spec.cpus * workers));
    if (spec.memory_mb > 0) offer.memory_gb = static_cast<double>(spec.memory_mb) * workers / 1024;
    offer.accelerator_count = spec.accelerator ? spec.accelerator->count : 0;
    if (!spec.accelerator) offer.accelerator.clear();
  }
  std::ranges::stable_partition(*out, [&](const Offer& offer) {
    return std::ranges::any_of(candidates, [&](const Candidate& one) {
      return one.is_default && one.offer.instance_type == offer.instance_type;
    });
  });
  return out;
}

// With `gres`, the user says which GPUs.
int nodes_for(const std::vector<Candidate>& candidates, const Wishes& wishes, const Offer& offer) {
  int nodes = 0;
  for (const Candidate& candidate : candidates) {
    const Offer& has = candidate.offer;
    if (has.instance_type == offer.instance_type && has.cpus >= offer.cpus &&
        has.memory_gb >= offer.memory_gb &&
        (!wishes.gres.empty() || has.accelerator_count >= offer.accelerator_count)) {
      nodes += candidate.nodes;
    }
  }
  return nodes;
}

Result<JobRequest> request_of(const Candidate& candidate, const Wishes& wishes,
                              const PoolSpec& spec) {
  const int workers = workers_per_node(spec);
  JobRequest out{.partition = candidate.partition,
                 .account = wishes.account,
                 .qos = wishes.qos,
                 .cpus = spec.cpus * workers,
                 .memory_mb = spec.memory_mb * workers,
                 .gres = wishes.gres,
                 .time = wishes.time,
                 .exclusive = wishes.exclusive,
                 .extra = wishes.extra};
  if (out.gres.empty() && spec.accelerator) {
    const std::string type = candidate.gpu_type.empty() ? "" : candidate.gpu_type + ":";
    out.gres = fmt::format("gpu:{}{}", type, workers_gpus(spec));
  }
  const Duration limit = candidate.most_time > Duration{} ? candidate.most_time : Duration::max();
  if (out.time == Duration{}) {
    out.time = spec.timeout > Duration{}
                   ? std::max(spec.timeout, std::min(spec.timeout + kGrace, limit))
                   : std::min(kStandardTime, limit);
  }
  if (out.time <= limit) return out;
  return fail(ErrorKind::invalid,
              fmt::format("Slurm: the partition {} accepts jobs of at most {}, but {}= asks for "
                          "{}; nothing was submitted",
                          candidate.partition, text_of(limit),
                          wishes.time > Duration{} ? "time" : "timeout", text_of(out.time)),
              "ask for less time, or name another partition: 'sinfo -o \"%P %l\"'");
}

}  // namespace skyward::provider::slurm

#include "skyward/provider/slurm/slurm_api.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "skyward/base/text.h"
#include "skyward/spec/image.h"

namespace skyward::provider::slurm {

namespace {

using namespace std::chrono_literals;

constexpr Duration kLongestCommand = 60s;
// A command that takes longer to fail is not repeated: nobody answers.
constexpr Duration kSoonRefused = 5s;
constexpr std::size_t kMostNodes = 100'000;  // of one list
constexpr std::size_t kMostDigits = 9;       // of a number in a list
constexpr int kSshFailed = 255;              // sbatch, too
constexpr int kNoProgram = 127;
// Before the user's name: a shell's profile may have printed something.
constexpr std::string_view kUserMark = "skyward-user=";

template <typename Number>
std::optional<Number> read_number(std::string_view text) {
  Number out{};
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto read = std::from_chars(begin, end, out);
  if (text.empty() || !is_digit(text.front()) || read.ec != std::errc() || read.ptr != end) {
    return std::nullopt;
  }
  return out;
}

std::unexpected<Error> no_list(std::string_view list) {
  return fail(ErrorKind::invalid, fmt::format("\"{}\" is not a list of nodes", list),
              "see what 'squeue' shows; Skyward may not know this version of Slurm");
}

// Adds what "1-3" or "07" stands for.
bool add_range(std::string_view range, Words& out) {
  const std::size_t dash = range.find('-');
  const std::string_view from = range.substr(0, dash);
  const std::string_view to = dash == std::string_view::npos ? from : range.substr(dash + 1);
  const auto first = read_number<std::size_t>(from);
  const auto last = read_number<std::size_t>(to);
  if (!first || !last || *last < *first || *last - *first >= kMostNodes ||
      to.size() > kMostDigits) {
    return false;
  }
  for (std::size_t number = *first; number <= *last; ++number) {
    out.push_back(fmt::format("{:0{}}", number, from.size()));
  }
  return true;
}

// Everything that one part of a list stands for: "rack[1-2]n[1-3]" is six names.
bool expand_part(std::string_view part, Words& out) {
  Words begun{""};
  while (!part.empty()) {
    const std::size_t open = part.find('[');
    const std::string_view plain = part.substr(0, open);
    if (plain.contains(']')) return false;
    Words ends{""};
    part.remove_prefix(plain.size());
    if (!part.empty()) {
      const std::size_t close = part.find(']');
      if (close == std::string_view::npos) return false;
      ends.clear();
      for (const std::string_view range : split(part.substr(1, close - 1), ',')) {
        if (!add_range(range, ends)) return false;
      }
      part.remove_prefix(close + 1);
    }
    if (begun.size() * ends.size() > kMostNodes) return false;
    Words longer;
    for (const std::string& begin : begun) {
      for (const std::string& end : ends)
        longer.push_back(fmt::format("{}{}{}", begin, plain, end));
    }
    begun = std::move(longer);
  }
  out.insert(out.end(), begun.begin(), begun.end());
  return begun.size() > 1 || !begun.front().empty();
}

// The numbers of "8", "8+" (the least of several), "0/3/0/3".
std::optional<std::int64_t> read_least(std::string_view text) {
  if (text.ends_with('+')) text.remove_suffix(1);
  return read_number<std::int64_t>(text);
}

constexpr std::string_view kCommands[] = {
    "sbatch: ", "squeue: ", "sinfo: ", "scancel: ", "scontrol: "};

// What a command of Slurm's said, without its name: a site's own plugin gives its reason before the
// refusal. Else the last line: those before it may be a login node's banner.
std::string words_of(std::string_view said) {
  std::string all;
  std::string_view last;
  for (std::string_view line : split(said, '\n')) {
    if (line.empty() || line.starts_with("Try \"")) continue;
    last = line;
    const auto* const command = std::ranges::find_if(
        kCommands, [&](std::string_view one) { return line.starts_with(one); });
    if (command == std::end(kCommands)) continue;
    line.remove_prefix(command->size());
    if (line.starts_with("error:")) line = trimmed(line.substr(line.find(':') + 1));
    if (std::ranges::none_of(line, is_alphanumeric)) continue;  // a ruler
    all += fmt::format("{}{}", all.empty() ? "" : "; ", line);
  }
  return all.empty() ? std::string(last) : all;
}

ApiError no_slurm(std::string message) {
  return {.refusal = Refusal::invalid,
          .heard = Heard::not_sent,
          .message = std::move(message),
          .own_kind = ErrorKind::unsupported,
          .hint = "open the pool on a login node of the cluster, or name one: login=\"me@login\""};
}

// What Slurm answered instead of doing it.
ApiError refusal_of(const Words& words, const io::CommandResult& ran, const std::string& login) {
  const std::string_view said = ran.err;
  ApiError out{.refusal = Refusal::invalid, .heard = Heard::answered, .message = words_of(said)};
  if (out.message.empty()) {
    out.message = fmt::format("'{}' ended with {}", words.front(), ran.status.describe());
  }
  if (contains_any(said, {"timed out", "Zero Bytes", "Communication connection failure"})) {
    out.refusal = Refusal::transient;
    out.heard = Heard::unknown;
    out.maybe_done = true;
  } else if (contains_any(said, {"Unable to contact slurm controller", "Connection refused",
                                 "establish control machine address", "Unable to resolve",
                                 "Controller busy", "try again later", "temporarily unable"})) {
    out.refusal = Refusal::transient;
    out.heard = Heard::not_sent;
    out.hint = "'scontrol ping' shows whether its controller runs";
  } else if (ran.status.code == kNoProgram || said.contains("configuration source")) {
    out = no_slurm(out.message);
    if (ran.status.code == kNoProgram && !login.empty()) {
      out.hint = fmt::format(
          "'ssh {} sbatch --version' must work: put Slurm's folder on the PATH in ~/.bashrc there, "
          "above the line that returns if the shell is not interactive",
          login);
    }
  } else if (contains_any(said, {"QOSMax", "AssocMax", "AssocGrp", "QOSGrp", "violates accounting",
                                 "job submit limit"})) {
    out.refusal = Refusal::quota;
    out.hint = "'sacctmgr show assoc user=$USER' shows the limits";
  } else if (contains_any(said, {"Invalid account", "not permitted", "Access/permission denied",
                                 "Access denied", "Invalid qos"})) {
    out.refusal = Refusal::auth;
    out.hint = "'sacctmgr show assoc user=$USER' shows the accounts and qos that you may use";
  } else if (contains_any(said, {"nvalid partition"})) {
    out.hint = "'sinfo -s' lists the partitions";
  } else if (contains_any(said, {"node configuration is not available", "gres"})) {
    out.hint = "no node has all of that: 'sinfo -o \"%P %c %m %G\"' shows what nodes have";
  } else if (contains_any(said, {"time limit"})) {
    out.hint = "'sinfo -o \"%P %l\"' shows the limits; lower time=";
  } else if (words.front() == "sbatch") {
    out.hint = "check partition=, account=, qos=, gres= and extra=: sbatch gets them as they are";
  }
  return out;
}

void option(Words& words, std::string_view name, std::string_view value) {
  if (!value.empty()) words.push_back(fmt::format("--{}={}", name, value));
}

}  // namespace

// ---- Pure

Result<Words> expand_nodes(std::string_view list) {
  Words out;
  if (list.empty()) return out;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t at = 0; at <= list.size(); ++at) {
    const char c = at < list.size() ? list[at] : ',';
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (depth < 0 || depth > 1) return no_list(list);
    if (c != ',' || (depth > 0 && at < list.size())) continue;
    if (!expand_part(list.substr(begin, at - begin), out) || out.size() > kMostNodes) {
      return no_list(list);
    }
    begin = at + 1;
  }
  return out;
}

Result<Duration> parse_time_limit(std::string_view text) {
  if (text == "infinite" || text == "UNLIMITED" || text == "n/a") return Duration{};
  const auto refused = [&] {
    return fail(ErrorKind::invalid, fmt::format("\"{}\" is not a time limit", text),
                "write days-hours:minutes:seconds, or part of it");
  };
  std::int64_t days = 0;
  const std::size_t dash = text.find('-');
  const bool has_days = dash != std::string_view::npos;
  if (has_days) {
    const auto read = read_number<std::int64_t>(text.substr(0, dash));
    if (!read || *read > 36'500) return refused();
    days = *read;
  }
  std::vector<std::int64_t> parts;
  for (const std::string_view part : split(has_days ? text.substr(dash + 1) : text, ':')) {
    const auto read = read_number<std::int64_t>(part);
    if (!read || *read > 100'000'000) return refused();
    parts.push_back(*read);
  }
  if (parts.size() > 3) return refused();
  // Behind days: hours first. Else: minutes alone, minutes and seconds, or all three.
  const std::size_t first = has_days || parts.size() == 3 ? 0 : 1;
  constexpr std::chrono::seconds kUnits[] = {1h, 1min, 1s};
  Duration out = days * 24h;
  for (std::size_t at = 0; at < parts.size(); ++at) {
    if (first + at > 2) return refused();
    out += parts[at] * kUnits[first + at];
  }
  return out;
}

Words sbatch_words(const JobRequest& request) {
  Words words{"sbatch",
              "--parsable",
              "--no-requeue",
              "--no-kill",
              "--export=NONE",
              "--chdir=/tmp",
              "--output=/dev/null",
              "--error=/dev/null",
              "--ntasks-per-node=1"};
  option(words, "job-name", request.name);
  option(words, "nodes", std::to_string(request.nodes));
  option(words, "partition", request.partition);
  option(words, "account", request.account);
  option(words, "qos", request.qos);
  if (request.cpus > 0) {
    option(words, "cpus-per-task", fmt::format("{:.0f}", std::ceil(request.cpus)));
  }
  if (request.memory_mb > 0) option(words, "mem", fmt::format("{}M", request.memory_mb));
  option(words, "gres", request.gres);
  if (request.time > Duration{}) {
    option(words, "time",
           std::to_string(std::chrono::ceil<std::chrono::minutes>(request.time).count()));
  }
  if (request.exclusive) words.emplace_back("--exclusive");
  option(words, "exclude", fmt::format("{}", fmt::join(request.exclude, ",")));
  words.insert(words.end(), request.extra.begin(), request.extra.end());
  return words;
}

std::vector<Job> parse_jobs(std::string_view out) {
  constexpr std::size_t kColumns = 7;
  std::vector<Job> jobs;
  for (const std::string_view line : split(out, '\n')) {
    const std::vector<std::string_view> columns = split(line, '|');
    if (columns.size() < kColumns) continue;
    const auto count = read_number<int>(columns[2]);
    auto names = expand_nodes(columns[4]);
    if (!read_number<std::uint64_t>(columns[0]) || !count || !names) continue;
    Job& job = jobs.emplace_back(Job{.id = std::string(columns[0]),
                                     .state = std::string(columns[1]),
                                     .nodes = *count,
                                     .names = *std::move(names),
                                     .reason = std::string(columns[5]),
                                     .name = std::string(columns[6])});
    if (columns[3] != "N/A") job.start = std::string(columns[3]);
    for (std::size_t at = kColumns; at < columns.size(); ++at) {
      job.name += fmt::format("|{}", columns[at]);  // the last column: it may hold anything
    }
  }
  return jobs;
}

std::vector<NodeGroup> parse_node_groups(std::string_view out) {
  std::vector<NodeGroup> groups;
  for (const std::string_view line : split(out, '\n')) {
    const std::vector<std::string_view> columns = split(line, '|');
    if (columns.size() != 7) continue;
    const std::vector<std::string_view> counts = split(columns[2], '/');  // busy, idle, other, all
    const auto cpus = read_least(columns[3]);
    const auto memory = read_least(columns[4]);
    const auto time = parse_time_limit(columns[6]);
    if (counts.size() != 4 || !cpus || !memory || !time) continue;
    const auto nodes = read_number<int>(counts[3]);
    if (!nodes) continue;
    std::string_view name = columns[0];
    const bool is_default = name.ends_with('*');
    if (is_default) name.remove_suffix(1);
    groups.push_back({.partition = std::string(name),
                      .is_default = is_default,
                      .up = columns[1] == "up",
                      .nodes = *nodes,
                      .cpus = static_cast<int>(*cpus),
                      .memory_mb = *memory,
                      .gres = columns[5] == "(null)" ? "" : std::string(columns[5]),
                      .most_time = *time});
  }
  return groups;
}

std::optional<ClusterUser> parse_user(std::string_view out) {
  const std::size_t mark = out.find(kUserMark);
  if (mark == std::string_view::npos) return std::nullopt;
  const auto lines = split(out.substr(mark + kUserMark.size()), '\n');
  ClusterUser user{.name = std::string(lines.front())};
  for (const std::string_view line : lines) {
    const std::size_t equal = line.find('=');
    if (equal == std::string_view::npos || trimmed(line.substr(0, equal)) != "ClusterName")
      continue;
    user.cluster = trimmed(line.substr(equal + 1));
  }
  return user.name.empty() || user.cluster.empty() ? std::nullopt : std::optional(user);
}

// ---- Requests

ApiResult<std::string> Api::ask(const Words& words, Time deadline, std::string_view input,
                                bool once) {
  ApiResult<std::string> out;
  (void)repeat_command(
      clock_,
      [&]() -> std::optional<ApiError> {
        out = ask_once(words, input, deadline);
        return out ? std::nullopt : std::optional(out.error());
      },
      deadline, kSoonRefused, once);
  return out;
}

ApiResult<std::string> Api::ask_once(const Words& words, std::string_view input, Time deadline) {
  const Duration left = std::min(deadline - clock_.now(), kLongestCommand);
  if (left <= Duration{}) {
    return std::unexpected(not_sent({ErrorKind::timeout, "no time is left for " + words.front(),
                                     "try again; 'scontrol ping' shows whether Slurm answers"}));
  }
  const auto ran = run_(words, input, left);
  if (!ran && ran.error().kind == ErrorKind::invalid) {
    return std::unexpected(no_slurm(ran.error().message));
  }
  if (!ran) return std::unexpected(no_answer(ran.error()));
  if (ran->status.signal == 0 && ran->status.code == 0) return ran->out;
  // sbatch ends with ssh's 255, too, and begins its lines with its name.
  const std::string name = words.front() + ": ";
  const bool is_slurms = ran->err.contains(": error: ") || ran->err.starts_with(name) ||
                         ran->err.contains("\n" + name);
  if (ran->status.signal != 0 || (ran->status.code == kSshFailed && !is_slurms)) {
    std::string said = words_of(ran->err);
    if (said.empty())
      said = fmt::format("'{}' ended with {}", words.front(), ran->status.describe());
    return std::unexpected(no_answer({ErrorKind::unavailable, std::move(said),
                                      "'ssh LOGIN' must work without a prompt; then try again"}));
  }
  return std::unexpected(refusal_of(words, *ran, login_));
}

ApiResult<ClusterUser> Api::user(Time deadline) {
  const std::string line = fmt::format("printf {} && id -un && scontrol show config", kUserMark);
  const auto out = ask({"sh", "-c", line}, deadline);
  if (!out) return std::unexpected(out.error());
  if (auto user = parse_user(*out)) {
    cluster_ = user->cluster;
    return *std::move(user);
  }
  return std::unexpected(
      no_answer({ErrorKind::unavailable, "'scontrol show config' names no cluster"}));
}

// A plugin of the site may have chosen it. Nobody would look for the job there.
ApiError Api::cancel_elsewhere(const std::string& id, const std::string& cluster, Time deadline) {
  const std::string clusters = "--clusters=" + cluster;
  const auto done = ask({"scancel", "--quiet", clusters, id}, deadline);
  ApiError out{.refusal = Refusal::invalid,
               .heard = Heard::answered,
               .message = fmt::format("sbatch sent job {} to the cluster {}, not to {}", id,
                                      cluster, cluster_),
               .hint = "name a login node of that cluster: login=\"me@login\""};
  if (!done) {
    out.message += "; it was not cancelled: " + done.error().message;
    out.hint = fmt::format("run 'scancel {} {}'; then {}", clusters, id, out.hint);
  }
  return out;
}

// "17", or "17;cluster" where there are several.
ApiResult<std::string> Api::submit(const JobRequest& request, Time deadline) {
  const auto out = ask(sbatch_words(request), deadline, request.script, true);
  if (!out) return out;
  const std::vector<std::string_view> reply = split(split(trimmed(*out), '\n').back(), ';');
  const std::string id(reply.front());
  if (!read_number<std::uint64_t>(id)) {
    return std::unexpected(
        no_answer({ErrorKind::unavailable, fmt::format("sbatch answered \"{}\"", trimmed(*out))}));
  }
  const std::string cluster(reply.size() > 1 ? reply[1] : "");
  if (!cluster.empty() && !cluster_.empty() && lower(cluster) != lower(cluster_)) {
    return std::unexpected(cancel_elsewhere(id, cluster, deadline));
  }
  return id;
}

ApiResult<std::vector<Job>> Api::jobs(Time deadline) {
  const auto out = ask({"env", "SLURM_TIME_FORMAT=standard", "squeue", "--noheader", "--me",
                        "--states=all", "--format=%i|%T|%D|%S|%N|%r|%j"},
                       deadline);
  if (!out) return std::unexpected(out.error());
  return parse_jobs(*out);
}

ApiResult<void> Api::cancel(const Words& ids, Time deadline) {
  if (ids.empty()) return {};
  Words words{"scancel", "--quiet"};
  words.insert(words.end(), ids.begin(), ids.end());
  const auto out = ask(words, deadline);
  if (!out && !out.error().message.contains("Invalid job id") &&
      !out.error().message.contains("already complet")) {
    return std::unexpected(out.error());
  }
  return {};
}

// It writes a script for users to the directory in which it runs.
ApiResult<void> Api::shrink(const std::string& id, const Words& nodes, Time deadline) {
  const std::string line = fmt::format(
      "d=$(mktemp -d) && cd \"$d\" && scontrol update JobId={} NodeList={}; r=$?; "
      "cd / && rm -rf \"$d\"; exit $r",
      id, fmt::join(nodes, ","));
  const auto out = ask({"sh", "-c", line}, deadline);
  if (!out) return std::unexpected(out.error());
  return {};
}

ApiResult<std::vector<NodeGroup>> Api::node_groups(Time deadline) {
  const auto out = ask({"sinfo", "--noheader", "--format=%P|%a|%F|%c|%m|%G|%l"}, deadline);
  if (!out) return std::unexpected(out.error());
  return parse_node_groups(*out);
}

}  // namespace skyward::provider::slurm

#include "skyward/provider/container/container_api.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>

#include "skyward/base/text.h"
#include "skyward/provider/keeping/keeping.h"

namespace skyward::provider::container {

namespace {

using namespace std::chrono_literals;

constexpr Duration kLongestCommand = 60s;
// Of a container whose image has to be unpacked or mapped to a user's ids first.
constexpr Duration kLongestStart = 5min;
constexpr Duration kLongestPull = 1h;  // 20 GB at 45 Mbit/s
// A command that takes longer to fail is not repeated: nobody answers.
constexpr Duration kSoonRefused = 5s;
// podman asks a container to end before it kills it. What is removed has nothing left to do.
constexpr const char* kStopTimeout = "--stop-timeout=1";

// Before a host's name: a shell's profile may have printed something.
constexpr std::string_view kHostMark = "skyward-host=";
constexpr const char* kPodmanHost =
    "--format=skyward-host={{.Host.Hostname}}|{{.Host.CPUs}}|{{.Host.MemTotal}}|{{.Host.Arch}}|"
    "{{.Store.GraphRoot}}";
constexpr const char* kDockerHost =
    "--format=skyward-host={{.Name}}|{{.NCPU}}|{{.MemTotal}}|{{.Architecture}}|"
    "{{.DockerRootDir}}|{{.ID}}";
constexpr const char* kInspect =
    "--format={{.Name}}|{{.State.Status}}|{{.State.ExitCode}}|{{.State.OOMKilled}}|"
    "{{.HostConfig.NetworkMode}}|{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}";
constexpr const char* kGpus =
    "nvidia-smi --query-gpu=index,name,memory.total --format=csv,noheader,nounits 2>/dev/null || "
    "true";
constexpr const char* kLinger =
    "[ $(id -u) -eq 0 ] || loginctl show-user \"$(id -un)\" --property=Linger 2>/dev/null || true";
constexpr const char* kWhichRuntime = "command -v podman || command -v docker || true";

std::int64_t number_in(std::string_view text) {
  std::int64_t out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

bool has_failed(const io::CommandResult& ran) {
  return ran.status.signal != 0 || ran.status.code != 0;
}

// Some versions of docker say on stderr that they reach no daemon, and end with 0.
bool has_failed_to_tell(const io::CommandResult& ran) {
  return has_failed(ran) || (!read_host(ran.out) && !trimmed(ran.err).empty());
}

constexpr const char* kKeeper = R"sh(
trap 'rm -rf "$d"; exit 0' TERM INT
mkdir -m 700 "$d" && true >"$d/claimed" || exit 1
{ sleep $life; touch "$d/over"; } >/dev/null 2>&1 3<&- &
)sh";

}  // namespace

// ---- Pure

std::optional<EngineHost> read_host(std::string_view out) {
  const std::size_t mark = out.find(kHostMark);
  if (mark == std::string_view::npos) return std::nullopt;
  const std::string_view line = split(out.substr(mark + kHostMark.size()), '\n').front();
  const auto columns = split(line, '|');
  if (columns.size() < 5) return std::nullopt;
  EngineHost host{.name = std::string(columns[0]),
                  .cpus = static_cast<int>(number_in(columns[1])),
                  .memory_mb = number_in(columns[2]) >> 20,
                  .storage = std::string(columns[4]),
                  .id = std::string(columns.size() > 5 ? columns[5] : "")};
  if (columns[3] == "amd64" || columns[3] == "x86_64") host.architecture = "x86_64";
  if (columns[3] == "arm64" || columns[3] == "aarch64") host.architecture = "arm64";
  return host.name.empty() || host.cpus < 1 || host.memory_mb < 1 ? std::nullopt
                                                                  : std::optional(host);
}

void read_gpus(std::string_view out, EngineHost& host) {
  for (const std::string_view line : split(out, '\n')) {
    const auto columns = split(line, ',');
    if (columns.size() < 3) continue;
    const std::int64_t megabytes = number_in(columns[2]);
    const bool has_none = columns[2] == "[N/A]";  // it shares that of the processor
    if (megabytes < 1 && !has_none) continue;
    host.gpus.push_back({.index = std::string(columns[0]),
                         .name = std::string(columns[1]),
                         .memory_gb = static_cast<double>(megabytes) / 1024});
  }
}

// docker begins names with '/'. Where containers share the host's network, they meet there.
std::vector<ContainerStatus> read_containers(std::string_view out) {
  std::vector<ContainerStatus> all;
  for (const std::string_view line : split(out, '\n')) {
    const auto columns = split(line, '|');
    if (columns.size() < 5) continue;
    const std::string_view name = columns[0].substr(columns[0].starts_with('/') ? 1 : 0);
    ContainerStatus one{.name = std::string(name),
                        .state = std::string(columns[1]),
                        .exit_code = static_cast<int>(number_in(columns[2])),
                        .out_of_memory = columns[3] == "true"};
    if (columns[4] == "host") {
      one.address = "127.0.0.1";
    } else if (columns.size() > 5) {
      one.address = columns[5].substr(0, columns[5].find(' '));
    }
    all.push_back(std::move(one));
  }
  return all;
}

Words run_words(const std::string& runtime, const ContainerRequest& request,
                const std::string& name, const Mark& mark) {
  Words out{"run",           "--detach",   "--rm",
            "--pull=never",  kStopTimeout, "--security-opt=no-new-privileges",
            "--name=" + name};
  for (const auto& [key, value] : to_tags(mark)) {
    if (key.contains(':')) out.push_back(fmt::format("--label={}={}", key, value));
  }
  if (!request.network.empty()) out.push_back("--network=" + request.network);
  // 0.00 would be no limit.
  if (request.cpus > 0) out.push_back(fmt::format("--cpus={:.2f}", std::max(request.cpus, 0.01)));
  if (request.memory_mb > 0) {
    out.push_back(fmt::format("--memory={}m", request.memory_mb));
    // Of memory and swap together: no swap.
    out.push_back(fmt::format("--memory-swap={}m", request.memory_mb));
  }
  if (request.shared_mb > 0) out.push_back(fmt::format("--shm-size={}m", request.shared_mb));
  if (runtime != kDocker) {
    for (const std::string& gpu : request.gpus) out.push_back("--device=nvidia.com/gpu=" + gpu);
  } else if (request.gpus == Words{kAllGpus}) {
    out.emplace_back("--gpus=all");
  } else if (!request.gpus.empty()) {  // a line of CSV, with a comma in its field
    out.push_back(fmt::format("--gpus=\"device={}\"", fmt::join(request.gpus, ",")));
  }
  // Whatever an image's own entry point is for, it is not this.
  out.insert(out.end(), {"--entrypoint=sh", request.image, "-c", request.keeper});
  return out;
}

std::string keeper_directory(const std::string& name) { return "/dev/shm/skyward-keeper-" + name; }

std::string keeper_script(const std::string& name, const KeeperTerms& terms, Duration life) {
  return keeper_settings(keeper_directory(name), terms) +
         fmt::format(" life={}", std::chrono::ceil<std::chrono::seconds>(life).count()) + kKeeper +
         kKeepWhileClaimed + "rm -rf \"$d\"\n";
}

// ---- Commands

ApiResult<io::CommandResult> Api::run_once(const Words& words, Time deadline) {
  const bool starts = words.size() > 1 && (words[1] == "run" || words[1] == "start");
  return run_by(run_, words, deadline, starts ? kLongestStart : kLongestCommand);
}

ApiResult<io::CommandResult> Api::run_by(const Runner& runner, const Words& words, Time deadline,
                                         Duration most) {
  const Duration left = std::min(deadline - clock_.now(), most);
  if (left <= Duration{}) {
    return std::unexpected(not_sent(
        {ErrorKind::timeout, fmt::format("no time is left for '{}'", words.front()), "try again"}));
  }
  auto ran = runner(words, {}, left);
  if (!ran && ran.error().kind == ErrorKind::invalid) return std::unexpected(no_runtime(access_));
  if (!ran) return std::unexpected(no_answer(ran.error()));
  return *std::move(ran);
}

ApiResult<std::string> Api::ask(const Words& words, Time deadline, IsFailure is_failure) {
  if (is_failure == nullptr) is_failure = has_failed;
  ApiResult<std::string> out;
  Words all{access_.runtime};
  all.insert(all.end(), words.begin(), words.end());
  (void)repeat_command(
      clock_,
      [&]() -> std::optional<ApiError> {
        auto ran = run_once(all, deadline);
        if (!ran) {
          out = std::unexpected(ran.error());
        } else if (is_failure(*ran)) {
          out = std::unexpected(
              refusal_of(fmt::format("{} {}", all[0], words.front()), *ran, access_));
        } else {
          out = std::move(ran->out);
        }
        const bool is_final =
            out || out.error().code == kOff || out.error().refusal == Refusal::conflict;
        return is_final ? std::nullopt : std::optional(out.error());
      },
      deadline, kSoonRefused);
  return out;
}

ApiResult<std::string> Api::runtime(Time deadline) {
  const auto ran = run_once({"sh", "-c", kWhichRuntime}, deadline);
  if (!ran) return std::unexpected(ran.error());
  if (has_failed(*ran)) return std::unexpected(refusal_of("ssh", *ran, access_));
  const std::string_view path = trimmed(ran->out);
  return std::string(path.substr(path.rfind('/') + 1));
}

ApiResult<EngineHost> Api::host(Time deadline) {
  const auto out = ask({"info", access_.runtime == kDocker ? kDockerHost : kPodmanHost}, deadline,
                       has_failed_to_tell);
  if (!out) {  // nothing was asked for that could be wrong
    ApiError why = out.error();
    if (why.kind() == ErrorKind::invalid) why.own_kind = ErrorKind::unavailable;
    return std::unexpected(std::move(why));
  }
  auto host = read_host(*out);
  if (!host) {
    return std::unexpected(
        no_answer({ErrorKind::unavailable,
                   fmt::format("'{} info' does not say what its host has", access_.runtime),
                   fmt::format("'{} info' must work in a shell", access_.runtime)}));
  }
  const auto gpus = run_once({"sh", "-c", kGpus}, deadline);
  if (gpus) read_gpus(gpus->out, *host);
  return *std::move(host);
}

ApiResult<bool> Api::ends_at_logout(Time deadline) {
  if (access_.runtime != kPodman || !access_.host) return false;
  const auto ran = run_once({"sh", "-c", kLinger}, deadline);
  if (!ran) return std::unexpected(ran.error());
  return trimmed(ran->out) == "Linger=no";
}

ApiResult<void> Api::network(const std::string& name, Time deadline) {
  const auto out = ask({"network", "inspect", "--format={{.Driver}}", name}, deadline);
  if (!out) return std::unexpected(out.error());
  return {};
}

ApiResult<bool> Api::has_image(const std::string& image, Time deadline) {
  const auto out = ask({"image", "inspect", "--format={{.Id}}", image}, deadline);
  if (out) return true;
  if (out.error().heard == Heard::answered) return false;
  return std::unexpected(out.error());
}

ApiResult<void> Api::pull(const std::string& image, Time deadline) {
  const auto ran =
      run_by(pull_, {access_.runtime, "pull", "--quiet", image}, deadline, kLongestPull);
  if (!ran) {
    ApiError why = ran.error();
    if (why.kind() == ErrorKind::timeout) {
      why.heard = Heard::not_sent;  // nothing was created
      why.maybe_done = false;
      why.message = fmt::format("pulling the image {}: {}", image, why.message);
      why.hint = fmt::format("run '{} pull {}' {} first", access_.runtime, image,
                             access_.host ? "there" : "by hand");
    }
    return std::unexpected(std::move(why));
  }
  if (!has_failed(*ran)) return {};
  ApiError why = refusal_of(access_.runtime + " pull", *ran, access_);
  if (why.code != kOff && why.refusal != Refusal::auth) {
    why.hint = pull_hint(why.message, access_);
    why.refusal = Refusal::invalid;
    why.heard = Heard::not_sent;  // nothing was created
    why.maybe_done = false;
    why.own_kind = ErrorKind::invalid;
    why.message = fmt::format("the image {} cannot be pulled: {}", image, why.message);
    if (why.hint.empty()) {
      why.hint = fmt::format(
          "check image=; '{0} pull {1}' must work{2}; '{0} login' is for private registries",
          access_.runtime, image, access_.host ? " there" : " in a shell");
    }
  }
  return std::unexpected(std::move(why));
}

// One of this name was made by an earlier try.
ApiResult<void> Api::create(const ContainerRequest& request, const std::string& name,
                            const Mark& mark, Time deadline) {
  auto out = ask(run_words(access_.runtime, request, name, mark), deadline);
  if (!out && out.error().refusal == Refusal::conflict) out = ask({"start", name}, deadline);
  if (!out) return std::unexpected(out.error());
  return {};
}

ApiResult<std::vector<ContainerStatus>> Api::containers(const std::string& pool, Time deadline) {
  const std::string mark =
      pool.empty() ? fmt::format("{}=true", kManagedTag) : fmt::format("{}={}", kPoolTag, pool);
  const auto out =
      ask({"ps", "--all", "--no-trunc", "--filter=label=" + mark, "--format={{.Names}}"}, deadline);
  if (!out) return std::unexpected(out.error());
  Words names;
  for (const std::string_view line : split(*out, '\n')) {
    if (!line.empty()) names.emplace_back(line);
  }
  return look_at(names, deadline);
}

// Both print those that they find, whatever else there is not.
ApiResult<std::vector<ContainerStatus>> Api::look_at(const Words& names, Time deadline) {
  std::vector<ContainerStatus> out;
  if (names.empty()) return out;
  Words words{access_.runtime, "container", "inspect", kInspect};
  words.insert(words.end(), names.begin(), names.end());
  const auto trouble = repeat_command(
      clock_,
      [&]() -> std::optional<ApiError> {
        const auto ran = run_once(words, deadline);
        if (!ran) return ran.error();
        out = read_containers(ran->out);
        if (!has_failed(*ran)) return std::nullopt;
        ApiError why = refusal_of(access_.runtime + " container inspect", *ran, access_);
        return why.refusal == Refusal::not_found ? std::nullopt : std::optional(std::move(why));
      },
      deadline, kSoonRefused);
  if (trouble) return std::unexpected(*trouble);
  return out;
}

ApiResult<Words> Api::remove(const Words& names, Time deadline) {
  Words heard;
  if (names.empty()) return heard;
  Words words{access_.runtime, "rm", "--force", "--volumes"};
  words.insert(words.end(), names.begin(), names.end());
  const auto trouble = repeat_command(
      clock_,
      [&]() -> std::optional<ApiError> {
        const auto ran = run_once(words, deadline);
        if (!ran) return ran.error();
        for (const std::string_view line : split(ran->out, '\n')) {
          if (std::ranges::find(names, line) != names.end()) heard.emplace_back(line);
        }
        if (!has_failed(*ran)) return std::nullopt;
        ApiError why = refusal_of(access_.runtime + " rm", *ran, access_);
        return why.refusal == Refusal::not_found ? std::nullopt : std::optional(std::move(why));
      },
      deadline, kSoonRefused);
  if (trouble) return std::unexpected(*trouble);
  return heard;
}

}  // namespace skyward::provider::container

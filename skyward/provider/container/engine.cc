#include "skyward/provider/container/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "skyward/base/text.h"

namespace skyward::provider::container {

namespace {

constexpr int kNoProgram = 127;
constexpr int kSshFailed = 255;
// Of a pool in the ledger, where "host" is the computer that opened it.
constexpr const char* kHostSetting = "engine_host";

// What podman and docker say, and what it means.
struct Sign {
  std::string_view words{};
  std::string_view also{};
  Refusal refusal = Refusal::invalid;
  std::string_view hint{};  // "{}" is the runtime
  bool of_pulls = false;
};

constexpr Sign kSigns[] = {
    {.words = "permission denied while trying to connect",
     .refusal = Refusal::auth,
     .hint = "add yourself to the group \"docker\" and log in again, or use runtime=\"podman\", "
             "which needs no such permission"},
    {.words = "can't evaluate field",
     .hint = "if docker is an alias of podman, use runtime=\"podman\""},
    {.words = "no such container", .refusal = Refusal::not_found, .hint = "'{} ps' lists them"},
    {.words = "removal of container",
     .also = "already in progress",
     .refusal = Refusal::not_found,
     .hint = "'{} ps --all' shows when it is gone"},
    {.words = "is already in use", .refusal = Refusal::conflict, .hint = "try again"},
    {.words = "cdi device",
     .hint = "install NVIDIA's container toolkit on the engine's host, and run 'sudo nvidia-ctk "
             "cdi generate --output=/etc/cdi/nvidia.yaml' there"},
    {.words = "could not select device driver",
     .hint = "install NVIDIA's container toolkit on the engine's host, and run 'sudo nvidia-ctk "
             "runtime configure --runtime=docker' there"},
    {.words = "network",
     .also = "not found",
     .hint = "'{} network ls' lists the networks; name one of them: network="},
    {.words = "no space left on device",
     .hint = "'{0} system df' shows what fills the disk, and '{0} system prune' frees what is "
             "unused",
     .of_pulls = true},
    {.words = "cannot allocate memory",
     .hint = "the engine's host has no memory left: ask for fewer nodes, or for less in each"},
    {.words = "range of cpus", .hint = "ask for less: vcpus="},
    {.words = "minimum memory limit", .hint = "ask for more: memory_gb="},
    {.words = "exec format error",
     .hint = "the container image is for another architecture: use another one with image="},
    {.words = "short-name",
     .hint = "podman has no registry set up for this name: add it to image=, such as "
             "\"docker.io/library/python:3.12-slim\"",
     .of_pulls = true},
    {.words = "toomanyrequests",
     .hint = "the registry limits pulls without a login: '{} login', or try again later",
     .of_pulls = true},
    {.words = "executable file",
     .hint = "the container image needs sh and bash: use another one with image="},
    {.words = "controller",
     .hint = "this engine may not limit what containers use: leave out vcpus= and memory_gb=, or "
             "let systemd delegate the controllers of control groups to your user"},
};

// What a pull says has the image's name in it, which may be any word.
const Sign* find_sign(std::string_view line, bool is_pull = false) {
  const std::string words = lower(line);
  const auto* const found = std::ranges::find_if(kSigns, [&](const Sign& sign) {
    return (sign.of_pulls || !is_pull) && words.contains(sign.words) && words.contains(sign.also);
  });
  return found == std::end(kSigns) ? nullptr : found;
}

std::string runtime_of(const Access& access) {
  return access.runtime.empty() ? kPodman : access.runtime;
}

std::string hint_of(const Sign& sign, const Access& access) {
  return fmt::format(fmt::runtime(sign.hint), runtime_of(access));
}

// Without what every such line begins with.
std::string words_of(std::string_view line) {
  for (const std::string_view begin :
       {"docker: ", "Error: ", "Error response from daemon: ", "error during connect: "}) {
    if (line.starts_with(begin)) line.remove_prefix(begin.size());
  }
  return std::string(line);
}

// The line in which it refuses something: not its log, nor the advice after it.
std::string_view refusal_in(std::string_view err) {
  std::string_view first;
  while (!err.empty()) {
    const std::string_view line = trimmed(err.substr(0, err.find('\n')));
    err.remove_prefix(std::min(err.size(), std::min(err.find('\n'), err.size()) + 1));
    if (line.starts_with("Error") || line.starts_with("docker: ")) return line;
    const bool is_aside = line.empty() || line.starts_with("time=") || line.starts_with("WARN") ||
                          line.starts_with("Emulate Docker CLI");
    if (first.empty() && !is_aside) first = line;
  }
  return first;
}

}  // namespace

Words Access::words(const Words& command) const {
  return host ? through(ssh_command(*host, {}), command) : command;
}

Words Access::words_to(const Words& command) const {
  return host ? call_through(ssh_command(*host, {}), command) : command;
}

std::vector<std::pair<std::string, std::string>> Access::environment() const {
  if (!host) return {};
  return {{"SSH_ASKPASS_REQUIRE", "never"}};
}

std::string Access::text() const {
  const std::string program = runtime.empty() ? "podman or docker" : runtime;
  return host ? fmt::format("{} at {}", program, host->text()) : program;
}

Result<Access> find_access(const ProviderSpec& spec) {
  Access out{.runtime = spec.setting("runtime")};
  const std::string host = spec.setting("host");
  if (host.empty()) return out;
  auto target = parse_ssh_target(host);
  if (!target) {
    Error why = std::move(target.error());
    why.message = "Containers: host: " + why.message;
    return std::unexpected(std::move(why));
  }
  out.host = *std::move(target);
  return out;
}

Access access_of(const LedgerPool& pool) {
  Access out{.runtime = pool.setting("runtime")};
  const std::string host = pool.setting(kHostSetting);
  if (host.empty()) return out;
  if (auto target = parse_ssh_target(host)) out.host = *std::move(target);
  return out;
}

std::map<std::string, std::string> way_back_of(const Access& access) {
  std::map<std::string, std::string> out{{"runtime", access.runtime}};
  if (access.host) out[kHostSetting] = access.host->text();
  return out;
}

Runner runner_of(const World& world, const Access& access, std::stop_token stop) {
  return [access, stop = std::move(stop), run = world.run_with_input](
             const Words& words, std::string_view input, Duration timeout) {
    io::SpawnOptions options;
    options.command = access.words(words);
    options.environment = access.environment();
    options.stop = stop;
    return run(options, timeout, input);
  };
}

std::string runtime_here(const World& world) {
  for (const char* name : {kPodman, kDocker}) {
    if (has_program(world, name)) return name;
  }
  return {};
}

ApiError no_runtime(const Access& access) {
  const std::string where = access.host ? access.host->text() : "this computer";
  return {.refusal = Refusal::invalid,
          .heard = Heard::not_sent,
          .message = access.runtime.empty()
                         ? fmt::format("there is neither podman nor docker on {}", where)
                         : fmt::format("there is no {} on {}", access.runtime, where),
          .own_kind = ErrorKind::unsupported,
          .hint = access.runtime.empty() || access.runtime == kPodman
                      ? "install podman: it needs no daemon and no configuration"
                      : "install docker, or use runtime=\"podman\""};
}

Status is_reachable(const World& world, const Access& access) {
  if (access.host) return {};
  const bool has_it =
      access.runtime.empty() ? !runtime_here(world).empty() : has_program(world, access.runtime);
  if (has_it) return {};
  return std::unexpected(to_error(no_runtime(access), kContainers));
}

std::string pull_hint(std::string_view line, const Access& access) {
  const Sign* const sign = find_sign(line, true);
  return sign == nullptr ? "" : hint_of(*sign, access);
}

ApiError meaning_of(std::string_view line, const Access& access) {
  ApiError out{.refusal = Refusal::invalid, .heard = Heard::answered, .message = words_of(line)};
  const std::string runtime = runtime_of(access);
  const std::string words = lower(line);
  if (contains_any(words,
                   {"cannot connect to the docker daemon", "failed to connect to the docker api",
                    "cannot connect to podman", "unable to connect to podman"}) &&
      !words.contains("permission denied")) {
    out.refusal = Refusal::transient;
    out.heard = Heard::not_sent;
    out.code = kOff;
    out.hint = runtime == kDocker
                   ? "start it ('sudo systemctl start docker'); 'docker info' must work in a shell"
                   : "start it ('podman machine start'); 'podman info' must work in a shell";
    return out;
  }
  if (contains_any(words, {"error during connect", "connection reset", "unexpected eof", ": eof",
                           "broken pipe", "i/o timeout"})) {
    out.refusal = Refusal::transient;
    out.heard = Heard::unknown;
    out.maybe_done = true;
    out.hint = fmt::format("'{} info' must work in a shell", runtime);
    return out;
  }
  out.hint = fmt::format("try the same with '{}' by hand to see more", runtime);
  if (const Sign* const sign = find_sign(line)) {
    out.refusal = sign->refusal;
    out.hint = hint_of(*sign, access);
  }
  return out;
}

ApiError refusal_of(std::string_view what, const io::CommandResult& ran, const Access& access) {
  const std::string_view line = refusal_in(ran.err);
  const bool is_ssh = access.host && ran.status.code == kSshFailed;
  if (ran.status.signal != 0 || is_ssh || line.empty()) {
    const std::string said = line.empty()
                                 ? fmt::format("'{}' ended with {}", what, ran.status.describe())
                                 : std::string(line);
    if (!is_ssh) return no_answer({ErrorKind::unavailable, said, "try again"});
    Error why = explain_ssh_error(*access.host, {}, {ErrorKind::unavailable, said, {}});
    if (why.hint.empty()) {
      why.hint = fmt::format("'ssh {}' must work without a prompt", access.host->text());
    }
    ApiError out = no_answer(why);
    const auto permanent = permanent_ssh_errors();
    const bool is_final =
        std::ranges::any_of(permanent, [&](const std::string& one) { return said.contains(one); });
    if (is_final) out = not_sent({ErrorKind::denied, why.message, why.hint});
    return out;
  }
  if (ran.status.code == kNoProgram && access.host && line.contains(access.runtime) &&
      line.contains("not found") && !line.contains("executable file")) {
    return no_runtime(access);
  }
  return meaning_of(line, access);
}

}  // namespace skyward::provider::container

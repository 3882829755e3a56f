#pragma once

// The user's own podman or docker: where it runs, and what its refusals mean.

#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/provider/keeping/commands.h"
#include "skyward/provider/ledger.h"
#include "skyward/provider/ssh/command.h"
#include "skyward/provider/world.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider::container {

inline constexpr const char* kProvider = "container";
inline constexpr const char* kContainers = "Containers";  // as messages name them
inline constexpr const char* kPodman = "podman";
inline constexpr const char* kDocker = "docker";

struct Access {
  std::string runtime{};            // "podman", "docker"; empty: the one that is there
  std::optional<SshTarget> host{};  // none: this computer

  // A command as it is run here.
  Words words(const Words& command) const;
  // The same for a command that takes one more word: a line for a shell in a container.
  Words words_to(const Words& command) const;
  std::vector<std::pair<std::string, std::string>> environment() const;
  // "podman", "docker at ssh://host"
  std::string text() const;

  bool operator==(const Access&) const = default;
};

// Fails with `invalid` when the settings `runtime` and `host` name none.
Result<Access> find_access(const ProviderSpec& spec);
Access access_of(const LedgerPool& pool);
// The settings of a pool in the ledger that lead back.
std::map<std::string, std::string> way_back_of(const Access& access);

// `stop` ends what runs.
Runner runner_of(const World& world, const Access& access, std::stop_token stop = {});

// Fails with `unsupported` where this computer has neither program, or not the one that is asked
// for. Starts nothing.
Status is_reachable(const World& world, const Access& access);
// Which of the two this computer has, podman first; empty: none.
std::string runtime_here(const World& world);
ApiError no_runtime(const Access& access);

// The engine is switched off: waiting does not help.
inline constexpr const char* kOff = "not running";

// What a line of the runtime's means, without what every such line begins with.
ApiError meaning_of(std::string_view line, const Access& access);
// What helps when a pull says this; empty: nothing in particular.
std::string pull_hint(std::string_view line, const Access& access);
// The meaning for a command that failed. `what` is its first word.
ApiError refusal_of(std::string_view what, const io::CommandResult& ran, const Access& access);

}  // namespace skyward::provider::container

#include "skyward/provider/keeping/commands.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "skyward/provider/retry.h"
#include "skyward/provider/shell_line.h"
#include "skyward/spec/image.h"

namespace skyward::provider {

namespace {

using namespace std::chrono_literals;

// Before a command is repeated; the last one is as long as this.
constexpr Duration kFirstPause = 500ms;
constexpr Duration kLongestPause = 4s;

// $1: the beginning of a line; then a command, and last the word that ends the line.
constexpr const char* kQuoteLast = R"sh(
line=$1
shift
for last; do :; done
quoted=$(printf '%s.' "$last" | sed "s/'/'\\\\''/g")
left=$#
for word; do
  shift
  left=$((left - 1))
  [ $left -eq 0 ] || set -- "$@" "$word"
done
exec "$@" "$line '${quoted%.}'"
)sh";

}  // namespace

CommandClock command_clock(const World& world) {
  // Half of it at random: many users may have met the same trouble at once.
  return {.now = world.now, .pause = [world](Duration time) {
            const RetryRules rules{.first_pause = time / 2, .longest_pause = time / 2};
            world.pause(time / 2 + retry_pause(rules, 1, world.random_bits()), {});
          }};
}

bool has_program(const World& world, std::string_view name) {
  std::string rest = world.variable("PATH").value_or("");
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (world.exists(rest.substr(0, end) + "/" + std::string(name))) return true;
    rest.erase(0, std::min(end + 1, rest.size()));
  }
  return false;
}

std::optional<ApiError> repeat_command(const CommandClock& clock, const CommandRun& attempt,
                                       Time deadline, Duration most, bool once) {
  bool maybe_done = false;  // by some try
  for (Duration pause = kFirstPause;; pause *= 2) {
    const Time begun = clock.now();
    auto trouble = attempt();
    if (trouble) {
      maybe_done = maybe_done || !is_certain(*trouble);
      trouble->maybe_done = maybe_done;
    }
    const bool again = trouble && trouble->kind() == ErrorKind::unavailable &&
                       (!once || is_certain(*trouble)) && clock.now() - begun <= most;
    if (!again || pause > kLongestPause || clock.now() + pause >= deadline) return trouble;
    clock.pause(pause);
  }
}

Words through(Words login, const Words& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    line += shell_quote(word);
  }
  if (!std::ranges::all_of(words, is_quotable)) {
    line = shell_line("exec " + line + " \"$@\"") + " sh";
  }
  login.push_back(std::move(line));
  return login;
}

Words call_through(const Words& login, const Words& words) {
  Words out{"sh", "-c", kQuoteLast, "skyward-login", through({}, words).front()};
  out.insert(out.end(), login.begin(), login.end());
  return out;
}

}  // namespace skyward::provider

#include "skyward/cli/run_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "skyward/io/ending_signals.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::cli {

namespace {

using namespace std::chrono_literals;

struct Rung {
  int signal = 0;  // 0: give up
  Duration patience{};
};
// A command that saves its work on Ctrl-C has some time to do so.
constexpr std::array kRungs = {
    Rung{.signal = io::kInterruptSignal, .patience = 10s},
    Rung{.signal = io::kTerminateSignal, .patience = Stopping::kTerminatePatience},
    Rung{.signal = io::kKillSignal, .patience = 5s},
    Rung{.signal = 0, .patience = 0s},
};

constexpr Duration kLongestFarewell = 60s;
constexpr Duration kSameSignal = 500ms;

struct Wording {
  std::string_view parameter;
  std::string_view option;
};
constexpr std::array kWordings = {
    Wording{"skyward::run::run_command: ", ""},
    Wording{" was lost while it ran this task", " was lost while it ran the command"},
    Wording{"a stream that has delivered items is not retried",
            "the command is not started again elsewhere, since it may have had effects; what it "
            "wrote is lost with its node"},
    Wording{"ComputePool(timeout=seconds)", "--timeout SECONDS"},
    Wording{"limit the pool with timeout=", "limit the run with --timeout"},
    Wording{"leave budget out", "leave --budget out"},
    Wording{"use a provider that rents such machines",
            "name a provider that rents such machines, for example --provider aws"},
    Wording{"open the pool again with a larger budget=", "run it again with a larger --budget"},
};
// These are options of the same name.
constexpr std::array<std::string_view, 10> kParameters = {
    "accelerator", "architecture", "budget", "cpu",  "machine",
    "memory",      "nodes",        "region", "spot", "timeout"};

// "nodes=3" becomes "--nodes 3", where it is a word of its own.
void name_option(std::string& text, std::string_view parameter) {
  constexpr std::string_view kBefore = " (\n";
  const std::string said = std::string(parameter) + "=";
  std::size_t at = 0;
  while ((at = text.find(said, at)) != std::string::npos) {
    const std::size_t behind = at + said.size();
    if (at > 0 && !kBefore.contains(text[at - 1])) {
      at = behind;
      continue;
    }
    const bool has_value =
        behind < text.size() && !std::string_view(" ,;.)").contains(text[behind]);
    const std::string option = "--" + std::string(parameter) + (has_value ? " " : "");
    text.replace(at, said.size(), option);
    at += option.size();
  }
}

constexpr std::size_t kLongestLine = std::size_t{64} << 10;

}  // namespace

int exit_code_of(int code, int signal) {
  constexpr int kSignalled = 128;
  return signal != 0 ? kSignalled + signal : code;
}

int ending_signal(int code, int first) {
  if (first == 0) return 0;
  const std::array sent = {first, io::kInterruptSignal, io::kTerminateSignal, io::kKillSignal};
  const auto is_of = [code](int signal) { return code == exit_code_of(0, signal); };
  return std::ranges::any_of(sent, is_of) ? first : 0;
}

bool is_repeat(int signal, Time at, int first, Time first_at) {
  return signal == first && at < first_at + kSameSignal;
}

Time pool_clock(std::string_view provider, Time awake, Time with_sleep) {
  return provider_rents(provider) ? with_sleep : awake;
}

Duration farewell_of(Duration lifetime) { return std::min(kLongestFarewell, lifetime / 2); }

Time farewell_before_drain(double left_s, Time now) {
  return now + std::max(from_seconds(left_s) - kBeforeDrain, Duration{});
}

Duration saving_time(Duration left) { return left / 2; }

std::string in_options(std::string text) {
  for (const Wording& wording : kWordings) {
    std::size_t at = 0;
    while ((at = text.find(wording.parameter, at)) != std::string::npos) {
      text.replace(at, wording.parameter.size(), wording.option);
      at += wording.option.size();
    }
  }
  for (const std::string_view parameter : kParameters) name_option(text, parameter);
  return text;
}

Stopping::Step Stopping::take_step(Time now) {
  const Rung& rung = kRungs[std::min(next_, kRungs.size() - 1)];
  ++next_;
  const bool terminates = rung.signal == io::kTerminateSignal;
  const Duration patience = terminates ? terminate_patience_ : rung.patience;
  deadline_ = rung.signal == 0 ? kNever : now + patience;
  return {.signal = rung.signal, .give_up = rung.signal == 0};
}

Stopping::Step Stopping::ask(int signal, Time now, Duration patience) {
  if (next_ == 0 && signal != io::kInterruptSignal) next_ = 1;
  terminate_patience_ = patience;
  return take_step(now);
}

std::optional<Stopping::Step> Stopping::due(Time now) {
  if (next_ == 0 || now < deadline_) return std::nullopt;
  return take_step(now);
}

std::string PrefixedLines::add(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    if (std::exchange(after_return_, false) && bytes.front() == '\n') {
      out += '\n';
      bytes.remove_prefix(1);
      continue;
    }
    const std::size_t end = bytes.find_first_of("\r\n");
    begun_ += bytes.substr(0, end == std::string_view::npos ? end : end + 1);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    if (end == std::string_view::npos && begun_.size() < kLongestLine) break;
    out += prefix_ + begun_;
    if (end == std::string_view::npos) out += '\n';
    after_return_ = begun_.ends_with('\r');
    begun_.clear();
  }
  return out;
}

std::string PrefixedLines::finish() {
  std::string out = begun_.empty() ? "" : prefix_ + begun_ + "\n";
  begun_.clear();
  return out;
}

Result<std::map<std::string, std::string>> parse_variables(
    const std::vector<std::string>& said,
    const std::function<std::optional<std::string>(const char*)>& here) {
  std::map<std::string, std::string> values;
  for (const std::string& one : said) {
    const std::size_t equals = one.find('=');
    const std::string name = one.substr(0, equals);
    const auto value =
        equals == std::string::npos ? here(name.c_str()) : std::optional(one.substr(equals + 1));
    if (name.empty() || !value) {
      return fail(ErrorKind::invalid,
                  fmt::format("--env {}: {}", one,
                              name.empty() ? "the name is missing" : "it is not set here"),
                  "write NAME=VALUE, or NAME alone for a variable that is set here");
    }
    values[name] = *value;
  }
  return values;
}

std::optional<std::string> path_below(std::string_view root, std::string_view path) {
  if (root == "/") root = "";
  if (!path.starts_with(root) || path.size() < root.size() + 2 || path[root.size()] != '/') {
    return std::nullopt;
  }
  return std::string(path.substr(root.size() + 1));
}

}  // namespace skyward::cli

#pragma once

// What `skyward run` decides. Pure.

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"

namespace skyward::cli {

// As shells say it: 128 and the signal.
int exit_code_of(int code, int signal);
// By which signal a run with this exit code ends, so that shells leave their loops; 0: by none.
// `first`: the first that came to the run, or 0. It ends the run also where the command died of a
// later one, which Skyward sent.
int ending_signal(int code, int first);

// Whether a signal only repeats the first one: a terminal and a program that passes signals on may
// both deliver it.
bool is_repeat(int signal, Time at, int first, Time first_at);

// What a pool's end counts by: rented machines go on while this computer sleeps.
Time pool_clock(std::string_view provider, Time awake, Time with_sleep);
// How long before the end of the machines' lifetime a command is asked to end, so that what it
// wrote still comes back.
Duration farewell_of(Duration lifetime);
// When to ask it, in a pool that starts no more tasks, which signals are, in `left_s` seconds: so
// long before.
inline constexpr Duration kBeforeDrain = std::chrono::seconds(20);
Time farewell_before_drain(double left_s, Time now);
// How much of the time that is left a command has to save its work. The rest is for what it saved
// to come back.
Duration saving_time(Duration left);

// A text of Skyward's with the options of `skyward run` in place of the parameters of pools.
std::string in_options(std::string text);

// How a command that should end is asked to: SIGINT, SIGTERM, SIGKILL, each with its time; at last
// the pool is closed over it.
class Stopping {
 public:
  static constexpr Duration kTerminatePatience = std::chrono::seconds(5);
  struct Step {
    int signal = 0;
    bool give_up = false;
    bool operator==(const Step&) const = default;
  };
  bool has_begun() const { return next_ > 0; }
  // Somebody asks for the end with this signal. Each time after the first goes one step on.
  // `patience`: from SIGTERM to SIGKILL.
  Step ask(int signal, Time now, Duration patience = kTerminatePatience);
  // What is due by now.
  std::optional<Step> due(Time now);

 private:
  Step take_step(Time now);
  std::size_t next_ = 0;
  Time deadline_ = kNever;
  Duration terminate_patience_ = kTerminatePatience;
};

// Bytes of a stream as whole lines that begin with `prefix`. A line ends with '\n', '\r' or both,
// or is too long to be kept.
class PrefixedLines {
 public:
  explicit PrefixedLines(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string add(std::string_view bytes);
  // What is left of a line without an end.
  std::string finish();

 private:
  std::string prefix_;
  std::string begun_;
  bool after_return_ = false;  // a '\n' now belongs to the line before
};

// "NAME=VALUE", or "NAME" for the value that it has here. Fails with `invalid`.
Result<std::map<std::string, std::string>> parse_variables(
    const std::vector<std::string>& said,
    const std::function<std::optional<std::string>(const char*)>& here);

// `path` as a path below `root`; both absolute and without links. Empty when it is not below.
std::optional<std::string> path_below(std::string_view root, std::string_view path);

}  // namespace skyward::cli

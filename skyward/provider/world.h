#pragma once

// Everything that a provider uses of the machine it runs on: clock, environment variables, files,
// programs, network. Tests pass their own, so that they need no files, no network and no waiting.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/io/http.h"
#include "skyward/io/process.h"
#include "skyward/provider/ledger.h"

namespace skyward::provider {

struct World {
  // A variable of the environment; empty values count as not set. HOME has a value without one,
  // too.
  std::function<std::optional<std::string>(const char*)> variable;
  std::function<Result<std::string>(const std::string& path)> read_file;
  std::function<std::string()> directory;  // the working directory; empty if it is gone
  // A file that nobody else may have written (io/file.h).
  std::function<Result<std::string>(const std::string& path, bool follow_link)> read_safely;
  std::function<Result<std::string>(const std::string& path)> read_named;  // by the user (file.h)
  std::function<bool(const std::string& path)> exists;
  // Replaces a file, readable for this user alone.
  std::function<Status(const std::string& path, std::string_view text)> write_file;
  std::function<Result<io::CommandResult>(const io::SpawnOptions&, Duration timeout)> run;
  // The same with a text on standard input: for what may not stand on a command line.
  std::function<Result<io::CommandResult>(const io::SpawnOptions&, Duration timeout,
                                          std::string_view input)>
      run_with_input;
  // Shared by the parts of one provider, which run on one thread at a time.
  std::shared_ptr<io::Http> http;
  std::function<Time()> now;
  std::function<std::int64_t()> wall_s;  // seconds since 1970; people and NTP set this clock
  // Since this computer booted. Nobody sets this one, and it goes on while the computer sleeps. Not
  // comparable with now().
  std::function<Time()> time_with_sleep;
  // Waits so long, or until stop is requested.
  std::function<void(Duration, const std::stop_token&)> pause;
  // Stopped when no more machines are needed: a running launch checks it, and releases what it has.
  // Copies of a world share it.
  std::stop_source launching;
  std::function<void()> meanwhile{};                  // Provider::set_meanwhile()
  std::function<void(const std::string&)> tell{};     // Provider::set_tell()
  std::function<std::string(int digits)> random_hex;  // of what must be unique
  std::function<std::uint64_t()> random_bits;         // of pauses
  // Opens the ledger in this file (ledger.h).
  std::function<Result<std::unique_ptr<Ledger>>(const std::string& path)> open_ledger;
};

World world_of_this_process();

// When this computer booted, in seconds since 1970 as its clock is set now.
std::int64_t booted_s(const World& world);

// Waits so long, or until no more machines are needed. What must not wait as long is done
// meanwhile.
void wait_while_launching(const World& world, Duration duration);

// Before a refused request for machines is repeated: waits for `pause`. False if the refusal
// stands: `until` comes first, or no more machines are needed.
bool wait_to_launch_again(const World& world, Duration pause, Time until);

// $HOME, or empty.
std::string home_directory(const World& world);

// Where Skyward keeps what can be made or fetched again: "$XDG_CACHE_HOME/skyward" or
// "~/.cache/skyward". Empty when there is no home.
std::string cache_directory(const World& world);

// Where Skyward keeps what must not be lost: "$XDG_STATE_HOME/skyward" or "~/.local/state/skyward".
// Empty when there is no home.
std::string state_directory(const World& world);

}  // namespace skyward::provider

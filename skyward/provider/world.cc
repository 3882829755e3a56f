#include "skyward/provider/world.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>

#include "skyward/io/event_loop.h"
#include "skyward/io/file.h"
#include "skyward/io/machine.h"
#include "skyward/io/own_process.h"

namespace skyward::provider {

World world_of_this_process() {
  World world;
  world.variable = [](const char* name) -> std::optional<std::string> {
    if (std::string_view(name) != "HOME") return io::environment_variable(name);
    const std::string home = io::home_directory();
    return home.empty() ? std::nullopt : std::optional(home);
  };
  world.read_file = [](const std::string& path) { return io::read_file(path); };
  world.directory = [] { return io::working_directory(); };
  world.read_safely = [](const std::string& path, bool follow_link) {
    return io::read_safely(path, follow_link);
  };
  world.read_named = [](const std::string& path) { return io::read_named(path); };
  world.exists = [](const std::string& path) { return io::exists(path); };
  world.write_file = [](const std::string& path, std::string_view text) {
    return io::write_private_file(path, text);
  };
  world.run = [](const io::SpawnOptions& options, Duration timeout) {
    return io::run_command(options, timeout);
  };
  world.run_with_input = [](const io::SpawnOptions& options, Duration timeout,
                            std::string_view input) {
    return io::run_command(options, timeout, input);
  };
  world.http = io::make_http();
  world.now = [] { return io::EventLoop::now(); };
  world.wall_s = [] { return io::EventLoop::wall_us() / 1'000'000; };
  world.time_with_sleep = io::time_with_sleep;
  world.pause = io::pause_thread;
  world.random_hex = [](int digits) { return io::random_hex(digits); };
  world.random_bits = [] {
    const std::string digits = io::random_hex(16);
    std::uint64_t bits = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
    return bits;
  };
  world.open_ledger = [](const std::string& path) { return Ledger::open(path); };
  return world;
}

std::int64_t booted_s(const World& world) {
  return world.wall_s() - world.time_with_sleep().time_since_epoch() / std::chrono::seconds(1);
}

void wait_while_launching(const World& world, Duration duration) {
  constexpr Duration kSlice = std::chrono::seconds(5);
  if (!world.meanwhile) return world.pause(duration, world.launching.get_token());
  const Time until = world.now() + duration;
  for (;;) {
    world.meanwhile();
    const Duration left = until - world.now();
    if (left <= Duration{} || world.launching.stop_requested()) return;
    world.pause(std::min(left, kSlice), world.launching.get_token());
  }
}

bool wait_to_launch_again(const World& world, Duration pause, Time until) {
  if (until - world.now() <= pause) return false;
  wait_while_launching(world, pause);
  return !world.launching.stop_requested();
}

std::string home_directory(const World& world) { return world.variable("HOME").value_or(""); }

std::string cache_directory(const World& world) {
  const auto cache = world.variable("XDG_CACHE_HOME");
  if (cache && cache->starts_with('/')) return *cache + "/skyward";
  const std::string home = home_directory(world);
  return home.starts_with('/') ? home + "/.cache/skyward" : std::string();
}

std::string state_directory(const World& world) {
  const auto state = world.variable("XDG_STATE_HOME");
  if (state && state->starts_with('/')) return *state + "/skyward";
  const std::string home = home_directory(world);
  return home.starts_with('/') ? home + "/.local/state/skyward" : std::string();
}

}  // namespace skyward::provider

#pragma once

// A world for tests: variables and files in maps, a clock that only pauses advance, replies that
// the test provides. Nothing of the machine is touched.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "skyward/provider/world.h"

namespace skyward::provider {

// Answers with a function and remembers what it was asked.
class ScriptedHttp final : public io::Http {
 public:
  using Answer = std::function<Result<io::HttpReply>(const io::HttpRequest&)>;

  Result<io::HttpReply> send(const io::HttpRequest& request, Time) override {
    requests.push_back(request);
    if (answer) return answer(request);
    return fail(ErrorKind::unavailable, "the test has no answer for " + request.url);
  }

  Answer answer;
  std::vector<io::HttpRequest> requests;
};

class WorldFixture {
 public:
  WorldFixture() {
    world.variable = [this](const char* name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      if (found == variables.end() || found->second.empty()) return std::nullopt;
      return found->second;
    };
    world.read_file = [this](const std::string& path) -> Result<std::string> {
      const auto found = files.find(path);
      if (found == files.end()) return fail(ErrorKind::invalid, "cannot read " + path + ": none");
      return found->second;
    };
    world.directory = [this] { return directory; };
    world.read_safely = [this](const std::string& path, bool) -> Result<std::string> {
      if (unsafe.contains(path)) return fail(ErrorKind::denied, path + " belongs to another user");
      if (unreadable.contains(path)) return fail(ErrorKind::denied, "cannot read " + path);
      if (hidden.contains(path)) return fail(ErrorKind::unavailable, "cannot search for " + path);
      return world.read_file(path);
    };
    world.read_named = [this](const std::string& path) -> Result<std::string> {
      if (writable.contains(path)) return fail(ErrorKind::denied, "others may write to " + path);
      if (unreadable.contains(path)) return fail(ErrorKind::denied, "cannot read " + path);
      return world.read_file(path);
    };
    world.exists = [this](const std::string& path) { return files.contains(path); };
    world.write_file = [this](const std::string& path, std::string_view text) -> Status {
      files[path] = text;
      return {};
    };
    world.run = [](const io::SpawnOptions& options, Duration timeout) {
      return io::run_command(options, timeout);
    };
    world.run_with_input = [this](const io::SpawnOptions& options, Duration,
                                  std::string_view input) -> Result<io::CommandResult> {
      started.push_back({options.command, options.unset, std::string(input)});
      return io::CommandResult{};
    };
    world.http = http;
    world.now = [this] { return now; };
    world.wall_s = [this] { return wall_s; };
    world.time_with_sleep = [this] { return world.now() + asleep + std::chrono::hours(5); };
    world.pause = [this](Duration duration, const std::stop_token& stop) {
      pauses.push_back(duration);
      if (!stop.stop_requested()) now += duration;
    };
    world.random_hex = [this](int digits) {
      std::string out = std::to_string(++random_count_);
      out.insert(0, static_cast<std::size_t>(digits) - out.size(), '8');
      return out;
    };
    world.random_bits = [] { return 0x8888'8888'8888'8888; };
    world.open_ledger = [](const std::string& path) { return Ledger::open(path); };
  }
  WorldFixture(const WorldFixture&) = delete;
  WorldFixture& operator=(const WorldFixture&) = delete;

  World world;
  std::map<std::string, std::string> variables{{"HOME", "/home"}};
  std::map<std::string, std::string> files;
  std::string directory = "/srv/project";
  std::set<std::string> unsafe;  // files that another user may have written
  std::set<std::string> unreadable;
  std::set<std::string> writable;  // of these, those that the user cannot name
  std::set<std::string> hidden;    // what is in a folder that may not be searched
  std::shared_ptr<ScriptedHttp> http = std::make_shared<ScriptedHttp>();
  Time now = Time{} + std::chrono::hours(1);
  Duration asleep{};  // how long this computer has slept, while `now` stood still
  std::int64_t wall_s = 1'700'000'000;
  std::vector<Duration> pauses;
  struct Started {
    std::vector<std::string> command;
    std::vector<std::string> unset;
    std::string input;
  };
  std::vector<Started> started;  // programs that got a text

 private:
  int random_count_ = 0;
};

}  // namespace skyward::provider

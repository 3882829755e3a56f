#pragma once

// A fake cloud in this process, with a clock of its own: it runs `speed` times as fast as ours, and
// jumps with advance(). With speed 0 only advance() and pauses move it, and a pause takes no real
// time: a test on it gives the same result on every machine.
//
// Pools find it by its name, which is in their ProviderSpec. It ends with its last owner: the test,
// or an open pool. Copies in forked children end nothing.

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>

#include "skyward/io/locked_directory.h"
#include "skyward/provider/fake/cloud.h"
#include "skyward/provider/world.h"

namespace skyward::provider::fake {

class Simulation {
 public:
  struct Options {
    CloudConfig config{};
    double speed = 60;
    std::function<Time()> clock{};  // this machine's clock; empty: its own
    std::string directory{};        // where its pools keep their state; removed at the end
    std::unique_ptr<io::LockedDirectory> held{};  // the same one, until then
  };
  // How a machine's process learns what happened. Called on any thread, one call at a time.
  struct MachineCallbacks {
    std::function<void(Duration left, std::string_view reason)> notice;  // `left`: our time
    std::function<void()> power_off;
  };

  static std::shared_ptr<Simulation> start(Options options);
  // Null when there is none of that name any more.
  static std::shared_ptr<Simulation> find(const std::string& name);
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  const std::string& name() const { return name_; }
  const std::string& directory() const { return options_.directory; }
  double speed() const { return options_.speed; }

  // `deed(cloud, now)`, with what it brings about; from any thread.
  template <typename Deed>
  auto ask(Deed deed);

  Time present();  // by its clock
  void advance(Duration duration);
  // Waits for so much of the cloud's time, or until stop is requested; with speed 0 it passes at
  // once.
  void pause(Duration duration, const std::stop_token& stop);
  // The moment of the cloud's time at which ours will be `here`.
  Time there(Time here);
  Duration here(Duration there) const;

  void plug(const std::string& machine, MachineCallbacks callbacks);
  void unplug(const std::string& machine);

  // A computer that rents here: the cloud's clock, and a place for its ledger.
  World computer(const std::string& state_directory);

 private:
  explicit Simulation(Options options);
  Time now_locked() const;
  void run_callbacks();
  void keep_time();

  const Options options_;
  const std::string name_;
  const Time started_;
  std::mutex mutex_;
  std::mutex callbacks_mutex_;  // never taken while mutex_ is held by the same thread
  std::condition_variable changed_;
  Duration jumped_{};
  bool ending_ = false;
  Cloud cloud_;
  Draws pause_draws_;
  std::map<std::string, MachineCallbacks> callbacks_;
  std::thread thread_;
};

template <typename Deed>
auto Simulation::ask(Deed deed) {
  using Reply = std::invoke_result_t<Deed, Cloud&, Time>;
  const auto locked = [&]() -> Reply {
    const std::scoped_lock lock(mutex_);
    const Time now = now_locked();
    cloud_.advance(now);
    return deed(cloud_, now);
  };
  if constexpr (std::is_void_v<Reply>) {
    locked();
    run_callbacks();
  } else {
    Reply reply = locked();
    run_callbacks();
    return reply;
  }
}

}  // namespace skyward::provider::fake

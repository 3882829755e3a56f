#include "skyward/provider/fake/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "skyward/io/event_loop.h"
#include "skyward/io/forks.h"
#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"

namespace skyward::provider::fake {

namespace {

using namespace std::chrono_literals;

constexpr int kNameDigits = 8;

// The fake clouds of this process, by name: a ProviderSpec is text, and comes back to its cloud
// here.
struct Known {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Simulation>> clouds;
};
Known& known() {
  static Known& all = *new Known;
  return all;
}

Simulation::Options completed(Simulation::Options options) {
  if (!options.clock) options.clock = [] { return io::EventLoop::now(); };
  return options;
}

}  // namespace

Simulation::Simulation(Options options)
    : options_(completed(std::move(options))),
      name_("fake-" + io::random_hex(kNameDigits)),
      started_(options_.clock()),
      cloud_(options_.config, started_),
      pause_draws_(options_.config.seed, Draws::kPauses) {
  if (options_.speed > 0) thread_ = std::thread([this] { keep_time(); });
}

Simulation::~Simulation() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (!options_.directory.empty()) (void)io::remove_tree(options_.directory);
  const std::scoped_lock lock(known().mutex);
  known().clouds.erase(name_);
}

std::shared_ptr<Simulation> Simulation::start(Options options) {
  // A forked child has no part in it: neither its thread nor its directory.
  const auto end = [generation = io::process_generation()](const Simulation* cloud) {
    if (io::process_generation() == generation) delete cloud;
  };
  std::shared_ptr<Simulation> made(new Simulation(std::move(options)), end);
  const std::scoped_lock lock(known().mutex);
  known().clouds[made->name_] = made;
  return made;
}

std::shared_ptr<Simulation> Simulation::find(const std::string& name) {
  const std::scoped_lock lock(known().mutex);
  const auto found = known().clouds.find(name);
  return found == known().clouds.end() ? nullptr : found->second.lock();
}

Time Simulation::now_locked() const {
  const auto passed =
      std::chrono::duration_cast<Duration>((options_.clock() - started_) * options_.speed);
  return started_ + passed + jumped_;
}

Time Simulation::present() {
  const std::scoped_lock lock(mutex_);
  return now_locked();
}

void Simulation::advance(Duration duration) {
  {
    const std::scoped_lock lock(mutex_);
    jumped_ += std::max(duration, Duration{});
    cloud_.advance(now_locked());
  }
  changed_.notify_all();
  run_callbacks();
}

void Simulation::pause(Duration duration, const std::stop_token& stop) {
  if (options_.speed > 0) return io::pause_thread(here(duration), stop);
  if (!stop.stop_requested()) advance(duration);
}

Duration Simulation::here(Duration there) const {
  if (options_.speed <= 0) return there;
  return std::chrono::duration_cast<Duration>(there / options_.speed);
}

Time Simulation::there(Time here) {
  if (here == kNever) return kNever;
  const double speed = options_.speed > 0 ? options_.speed : 1;
  return present() + std::chrono::duration_cast<Duration>((here - options_.clock()) * speed);
}

void Simulation::plug(const std::string& machine, MachineCallbacks callbacks) {
  const std::scoped_lock lock(callbacks_mutex_);
  callbacks_[machine] = std::move(callbacks);
}

void Simulation::unplug(const std::string& machine) {
  const std::scoped_lock lock(callbacks_mutex_);
  callbacks_.erase(machine);
}

void Simulation::run_callbacks() {
  const std::scoped_lock callbacks_lock(callbacks_mutex_);
  std::vector<MachineEvent> events;
  {
    const std::scoped_lock lock(mutex_);
    events = cloud_.take_events();
  }
  for (const MachineEvent& one : events) {
    const auto found = callbacks_.find(one.machine);
    if (found == callbacks_.end()) continue;
    if (one.kind == MachineEvent::Kind::notice) {
      found->second.notice(here(one.left), "the fake cloud preempts this machine");
    } else {
      found->second.power_off();
    }
  }
}

// What is due happens at its time, though nobody asks.
void Simulation::keep_time() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    const Time now = now_locked();
    cloud_.advance(now);
    lock.unlock();
    run_callbacks();
    lock.lock();
    const Time next = cloud_.next_event();
    // Whatever is asked for meanwhile may bring something nearer.
    const Duration limit = 100ms;
    const Duration left =
        next == kNever ? limit : std::clamp<Duration>(here(next - now), 1ms, limit);
    changed_.wait_for(lock, left, [this] { return ending_; });
  }
}

World Simulation::computer(const std::string& state_directory) {
  World world = world_of_this_process();
  world.variable = [state_directory,
                    other = world.variable](const char* name) -> std::optional<std::string> {
    if (std::string_view(name) == "XDG_STATE_HOME") return state_directory;
    return other(name);
  };
  world.http = nullptr;  // it is not reached over a network
  world.now = [this] { return present(); };
  world.time_with_sleep = world.now;
  world.wall_s = [this] { return ask([](Cloud& cloud, Time now) { return cloud.wall_s(now); }); };
  world.pause = [this](Duration duration, const std::stop_token& stop) { pause(duration, stop); };
  world.random_bits = [this] {
    const std::scoped_lock lock(mutex_);
    return pause_draws_.bits();
  };
  return world;
}

}  // namespace skyward::provider::fake

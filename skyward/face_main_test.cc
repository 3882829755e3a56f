// main() of this room's tests: the workers that they start are this very program.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <future>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "skyward/call/function.h"
#include "skyward/call/match.h"
#include "skyward/call/pending.h"
#include "skyward/init.h"
#include "skyward/pool/compute_pool.h"
#include "skyward/pool/program_end.h"

// exit() leaves the thread of a pool's events: nothing destroys the pool. What the thread sanitizer
// asks for; nobody else knows of it.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" [[gnu::visibility("default")]] const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "report_thread_leaks=0"; }
// NOLINTEND(bugprone-reserved-identifier)

int parent_here();  // program_end_test.cc

namespace {

constexpr auto agent_of_a_worker = skyward::compute<parent_here>;

// What a program destroys after its pools: their callbacks may use it until then.
struct Destroyed {
  std::atomic<bool> in_use{false};
  ~Destroyed() {
    if (in_use) std::_Exit(9);
  }
};
Destroyed destroyed_late;

// A program that ends in one of several ways while its pool is open, for program_end_test.cc.
int end_with_an_open_pool(std::string_view way, const char* folder) {
  if (way == "hang") {
    skyward::set_program_end_timeout(std::chrono::milliseconds(100));
    const auto hang = [] { std::promise<void>().get_future().wait_for(std::chrono::seconds(20)); };
    const skyward::EndsWithProgram open(hang, [] {});
    std::raise(SIGTERM);
    hang();
  }
  if (way == "own handler") {
    std::signal(SIGTERM, [](int) { std::_Exit(7); });
  }
  skyward::PoolOptions options{.display = skyward::Display::quiet};
  // Nodes that outlive this program; those of this machine would not.
  if (way != "own handler") {
    options.provider =
        skyward::Command{{{"env", std::string("XDG_CACHE_HOME=") + folder, "sh", "-c"}}};
  }
  if (way == "while it opens") {
    options.on_event = [](const skyward::Event& event) {
      skyward::match(event, [](const skyward::BootstrapCompleted&) { std::raise(SIGTERM); });
    };
  }
  if (way == "twice") {
    options.on_event = [](const skyward::Event& event) {
      skyward::match(event, [](const skyward::Notice&) { std::raise(SIGINT); });
    };
  }
  skyward::ComputePool pool(options);
  if (way == "twice") {
    kill(agent_of_a_worker() >> pool, SIGSTOP);
    std::ofstream(std::string(folder) + "/signalled") << "now";
  }
  if (way == "exit") std::exit(3);
  if (way == "exit in a callback") {
    submit(agent_of_a_worker(), pool).on_done([] { std::exit(3); });
    std::promise<void>().get_future().wait_for(std::chrono::minutes(2));  // it ends the program
  }
  if (way == "exit beside a callback") {
    destroyed_late.in_use = true;
    submit(agent_of_a_worker(), pool).on_done([] {
      // Longer than the pool takes to close.
      std::promise<void>().get_future().wait_for(std::chrono::milliseconds(500));
      destroyed_late.in_use = false;
    });
    std::exit(3);
  }
  if (way == "exception") throw std::runtime_error("nobody catches this");
  if (way == "thread") std::thread([] { throw std::runtime_error("nor this"); }).join();
  std::raise(way == "interrupt" ? SIGINT : SIGTERM);
  if (way == "between calls") {
    try {
      while (true) (void)(agent_of_a_worker() >> pool);
    } catch (const std::exception&) {  // its pool closes
      (void)(agent_of_a_worker() >> pool);
    }
  }
  std::promise<void>().get_future().wait_for(std::chrono::minutes(2));  // the signal ends it
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (std::getenv("SKYWARD_TEST_FORGETS_INIT") != nullptr) {
    skyward::ComputePool
        pool;  // what a program does in a worker whose main() does not begin with init()
  }
  skyward::init(argc, argv);
  if (argc == 4 && std::string_view(argv[1]) == "--end") {
    return end_with_an_open_pool(argv[2], argv[3]);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

// skyward-sim: runs storms, seed after seed, or measures what a task costs the engine.

#include <fmt/format.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "sim/cost.h"
#include "sim/storm.h"

namespace {

constexpr std::string_view kUsage =
    "usage: skyward-sim [--seed N] [--runs M] [--nodes K] [--tasks T] [--jobs] [--verbose]\n"
    "       skyward-sim --cost [--tasks T]\n"
    "\n"
    "Runs whole pools on virtual time, one for each seed from N to N+M-1. A failed check prints\n"
    "what was wrong and the seed that shows it again, and ends the program with 1.\n"
    "--jobs makes each launch a job, as at Slurm; otherwise the seed decides that.\n"
    "--cost prints what tasks and nodes cost the engine in CPU time and memory, with 10 to 10,000\n"
    "nodes, as JSON.\n";

constexpr std::uint64_t kCostTasks = 300'000;

// What repeats the run that is under way, for the handler of a failed check.
char repeat_command[200];

extern "C" void report_seed(int) {
  std::fputs(repeat_command, stderr);
  std::_Exit(1);
}

[[noreturn]] void refuse(const std::string& why) {
  fmt::print(stderr, "skyward-sim: {}\n{}", why, kUsage);
  std::exit(2);
}

std::uint64_t number(std::string_view option, const char* text) {
  char* end = nullptr;
  const std::uint64_t value = text == nullptr ? 0 : std::strtoull(text, &end, 10);
  if (text == nullptr || *text == '\0' || *end != '\0') {
    refuse(fmt::format("{} needs a number", option));
  }
  return value;
}

void note_seed(const skyward::sim::StormOptions& options) {
  std::string text =
      fmt::format("skyward-sim: to see it again: skyward-sim --verbose --seed {}", options.seed);
  if (options.nodes > 0) text += fmt::format(" --nodes {}", options.nodes);
  if (options.tasks > 0) text += fmt::format(" --tasks {}", options.tasks);
  if (options.jobs) text += " --jobs";
  std::snprintf(repeat_command, sizeof repeat_command, "%s\n", text.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  skyward::sim::StormOptions options;
  std::uint64_t runs = 1;
  bool cost = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--help") {
      fmt::print("{}", kUsage);
      return 0;
    }
    if (option == "--cost") {
      cost = true;
    } else if (option == "--verbose") {
      options.verbose = true;
    } else if (option == "--jobs") {
      options.jobs = true;
    } else if (option == "--seed") {
      options.seed = number(option, argv[++i]);
    } else if (option == "--runs") {
      runs = number(option, argv[++i]);
    } else if (option == "--nodes") {
      options.nodes = static_cast<int>(number(option, argv[++i]));
    } else if (option == "--tasks") {
      options.tasks = static_cast<int>(number(option, argv[++i]));
    } else {
      refuse(fmt::format("what is {}?", option));
    }
  }
  if (cost) {
    const auto tasks = options.tasks > 0 ? static_cast<std::uint64_t>(options.tasks) : kCostTasks;
    fmt::print("{}\n", skyward::sim::cost_report(tasks));
    return 0;
  }
  std::signal(SIGABRT, report_seed);
  skyward::sim::StormReport sum;
  for (std::uint64_t run = 0; run < runs; ++run, ++options.seed) {
    note_seed(options);
    sum += skyward::sim::Storm(options).run();
  }
  fmt::print(
      "{} storms, {} events in {:.0f} virtual seconds: {} tasks answered, {} attempts begun ({} "
      "again), {} recalls, {} machines, {} nodes lost, {} announced, {} jobs preempted, {} "
      "connections broken, {} attempts without a network, {} "
      "blobs read from other nodes, {} agents begun again, {} engines killed; ${:.2f} spent, at "
      "most {:.3f}% from the bill, {} of {} budgets "
      "ran out ({} warned of); nothing wrong\n",
      runs, sum.steps, sum.virtual_seconds, sum.answered, sum.starts, sum.retries, sum.recalls,
      sum.machines, sum.losses, sum.notices, sum.jobs, sum.breaks, sum.offline, sum.fetches,
      sum.restarts, sum.deaths, sum.dollars, sum.worst_error * 100, sum.stops, sum.budgets,
      sum.warnings);
}

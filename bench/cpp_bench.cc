// What C++ programs get of a local pool, as one object of JSON. Its own floor comes with it: a bare
// echo between two processes over a Unix socket.
//
//   cpp_bench CALLS TASKS ROUNDS MIB

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <stdexcept>
#include <vector>

#include "skyward/skyward.h"

int answer_there(int number) { return number; }
constexpr auto answer = sky::compute<answer_there>;

double last_there(std::span<const double> numbers) { return numbers.back(); }
constexpr auto last = sky::compute<last_there>;

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kWarmUp = 50;

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

void check(bool true_one, const char* what) {
  if (!true_one) throw std::runtime_error(what);
}

struct Quantiles {
  double half = 0;
  double nearly_all = 0;  // 99 of 100
};

// Of how long the calls take, one after the other, once they are warm.
template <typename Function>
Quantiles times_of(int calls, Function call) {
  for (int i = 0; i < kWarmUp; ++i) call(i);
  std::vector<double> times;
  for (int i = 0; i < calls; ++i) {
    const auto begin = Clock::now();
    call(i);
    times.push_back(microseconds_since(begin));
  }
  std::ranges::sort(times);
  return {times[times.size() / 2], times[times.size() * 99 / 100]};
}

Quantiles measure_echo(int calls) {
  std::array<int, 2> ends{};
  check(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0, "socketpair() failed");
  const pid_t child = ::fork();
  check(child >= 0, "fork() failed");
  int number = 0;
  if (child == 0) {
    ::close(ends[0]);
    while (::read(ends[1], &number, sizeof number) == sizeof number) {
      if (::write(ends[1], &number, sizeof number) != sizeof number) break;
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  const Quantiles times = times_of(calls, [&](int i) {
    check(::write(ends[0], &i, sizeof i) == sizeof i, "write() failed");
    check(::read(ends[0], &number, sizeof number) == sizeof number && number == i, "no echo");
  });
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return times;
}

sky::PoolOptions local_nodes(int nodes) {
  return {.nodes = nodes, .display = sky::Display::quiet, .collect_metrics = false};
}

// Seconds until a pool is open and each of its workers has answered.
double measure_start(int nodes) {
  const auto begin = Clock::now();
  sky::ComputePool pool(local_nodes(nodes));
  const std::vector<int> answers = sky::broadcast(answer(1), pool);
  const double seconds = microseconds_since(begin) / 1e6;
  check(answers == std::vector<int>(static_cast<std::size_t>(nodes), 1), "a wrong answer");
  return seconds;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Tasks each second.
double measure_gather(sky::ComputePool& pool, int tasks) {
  const auto begin = Clock::now();
  std::vector<sky::Pending<int>> calls;
  calls.reserve(static_cast<std::size_t>(tasks));
  for (int i = 0; i < tasks; ++i) calls.push_back(answer(i));
  const std::vector<int> answers = sky::gather(std::move(calls)) >> pool;
  const double rate = tasks / microseconds_since(begin) * 1e6;
  for (int i = 0; i < tasks; ++i) {
    check(answers[static_cast<std::size_t>(i)] == i, "a wrong answer");
  }
  return rate;
}

// Milliseconds of a call whose large argument the worker has had before.
double measure_again(sky::ComputePool& pool, int mib) {
  const sky::Array<double> numbers = std::vector<double>(static_cast<std::size_t>(mib) << 17, 0.5);
  return times_of(100, [&](int) { check((last(numbers) >> pool) == 0.5, "a wrong answer"); }).half /
         1e3;
}

void measure_all(int calls, int tasks, int rounds, int mib) {
  const Quantiles echo = measure_echo(calls);  // it forks: before a pool has threads
  std::vector<double> starts;
  for (int i = 0; i < rounds; ++i) starts.push_back(measure_start(4));
  sky::ComputePool pool(local_nodes(2));
  const Quantiles call =
      times_of(calls, [&](int i) { check((answer(i) >> pool) == i, "a wrong answer"); });
  measure_gather(pool, std::min(tasks, 1000));
  std::vector<double> rates;
  for (int i = 0; i < rounds; ++i) rates.push_back(measure_gather(pool, tasks));
  const double again = measure_again(pool, mib);
  std::printf(
      R"({"echo_us": %.3f, "call_p50_us": %.3f, "call_p99_us": %.3f, "tasks_per_second": %.0f, )"
      R"("start_seconds": %.6f, "again_ms": %.4f})"
      "\n",
      echo.half, call.half, call.nearly_all, median(rates), median(starts), again);
}

}  // namespace

int main(int argc, char** argv) {
  sky::init(argc, argv);
  if (argc != 5) {
    std::fputs("usage: cpp_bench CALLS TASKS ROUNDS MIB\n", stderr);
    return 2;
  }
  try {
    measure_all(std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cpp_bench: %s\n", error.what());
    return 1;
  }
}

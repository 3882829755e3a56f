// Coroutines: co_await of a future goes on when its result is here, and no thread waits for it.

#include <coroutine>
#include <cstdio>
#include <exception>
#include <latch>
#include <vector>

#include "skyward/skyward.h"

int next_collatz(int number) { return number % 2 == 0 ? number / 2 : 3 * number + 1; }
constexpr auto next = sky::compute<next_collatz>;

// The least that a coroutine needs; one of a library will do as well.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

// Each step depends on the one before; the chains run beside each other.
Detached count_steps(sky::ComputePool& pool, int number, int& steps, std::latch& done) {
  while (number != 1) {
    number = co_await pool.submit(next(number));
    ++steps;
  }
  done.count_down();
}

int main(int argc, char** argv) {
  sky::init(argc, argv);
  sky::ComputePool pool({.nodes = 2, .concurrency = 2});

  constexpr int kChains = 20;
  std::vector<int> steps(kChains, 0);
  std::latch done(kChains);
  int start = 0;
  for (int& count : steps) count_steps(pool, ++start, count, done);
  done.wait();
  start = 0;
  for (const int count : steps) std::printf("%d: %d steps\n", ++start, count);
  return steps[8] == 19 ? 0 : 1;  // 9, 28, 14, 7 … 1
}

// A function that yields: its items arrive while it runs, and who has seen enough stops it.

#include <cmath>
#include <cstdio>

#include "skyward/skyward.h"

struct Step {
  int number;
  double estimate;
};

// Newton's method for a square root: each step is worth looking at.
void approach_root(sky::Sink<Step>& steps, double value, int most) {
  double estimate = value;
  for (int number = 1; number <= most; ++number) {
    estimate = (estimate + value / estimate) / 2;
    steps.put({.number = number, .estimate = estimate});
  }
}
constexpr auto approach = sky::compute<approach_root>;

int main(int argc, char** argv) {
  sky::init(argc, argv);
  sky::ComputePool pool;

  double root = 0;
  for (const Step& step : approach(2, 1'000'000) >> pool) {
    std::printf("step %d: %.12f\n", step.number, step.estimate);
    if (std::abs(step.estimate - root) < 1e-12) break;  // stops the function, too
    root = step.estimate;
  }
  return std::abs(root - std::sqrt(2)) < 1e-9 ? 0 : 1;
}

// Must not compile: only numbers can be read where they lie.
#include "skyward/skyward.h"

struct Point {
  double x = 0;
};
double far(std::span<const Point> points);

auto call() { return sky::compute<far>({}); }

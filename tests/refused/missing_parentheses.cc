// Must not compile: >> binds tighter than &.
#include "skyward/skyward.h"

int one() { return 1; }

void wrong(sky::ComputePool& pool) {
  const auto f = sky::compute<one>;
  f() & f() >> pool;
}

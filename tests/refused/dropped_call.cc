// Must be warned of: a call that is written down and dropped does nothing.
#include "skyward/skyward.h"

int one() { return 1; }

void wrong(sky::ComputePool& pool) {
  const auto f = sky::compute<one>;
  f();
  f() & f();
  pool.submit(f());
}

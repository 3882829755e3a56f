// Must not compile: a batch has a type for each call, and how many were gathered is not known.
#include "skyward/skyward.h"

int one() { return 1; }

void wrong(sky::ComputePool& pool) {
  const auto f = sky::compute<one>;
  (f() & sky::gather(std::vector{f()})) >> pool;
}

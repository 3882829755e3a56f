// Must compile: the measure for its neighbours, which must not.
#include "skyward/skyward.h"

int one() { return 1; }

void right(sky::ComputePool& pool) {
  const auto f = sky::compute<one>;
  const std::tuple<int, int> both = (f() & f()) >> pool;
  const std::vector<int> all = sky::gather(std::vector{f(), f()}) >> pool;
  const std::vector<int> ranks = sky::broadcast(f(), pool);
  sky::Future<int> future = sky::submit(f().with_timeout(std::chrono::seconds(5)), pool);
  if (!future.wait(std::chrono::seconds(1))) future.cancel();
  (void)both;
}

// Two pools for two kinds of work, set up at the same time.

#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "skyward/skyward.h"

std::vector<int> prepare_there(int count) {
  std::vector<int> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 1);
  return values;
}
long sum_there(const std::vector<int>& values) {
  return std::accumulate(values.begin(), values.end(), 0L);
}
constexpr auto prepare = sky::compute<prepare_there>;
constexpr auto sum = sky::compute<sum_there>;

int main(int argc, char** argv) {
  sky::init(argc, argv);
  sky::MultiPool pools({{.nodes = 1, .concurrency = 2}, {.nodes = 3}});
  const std::vector<int> values = prepare(1'000) >> pools[0];
  const std::vector<long> sums = sky::broadcast(sum(values), pools[1]);
  for (const long one : sums) std::printf("sum %ld\n", one);
}

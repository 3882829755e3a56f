// Every worker takes its own part of one array. The array leaves this program once, and each worker
// reads it in shared memory (std::span: no copy is made).

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

#include "skyward/skyward.h"

struct Moments {  // a plain struct needs no serialize
  double count = 0;
  double sum = 0;
  double squares = 0;
};

Moments moments_of_my_part(std::span<const double> values) {
  Moments moments;
  for (const std::size_t index : sky::my_shard_indices(values.size())) {
    moments.count += 1;
    moments.sum += values[index];
    moments.squares += values[index] * values[index];
  }
  std::printf("summed %.0f of %zu values\n", moments.count, values.size());
  return moments;
}
constexpr auto moments = sky::compute<moments_of_my_part>;

int main(int argc, char** argv) {
  sky::init(argc, argv);
  std::vector<double> values(4'000'001);
  std::iota(values.begin(), values.end(), 0.0);

  sky::ComputePool pool({.nodes = 4});
  Moments all;
  for (const Moments& part : sky::broadcast(moments(std::move(values)), pool)) {
    all.count += part.count;
    all.sum += part.sum;
    all.squares += part.squares;
  }
  const double mean = all.sum / all.count;
  std::printf("%.0f values, mean %.1f, standard deviation %.1f\n", all.count, mean,
              std::sqrt(all.squares / all.count - mean * mean));
}

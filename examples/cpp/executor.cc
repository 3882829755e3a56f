// An executor: several threads send calls, and none gets so far ahead of the pool that their
// arguments fill the memory.

#include <cstdio>
#include <numeric>
#include <thread>
#include <vector>

#include "skyward/skyward.h"

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}
constexpr auto sum = sky::compute<sum_of>;

int main(int argc, char** argv) {
  sky::init(argc, argv);
  sky::ComputePool pool({.nodes = 2, .concurrency = 2});

  constexpr int kReaders = 4;
  constexpr int kBlocks = 50;
  std::vector<std::vector<sky::Future<double>>> futures(kReaders);
  {
    sky::Executor executor(pool, /*max_in_flight=*/8);
    std::vector<std::jthread> readers;
    for (auto& mine : futures) {
      readers.emplace_back([&executor, &mine] {
        for (int block = 0; block < kBlocks; ++block) {
          // Waits while eight blocks are on their way.
          mine.push_back(executor.submit(sum(std::vector<double>(10'000, block))));
        }
      });
    }
  }  // waits for the readers, then for their calls
  double total = 0;
  for (auto& mine : futures) {
    for (sky::Future<double>& future : mine) total += future.get();
  }
  std::printf("%d blocks add up to %.0f\n", kReaders * kBlocks, total);
  return total == kReaders * 10'000.0 * kBlocks * (kBlocks - 1) / 2 ? 0 : 1;
}

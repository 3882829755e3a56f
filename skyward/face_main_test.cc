// main() of this room's tests: the workers that they start are this very program.

#include <gtest/gtest.h>

#include <cstdlib>

#include "skyward/compute_pool.h"
#include "skyward/worker.h"

int main(int argc, char** argv) {
  if (std::getenv("SKYWARD_TEST_FORGETS_INIT") != nullptr) {
    skyward::ComputePool
        pool;  // what a program does in a worker whose main() does not begin with init()
  }
  skyward::init(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

// main() of this room's tests: the workers that they start are this very program.

#include <gtest/gtest.h>

#include <iostream>

#include "skyward/worker/user_code.h"
#include "skyward/worker/worker.h"

int main(int argc, char** argv) {
  skyward::set_stream_flush([] { std::cout.flush(); });
  skyward::run_if_worker();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

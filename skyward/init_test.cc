#include "skyward/init.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "skyward/pool/program_start.h"
#include "skyward/worker/worker.h"

namespace skyward {
namespace {

TEST(Init, DoesNothingInAnOrdinaryProgram) {
  init(0, nullptr);
  require_init();
  EXPECT_FALSE(cancelled());
}

TEST(InitDeathTest, APoolBeforeInitIsRefused) {
  EXPECT_EXIT(
      {
        setenv("SKYWARD_TEST_FORGETS_INIT", "1", 1);
        execl("/proc/self/exe", "face_test", nullptr);
      },
      ::testing::KilledBySignal(SIGABRT), "before sky::init.*inside main, not at namespace scope");
}

}  // namespace
}  // namespace skyward

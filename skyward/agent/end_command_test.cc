#include "skyward/agent/end_command.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "skyward/io/machine.h"

namespace skyward::agent {
namespace {

using namespace std::chrono_literals;

class EndCommandTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(file); }

  bool run(const std::string& script) {
    return run_end_command({"sh", "-c", script, "sh", file}, [this](Duration pause) {
      EXPECT_GE(pause, 1s);
      ++pauses;
    });
  }

  const std::string file = testing::TempDir() + "end-" + io::random_hex(8);
  int pauses = 0;
};

TEST_F(EndCommandTest, OneThatWorksRunsOnce) {
  EXPECT_TRUE(run("mkdir \"$1\""));
  EXPECT_EQ(pauses, 0);
}

TEST_F(EndCommandTest, OneThatFailsRunsAgainAfterAPause) {
  EXPECT_TRUE(run("mkdir \"$1\" && exit 3; exit 0"));
  EXPECT_EQ(pauses, 1);
}

TEST_F(EndCommandTest, OneThatNeverWorksEndsAfterThreeTriesWithoutAPauseAfterTheLast) {
  EXPECT_FALSE(run("exit 3"));
  EXPECT_EQ(pauses, 2);
}

}  // namespace
}  // namespace skyward::agent

#include "skyward/base/stderr_line.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace skyward {
namespace {

TEST(StderrLine, EndsWithALineBreak) {
  testing::internal::CaptureStderr();
  write_stderr_line("skyward: words");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "skyward: words\n");
}

TEST(StderrLine, AFullDiskIsNoReasonToEnd) {
  const auto write_there = [] {
    if (std::freopen("/dev/full", "w", stderr) == nullptr) std::exit(1);
    write_stderr_line("skyward: words");
    std::exit(0);
  };
  EXPECT_EXIT(write_there(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace skyward

#include "skyward/io/appended_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "skyward/io/file.h"

namespace skyward::io {
namespace {

class AppendedFileTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }

  const std::string path_ = ::testing::TempDir() + "/skyward-appended-" +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(AppendedFileTest, WritesBehindWhatIsThere) {
  const std::string large(100'000, 'x');
  for (const std::string& text : {std::string("first\n"), large}) {
    AppendedFile file;
    EXPECT_FALSE(file.is_open());
    file.open(path_);
    EXPECT_TRUE(file.is_open());
    file.write(text);
    EXPECT_TRUE(file.flush());
  }
  EXPECT_EQ(read_file(path_).value(), "first\n" + large);
}

TEST_F(AppendedFileTest, SaysWhenSomethingWasNotWritten) {
  AppendedFile full;
  full.open("/dev/full");
  EXPECT_TRUE(full.flush()) << "there was nothing";
  full.write("x");
  EXPECT_FALSE(full.flush());
  EXPECT_FALSE(full.flush()) << "it stays so";
  full.open(path_);
  EXPECT_TRUE(full.flush()) << "until it is opened again";
  full.open("/nowhere/at/all");
  EXPECT_FALSE(full.is_open());
  EXPECT_FALSE(full.flush());
}

}  // namespace
}  // namespace skyward::io

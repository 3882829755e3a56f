#include "skyward/provider/open_pools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "skyward/io/forbidden_calls_fixture.h"
#include "skyward/io/machine.h"

namespace skyward::provider {
namespace {

using testing::HasSubstr;

class OpenPoolsTest : public testing::Test {
 protected:
  OpenPoolsTest() {
    world.variable = [this](const char* name) -> std::optional<std::string> {
      if (std::string_view(name) == "XDG_STATE_HOME") return home;
      return std::nullopt;
    };
  }
  ~OpenPoolsTest() override { std::filesystem::remove_all(home); }

  const std::string home = testing::TempDir() + "open-pools-" + io::random_hex(8);
  World world;
};

TEST_F(OpenPoolsTest, APoolIsOpenOnce) {
  const auto first = make_pool_directory(world, "aws-00000001");
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_TRUE(is_open_here(world, "aws-00000001"));
  const auto second = make_pool_directory(world, "aws-00000001");
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("is open already"));
}

TEST_F(OpenPoolsTest, DirectoriesThatNoPoolUsesGoAfterADay) {
  namespace fs = std::filesystem;
  const auto make = [&](const std::string& id) {
    EXPECT_TRUE(make_pool_directory(world, id));  // its lock is free again
    return pool_directory(world, id);
  };
  const auto age = [](const std::string& path) {
    fs::last_write_time(path, fs::last_write_time(path) - std::chrono::hours(25));
  };
  world.open_ledger = [](const std::string& path) { return Ledger::open(path); };
  const auto ledger = *open_ledger(world);
  ASSERT_TRUE(ledger->open_pool({.id = "aws-00000001"}));
  ASSERT_TRUE(ledger->open_pool({.id = "aws-00000006"}));
  ASSERT_TRUE(ledger->close_pool("aws-00000006", 1));
  const std::string listed = make("aws-00000001");
  const std::string lost = make("aws-00000002");
  const std::string young = make("aws-00000003");
  const auto open = make_pool_directory(world, "aws-00000004");
  const std::string reaped = make("aws-00000005");
  const auto reaper = io::FileLock::try_lock(reaper_lock(world, "aws-00000005"));
  const std::string closed = make("aws-00000006");
  for (const std::string& path : {listed, lost, open->path, reaped, closed}) age(path);
  remove_unused_directories(world);
  EXPECT_FALSE(fs::exists(lost));
  EXPECT_FALSE(fs::exists(closed));
  for (const std::string& path : {listed, young, open->path, reaped}) {
    EXPECT_TRUE(fs::exists(path)) << path;
  }
}

TEST_F(OpenPoolsTest, ThatThereIsNoPlaceForTheLedgerIsAnErrorOfTheLedger) {
  world.variable = [](const char*) { return std::nullopt; };
  const auto ledger = open_ledger(world);
  ASSERT_FALSE(ledger);
  EXPECT_TRUE(is_of_ledger(world, ledger.error()));
  EXPECT_FALSE(is_of_ledger(world, {ErrorKind::invalid, "the cloud is closed"}));
}

// Lustre, say, where it was mounted without them.
TEST_F(OpenPoolsTest, AFileSystemWithoutLocksIsNoPoolThatIsOpen) {
  std::thread([&] {
    if (!io::forbid_file_locks()) GTEST_SKIP() << "this system filters no calls";
    const auto refused = make_pool_directory(world, "aws-00000001");
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr(home));
    EXPECT_THAT(refused.error().message, HasSubstr("cannot be locked"));
    EXPECT_THAT(refused.error().hint, HasSubstr("XDG_STATE_HOME"));
  }).join();
}

}  // namespace
}  // namespace skyward::provider

#include "skyward/provider/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"

namespace skyward::provider {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LedgerFile : public ::testing::Test {
 protected:
  ~LedgerFile() override { (void)io::remove_tree(root_); }

  std::unique_ptr<Ledger> open() {
    auto ledger = Ledger::open(path_);
    EXPECT_TRUE(ledger) << ledger.error().message;
    return *std::move(ledger);
  }

  const std::string root_ = ::testing::TempDir() + "skyward-ledger-" + io::random_hex(12);
  const std::string path_ = root_ + "/state/skyward/ledger.db";
  const LedgerPool pool_{.id = "aws-1",
                         .provider = "aws",
                         .region = "eu-west-1",
                         .settings = {{"profile", "it's \"mine\""}},
                         .opened_s = 100,
                         .closed_s = std::nullopt};
  const LedgerEntry machines_{.key = "token-1",
                              .pool = "aws-1",
                              .kind = "instance",
                              .id = "",
                              .count = 2,
                              .spot = true,
                              .instance_type = "p4d",
                              .hourly_micro_dollars = 9'800'000,
                              .asked_s = 101,
                              .gone_s = std::nullopt};
};

TEST_F(LedgerFile, WhatWasAskedForIsThereForTheNextProcess) {
  ASSERT_TRUE(open()->open_pool(pool_));
  ASSERT_TRUE(open()->ask(machines_));
  const auto later = open();
  EXPECT_EQ(later->pools(true).value(), std::vector{pool_});
  EXPECT_EQ(later->entries("aws-1", true).value(), std::vector{machines_});
  EXPECT_EQ(std::filesystem::status(root_ + "/state/skyward").permissions(),
            std::filesystem::perms::owner_all);
}

TEST_F(LedgerFile, AnAnswerTurnsOneLineIntoAsManyAsThereAreMachines) {
  const auto ledger = open();
  ASSERT_TRUE(ledger->open_pool(pool_));
  ASSERT_TRUE(ledger->ask(machines_));
  ASSERT_TRUE(ledger->made("aws-1", "token-1", {"i-1", "i-2"}));
  ASSERT_TRUE(ledger->made("aws-1", "token-1", {"i-1", "i-2"})) << "the same answer again";
  auto entries = ledger->entries("aws-1", true).value();
  ASSERT_THAT(entries, SizeIs(2));
  EXPECT_EQ(entries[0].id, "i-1");
  EXPECT_EQ(entries[1].id, "i-2");
  EXPECT_EQ(entries[1].count, 1);
  EXPECT_EQ(entries[1].hourly_micro_dollars, 9'800'000);

  ASSERT_TRUE(ledger->gone("aws-1", "i-1", 200));
  ASSERT_TRUE(ledger->gone("aws-1", "unknown", 200));
  EXPECT_THAT(ledger->entries("aws-1", true).value(), SizeIs(1));
  EXPECT_THAT(ledger->entries("aws-1", false).value(), SizeIs(2));
  ASSERT_TRUE(ledger->gone("aws-1", "i-2", 201));
  ASSERT_TRUE(ledger->close_pool("aws-1", 202));
  EXPECT_THAT(ledger->pools(true).value(), IsEmpty());
  EXPECT_EQ(ledger->pools(false).value().at(0).closed_s, 202);
}

TEST_F(LedgerFile, ARequestThatCameToNothingIsStruckOffByItsKey) {
  const auto ledger = open();
  ASSERT_TRUE(ledger->ask(machines_));
  ASSERT_TRUE(ledger->gone("aws-1", "token-1", 150));
  EXPECT_THAT(ledger->entries("aws-1", true).value(), IsEmpty());
}

TEST_F(LedgerFile, SeveralProcessesWriteAtOnce) {
  ASSERT_TRUE(open());
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&, writer] {
      const auto ledger = open();
      for (int i = 0; i < 20; ++i) {
        LedgerEntry entry = machines_;
        entry.key = std::to_string(writer) + "-" + std::to_string(i);
        EXPECT_TRUE(ledger->ask(entry));
        EXPECT_TRUE(ledger->made("aws-1", entry.key, {"i-" + entry.key}));
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_THAT(open()->entries("aws-1", true).value(), SizeIs(80));
}

TEST_F(LedgerFile, WhatIsNoLedgerIsRefused) {
  std::filesystem::create_directories(root_ + "/state/skyward");
  std::ofstream(path_) << std::string(5000, 'x');
  const auto refused = Ledger::open(path_);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr(path_));
  EXPECT_FALSE(Ledger::open("/proc/none/ledger.db"));
}

}  // namespace
}  // namespace skyward::provider

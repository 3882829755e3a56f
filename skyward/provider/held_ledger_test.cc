#include "skyward/provider/held_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "skyward/io/file.h"
#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"

namespace skyward::provider {
namespace {

using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class HeldLedgerTest : public ::testing::Test {
 protected:
  ~HeldLedgerTest() override { (void)io::remove_tree(root_); }

  std::string number() const { return std::to_string(io::file_number(path_)); }
  // Ids of pools that are open in the file that has the name now.
  std::vector<std::string> listed() const {
    std::vector<std::string> ids;
    const auto pools = *Ledger::open(path_).value()->pools(true);
    for (const LedgerPool& pool : pools) {
      ids.push_back(pool.id);
      EXPECT_EQ(pool.setting("ledger"), number());
    }
    return ids;
  }
  std::vector<std::pair<std::string, std::string>> entries_of(const std::string& pool) const {
    std::vector<std::pair<std::string, std::string>> out;
    const auto entries = *Ledger::open(path_).value()->entries(pool, true);
    for (const LedgerEntry& entry : entries) out.emplace_back(entry.key, entry.id);
    return out;
  }

  const std::string root_ = ::testing::TempDir() + "held-ledger-" + io::random_hex(12);
  const std::string path_ = root_ + "/ledger.db";
  HeldLedger held_{[this] { return Ledger::open(path_); }, [this] { return number(); }};
};

TEST_F(HeldLedgerTest, OpenPoolsContinueInANewFile) {
  EXPECT_THAT(held_.pools(true).value(), IsEmpty());
  ASSERT_TRUE(held_.open_pool({.id = "aws-1", .settings = {{"ledger", number()}}}));
  ASSERT_TRUE(held_.ask({.key = "k", .pool = "aws-1", .kind = "instance", .count = 2}));
  ASSERT_TRUE(held_.made("aws-1", "k", {"i-1"}));
  ASSERT_TRUE(held_.ask({.key = "g", .pool = "aws-1", .kind = "security_group"}));
  ASSERT_TRUE(held_.gone("aws-1", {"g"}, 1));
  std::filesystem::rename(path_, path_ + ".away");
  const Status asked = held_.ask({.key = "l", .pool = "aws-1", .kind = "instance"});
  ASSERT_TRUE(asked) << asked.error().message;
  EXPECT_THAT(listed(), UnorderedElementsAre("aws-1"));
  EXPECT_THAT(entries_of("aws-1"),
              UnorderedElementsAre(Pair("k", ""), Pair("k", "i-1"), Pair("l", "")));
  const auto all = *Ledger::open(path_).value()->entries("aws-1", false);
  const auto group = std::ranges::find(all, "g", &LedgerEntry::key);
  ASSERT_NE(group, all.end()) << "what is gone has cost money, too";
  EXPECT_EQ(group->gone_s, 1);
  EXPECT_TRUE(held_.close_pool("aws-1", 2));
  EXPECT_THAT(listed(), IsEmpty());

  std::filesystem::remove(path_);
  ASSERT_TRUE(held_.open_pool({.id = "aws-2", .settings = {{"ledger", ""}}}));
  ASSERT_TRUE(Ledger::open(path_).value()->find_pool("aws-2").value());
  EXPECT_FALSE(Ledger::open(path_).value()->find_pool("aws-1").value()) << "it is closed";
}

// From a backup, say.
TEST_F(HeldLedgerTest, AnOlderCopyIsCompleted) {
  ASSERT_TRUE(held_.open_pool({.id = "aws-1"}));
  ASSERT_TRUE(held_.ask({.key = "k", .pool = "aws-1", .kind = "instance"}));
  std::filesystem::copy_file(path_, path_ + ".copy");
  ASSERT_TRUE(held_.ask({.key = "l", .pool = "aws-1", .kind = "instance"}));
  std::filesystem::rename(path_ + ".copy", path_);
  ASSERT_TRUE(held_.ask({.key = "m", .pool = "aws-1", .kind = "instance"}));
  EXPECT_THAT(entries_of("aws-1"),
              UnorderedElementsAre(Pair("k", ""), Pair("l", ""), Pair("m", "")));
}

TEST_F(HeldLedgerTest, WhatFailsInItsOwnFileStaysAnError) {
  ASSERT_TRUE(held_.open_pool({.id = "aws-1"}));
  EXPECT_FALSE(held_.open_pool({.id = "aws-1"})) << "it is there";
}

}  // namespace
}  // namespace skyward::provider

#include "skyward/provider/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"
#include "skyward/io/shared_library.h"

namespace skyward::provider {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Another program that has the file open.
class OtherProgram {
 public:
  explicit OtherProgram(const std::string& path) {
    decltype(&sqlite3_open) open_file = nullptr;
    void* library = io::load_library({"libsqlite3.so.0"}).handle;
    EXPECT_TRUE(library != nullptr && io::find_symbol(library, "sqlite3_open", open_file) &&
                io::find_symbol(library, "sqlite3_exec", execute_) &&
                io::find_symbol(library, "sqlite3_close", close_));
    EXPECT_EQ(open_file(path.c_str(), &database_), SQLITE_OK);
    execute("PRAGMA busy_timeout=10000");  // the others read while it commits
  }
  OtherProgram(const OtherProgram&) = delete;
  OtherProgram& operator=(const OtherProgram&) = delete;
  ~OtherProgram() { EXPECT_EQ(close_(database_), SQLITE_OK); }

  void execute(const std::string& statements) {
    EXPECT_EQ(execute_(database_, statements.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
  }

 private:
  decltype(&sqlite3_exec) execute_ = nullptr;
  decltype(&sqlite3_close) close_ = nullptr;
  sqlite3* database_ = nullptr;
};

class LedgerFile : public ::testing::Test {
 protected:
  ~LedgerFile() override { (void)io::remove_tree(root_); }

  std::unique_ptr<Ledger> open() {
    auto ledger = Ledger::open(path_);
    EXPECT_TRUE(ledger) << ledger.error().message;
    return std::move(ledger).value();
  }

  // What another program writes into the file.
  void sqlite(const std::string& statements) const { OtherProgram(path_).execute(statements); }

  // The byte of the file that tells a write-ahead log (2) from a journal (1).
  int journal_byte() const {
    std::ifstream file(path_, std::ios::binary);
    return file.seekg(18).get();
  }

  const std::string root_ = ::testing::TempDir() + "skyward-ledger-" + io::random_hex(12);
  const std::string path_ = root_ + "/state/skyward/ledger.db";
  const LedgerPool pool_{.id = "aws-1",
                         .provider = "aws",
                         .region = "eu-west-1",
                         .settings = {{"profile", "it's \"mine\""}},
                         .opened_s = 100,
                         .closed_s = std::nullopt,
                         .expires_s = 4000};
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

  ASSERT_TRUE(ledger->gone("aws-1", {"i-1", "unknown"}, 200));
  EXPECT_THAT(ledger->entries("aws-1", true).value(), SizeIs(1));
  EXPECT_THAT(ledger->entries("aws-1", false).value(), SizeIs(2));
  ASSERT_TRUE(ledger->gone("aws-1", {"i-2"}, 201));
  ASSERT_TRUE(ledger->close_pool("aws-1", 202));
  EXPECT_THAT(ledger->pools(true).value(), IsEmpty());
  ASSERT_TRUE(ledger->gone("aws-1", {"i-2"}, 301)) << "seen again, later";
  ASSERT_TRUE(ledger->close_pool("aws-1", 302));
  EXPECT_EQ(ledger->entries("aws-1", false).value().at(1).gone_s, 201);
  EXPECT_EQ(ledger->pools(false).value().at(0).closed_s, 202);
}

TEST_F(LedgerFile, FindsAPoolByItsId) {
  const auto ledger = open();
  EXPECT_EQ(ledger->find_pool("aws-1").value(), std::nullopt);
  LedgerPool other = pool_;
  other.id = "aws-2";
  ASSERT_TRUE(ledger->open_pool(pool_));
  ASSERT_TRUE(ledger->open_pool(other));
  EXPECT_EQ(ledger->find_pool("aws-1").value(), pool_);
  ASSERT_TRUE(ledger->close_pool("aws-1", 202));
  EXPECT_EQ(ledger->find_pool("aws-1").value()->closed_s, 202);
  EXPECT_EQ(Ledger::open_to_read(path_).value()->find_pool("aws-2").value(), other);
}

TEST_F(LedgerFile, OfAnAnswerWithFewerMachinesTheRestStaysOpen) {
  const auto ledger = open();
  LedgerEntry three = machines_;
  three.count = 3;
  ASSERT_TRUE(ledger->ask(three));
  const auto left = [&] {
    std::string out;
    const auto entries = ledger->entries("aws-1", true);
    for (const LedgerEntry& one : *entries) {
      out += (one.id.empty() ? "?" : one.id) + "x" + std::to_string(one.count) + " ";
    }
    return out;
  };
  ASSERT_TRUE(ledger->made("aws-1", "token-1", {}));
  EXPECT_EQ(left(), "?x3 ");
  ASSERT_TRUE(ledger->made("aws-1", "token-1", {"i-1"}));
  EXPECT_EQ(left(), "?x2 i-1x1 ");
  ASSERT_TRUE(ledger->made("aws-1", "token-1", {"i-1", "i-2"})) << "one is told of again";
  EXPECT_EQ(left(), "?x1 i-1x1 i-2x1 ");
  ASSERT_TRUE(ledger->made("aws-1", "token-1", {"i-1", "i-2", "i-3"}));
  EXPECT_EQ(left(), "i-1x1 i-2x1 i-3x1 ");
}

TEST_F(LedgerFile, AnAnswerIsEnteredAsAWholeAndAtOnce) {
  const auto ledger = open();
  ASSERT_TRUE(ledger->ask(machines_));
  sqlite(
      "CREATE TRIGGER no BEFORE INSERT ON entry WHEN NEW.id = 'i-2' "
      "BEGIN SELECT RAISE(ABORT, 'no'); END");
  EXPECT_FALSE(ledger->made("aws-1", "token-1", {"i-1", "i-2"}));
  EXPECT_EQ(open()->entries("aws-1", true).value(), std::vector{machines_});
  sqlite("DROP TRIGGER no");
  ASSERT_TRUE(ledger->made("aws-1", "token-1", {"i-1", "i-2"}));
  EXPECT_THAT(open()->entries("aws-1", true).value(), SizeIs(2)) << "for other processes, too";
}

TEST_F(LedgerFile, ARequestThatCameToNothingIsStruckOffByItsKey) {
  const auto ledger = open();
  ASSERT_TRUE(ledger->ask(machines_));
  ASSERT_TRUE(ledger->gone("aws-1", {"token-1"}, 150));
  EXPECT_THAT(ledger->entries("aws-1", true).value(), IsEmpty());
}

TEST_F(LedgerFile, OfARequestThatIsStruckOffTheMachinesThatCameStayOpen) {
  const auto ledger = open();
  ASSERT_TRUE(ledger->ask(machines_));
  ASSERT_TRUE(ledger->made("aws-1", "token-1", {"i-1"}));
  ASSERT_TRUE(ledger->gone("aws-1", {"token-1"}, 150));
  const auto entries = ledger->entries("aws-1", true).value();
  ASSERT_THAT(entries, SizeIs(1));
  EXPECT_EQ(entries[0].id, "i-1");
}

TEST_F(LedgerFile, SeveralProcessesWriteAtOnce) {
  ASSERT_TRUE(open());
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&, writer] {
      const auto ledger = open();
      for (int i = 0; i < 5; ++i) {
        LedgerEntry entry = machines_;
        entry.key = std::to_string(writer) + "-" + std::to_string(i);
        entry.count = 1;
        EXPECT_TRUE(ledger->ask(entry));
        EXPECT_TRUE(ledger->made("aws-1", entry.key, {"i-" + entry.key}));
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_THAT(open()->entries("aws-1", true).value(), SizeIs(20));
}

// A log would need memory that the computers which have the file on a network cannot share.
TEST_F(LedgerFile, HasAJournalAndNoLog) {
  ASSERT_TRUE(io::ensure_private_path(root_ + "/state/skyward"));
  sqlite("PRAGMA journal_mode=DELETE; CREATE TABLE other (id TEXT)");
  ASSERT_TRUE(open()->open_pool(pool_));
  EXPECT_EQ(journal_byte(), 1);
  sqlite("PRAGMA journal_mode=WAL");
  EXPECT_EQ(journal_byte(), 2);
  EXPECT_EQ(open()->pools(true).value(), std::vector{pool_});
  EXPECT_EQ(journal_byte(), 1);
}

TEST_F(LedgerFile, IsOpenedWhileAnOlderVersionHasItOpenWithALog) {
  ASSERT_TRUE(io::ensure_private_path(root_ + "/state/skyward"));
  OtherProgram older(path_);
  older.execute("PRAGMA journal_mode=WAL; CREATE TABLE other (id TEXT)");
  const auto ledger = open();
  ASSERT_TRUE(ledger->open_pool(pool_));
  older.execute("INSERT INTO other VALUES ('x')");
  EXPECT_EQ(Ledger::open_to_read(path_).value()->pools(true).value(), std::vector{pool_});
  EXPECT_EQ(journal_byte(), 2);
}

TEST_F(LedgerFile, IsOpenedWhileAnotherProgramWrites) {
  (void)open();
  OtherProgram other(path_);
  other.execute("BEGIN IMMEDIATE");
  (void)open();
  EXPECT_THAT(Ledger::open_to_read(path_).value()->pools(true).value(), IsEmpty());
  other.execute("COMMIT");
}

TEST_F(LedgerFile, OfAProgramThatJustMadeTheFileTheOthersWait) {
  ASSERT_TRUE(io::ensure_private_path(root_ + "/state/skyward"));
  OtherProgram first(path_);
  first.execute("BEGIN IMMEDIATE");
  std::latch opening(1);
  std::thread second([&] {
    opening.count_down();
    EXPECT_TRUE(open()->open_pool(pool_));
  });
  opening.wait();
  first.execute("COMMIT");
  second.join();
}

// Else all that is written later would be part of that transaction, and gone with this process.
TEST_F(LedgerFile, ATransactionThatAReaderHoldsUpIsUndone) {
  const auto ledger = Ledger::open(path_, std::chrono::milliseconds(1)).value();
  ASSERT_TRUE(ledger->open_pool(pool_));
  ASSERT_TRUE(ledger->ask(machines_));
  OtherProgram reader(path_);
  reader.execute("BEGIN; SELECT * FROM pool");
  EXPECT_FALSE(ledger->made("aws-1", "token-1", {"i-1"}));
  reader.execute("COMMIT");
  LedgerEntry next = machines_;
  next.key = "token-2";
  ASSERT_TRUE(ledger->ask(next));
  EXPECT_THAT(Ledger::open_to_read(path_).value()->entries("aws-1", true).value(), SizeIs(2));
}

TEST_F(LedgerFile, WhatAKilledWriterBeganIsNotRead) {
  ASSERT_TRUE(open()->open_pool(pool_));
  const std::string left = root_ + "/left.db";
  OtherProgram writer(path_);
  writer.execute(
      "PRAGMA cache_size=1; BEGIN IMMEDIATE; DELETE FROM pool; CREATE TABLE big AS WITH RECURSIVE "
      "n(i) AS (VALUES (1) UNION ALL SELECT i+1 FROM n WHERE i<2000) "
      "SELECT hex(zeroblob(500)) FROM n");
  for (const char* ending : {"", "-journal"}) {
    std::filesystem::copy_file(path_ + ending, left + ending);
  }
  const auto ledger = Ledger::open_to_read(left);
  ASSERT_TRUE(ledger) << ledger.error().message;
  EXPECT_EQ((*ledger)->pools(true).value(), std::vector{pool_});
  writer.execute("ROLLBACK");
}

TEST_F(LedgerFile, WhatIsNoLedgerIsRefused) {
  std::filesystem::create_directories(root_ + "/state/skyward");
  std::ofstream(path_) << std::string(5000, 'x');
  const auto refused = Ledger::open(path_);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr(path_));
  EXPECT_THAT(refused.error().hint,
              HasSubstr("'skyward gc' finds the machines in it by their tags"));
  const auto nowhere = Ledger::open("/proc/none/ledger.db");
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(nowhere.error().hint, HasSubstr("XDG_STATE_HOME"));
}

TEST_F(LedgerFile, OfAnOlderVersionIsCompleted) {
  ASSERT_TRUE(io::ensure_private_path(root_ + "/state/skyward"));
  sqlite(
      "CREATE TABLE pool (id TEXT PRIMARY KEY, provider TEXT NOT NULL, settings TEXT NOT NULL, "
      "opened_s INTEGER NOT NULL);"
      "CREATE TABLE entry (key TEXT NOT NULL, pool TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT "
      "NULL, asked_s INTEGER NOT NULL, gone_s INTEGER, PRIMARY KEY (pool, key, id));"
      "INSERT INTO pool VALUES ('aws-0', 'aws', '{}', 50);"
      "INSERT INTO entry VALUES ('token-0', 'aws-0', 'instance', 'i-0', 51, NULL);");
  {
    const auto ledger = open();
    ASSERT_TRUE(ledger->open_pool(pool_));
    ASSERT_TRUE(ledger->ask(machines_));
    ASSERT_TRUE(ledger->made("aws-1", "token-1", {"i-1"}));
  }
  const auto later = open();
  const std::vector<LedgerPool> pools = later->pools(true).value();
  ASSERT_THAT(pools, SizeIs(2));
  EXPECT_EQ(pools[0], pool_);
  EXPECT_EQ(pools[1], (LedgerPool{.id = "aws-0", .provider = "aws", .opened_s = 50}));
  const LedgerEntry old{
      .key = "token-0", .pool = "aws-0", .kind = "instance", .id = "i-0", .asked_s = 51};
  EXPECT_EQ(later->entries("aws-0", true).value(), std::vector{old});
}

TEST_F(LedgerFile, OfANewerVersionIsLeftAlone) {
  (void)open();
  sqlite("PRAGMA user_version=1000");
  const auto refused = Ledger::open(path_);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("a newer version of skyward"));
  const auto unread = Ledger::open_to_read(path_);
  ASSERT_FALSE(unread) << "nobody knows what its columns mean";
  EXPECT_EQ(unread.error().message, refused.error().message);
}

TEST_F(LedgerFile, AMachineThatNobodySawGoIsTold) {
  const auto ledger = open();
  ASSERT_TRUE(ledger->open_pool(pool_));
  ASSERT_TRUE(ledger->ask(machines_));
  ASSERT_TRUE(ledger->made("aws-1", "token-1", {"i-1", "i-2"}));
  ASSERT_TRUE(ledger->gone("aws-1", {"i-1", "unknown"}, 200));
  ASSERT_TRUE(ledger->gone_by("aws-1", "i-2", 300));
  const auto entries = ledger->entries("aws-1", false).value();
  ASSERT_THAT(entries, SizeIs(2));
  EXPECT_EQ(entries[0].gone_s, 200);
  EXPECT_FALSE(entries[0].gone_late);
  EXPECT_EQ(entries[1].gone_s, 300);
  EXPECT_TRUE(entries[1].gone_late);
}

TEST_F(LedgerFile, IsReadWhereItCannotBeCompleted) {
  ASSERT_TRUE(io::ensure_private_path(root_ + "/state/skyward"));
  EXPECT_THAT(Ledger::open_to_read(path_).value()->pools(false).value(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(path_)) << "who reads makes nothing";
  sqlite("PRAGMA user_version=0");
  EXPECT_THAT(Ledger::open_to_read(path_).value()->pools(true).value(), IsEmpty());
  sqlite(
      "CREATE TABLE pool (id TEXT PRIMARY KEY, provider TEXT);"
      "CREATE TABLE entry (key TEXT, pool TEXT, id TEXT, asked_s INTEGER);"
      "INSERT INTO pool VALUES ('aws-0', 'aws');"
      "INSERT INTO entry VALUES ('token-0', 'aws-0', 'i-0', 51);");
  const auto ledger = Ledger::open_to_read(path_);
  ASSERT_TRUE(ledger) << ledger.error().message;
  const std::vector<LedgerPool> pools = {{.id = "aws-0", .provider = "aws"}};
  EXPECT_EQ((*ledger)->pools(true).value(), pools);
  const std::vector<LedgerEntry> entries = {
      {.key = "token-0", .pool = "aws-0", .id = "i-0", .asked_s = 51}};
  EXPECT_EQ((*ledger)->entries("aws-0", true).value(), entries);
  EXPECT_FALSE((*ledger)->open_pool(pool_));
}

TEST(LatestEnd, IsThePoolsOwnOrNow) {
  EXPECT_EQ(latest_end_s({.expires_s = 1000}, {.asked_s = 10}, 500), 500) << "it may stand still";
  EXPECT_EQ(latest_end_s({.expires_s = 1000}, {.asked_s = 10}, 9000), 1120);
  EXPECT_EQ(latest_end_s({.expires_s = 1000}, {.asked_s = 2000}, 9000), 2120);
  EXPECT_EQ(latest_end_s({}, {.asked_s = 10}, 9000), 9000) << "nobody knows";
}

}  // namespace
}  // namespace skyward::provider

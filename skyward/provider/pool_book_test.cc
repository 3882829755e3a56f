#include "skyward/provider/pool_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "skyward/io/machine.h"
#include "skyward/provider/watched_ledger_fixture.h"
#include "skyward/provider/world_fixture.h"

namespace skyward::provider {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

class PoolBookTest : public ::testing::Test {
 protected:
  PoolBookTest() {
    auto opened = Ledger::open(directory_ + "/ledger.db");
    EXPECT_TRUE(opened) << opened.error().message;
    ledger_ = std::make_unique<WatchedLedger>(
        *std::move(opened), [](bool) {}, [this] { return trouble_; });
    EXPECT_TRUE(ledger_->open_pool({.id = "pool", .provider = "cloud", .region = "here"}));
    book_ = std::make_unique<PoolBook>(world_.world, *ledger_, "pool");
    EXPECT_TRUE(book_->ask({.key = "t", .kind = "instance", .count = 2}));
  }
  ~PoolBookTest() override { std::filesystem::remove_all(directory_); }

  // Ids, and the keys of what was not answered.
  static std::vector<std::string> names(const std::vector<LedgerEntry>& entries) {
    std::vector<std::string> out;
    for (const LedgerEntry& one : entries) out.push_back(one.id.empty() ? one.key : one.id);
    return out;
  }
  std::vector<std::string> open() { return names(book_->open_entries()); }
  std::vector<std::string> open_in_ledger() { return names(*ledger_->entries("pool", true)); }
  void enter(const std::string& key, const std::string& id) {
    EXPECT_TRUE(ledger_->ask({.key = key, .pool = "pool", .kind = "instance", .id = id}));
  }

  const Status full_ = fail(ErrorKind::unavailable, "the disk is full");
  const std::string directory_ = ::testing::TempDir() + "skyward-book-" + io::random_hex(8);
  WorldFixture world_;
  Status trouble_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<PoolBook> book_;
};

TEST_F(PoolBookTest, LeftoversHaveNoAnswerOrAreReleasedAndNotGone) {
  EXPECT_TRUE(book_->has_leftovers());
  EXPECT_TRUE(book_->made("t", {"a1"}));
  EXPECT_TRUE(book_->has_leftovers()) << "it is one of two";
  EXPECT_TRUE(book_->made("t", {"a1", "a2"}));
  EXPECT_FALSE(book_->has_leftovers());
  book_->note_wasted({"a1"});
  book_->note_wasted({"a1"});
  EXPECT_EQ(book_->wasted().size(), 1U) << "it costs once";
  EXPECT_TRUE(book_->has_leftovers());
  book_->gone({"a1"});
  EXPECT_FALSE(book_->has_leftovers());
}

TEST_F(PoolBookTest, WhatAnotherProcessEnteredIsOpenToo) {
  EXPECT_TRUE(book_->made("t", {"a1", "a2"}));
  enter("of another", "x1");
  enter("not answered", "");
  EXPECT_THAT(open(), UnorderedElementsAre("a1", "a2", "x1", "not answered"));
  trouble_ = full_;
  EXPECT_THAT(open(), UnorderedElementsAre("a1", "a2")) << "what is known without the ledger";
}

TEST_F(PoolBookTest, WhatIsGoneIsNotOpenThoughTheLedgerHasNotHeardOfIt) {
  EXPECT_TRUE(book_->made("t", {"a1", "a2"}));
  enter("not answered", "");
  trouble_ = full_;
  book_->gone({"a1", "not answered"});
  trouble_ = {};
  EXPECT_THAT(open(), ElementsAre("a2"));
  EXPECT_THAT(open_in_ledger(), UnorderedElementsAre("a1", "a2", "not answered"));
}

TEST_F(PoolBookTest, AMachinesTimeIsThatOfItsOwnRequestAndEnd) {
  using namespace std::chrono_literals;
  world_.now += 100s;
  EXPECT_TRUE(book_->ask({.key = "u", .kind = "instance", .count = 2}));
  world_.now += 10s;
  EXPECT_TRUE(book_->made("u", {"b1", "b2"}));
  world_.now += 20s;
  book_->see_gone("b1");
  world_.now += 30s;
  book_->gone({"b1"});
  EXPECT_THAT(book_->times_of({"b1", "b2", "of another"}),
              ElementsAre(Charge{.instance = "b1", .began = 60s, .ended = 30s},
                          Charge{.instance = "b2", .began = 60s}));
}

TEST_F(PoolBookTest, TimeAsleepIsOfAMachinesTime) {
  using namespace std::chrono_literals;
  EXPECT_TRUE(book_->made("t", {"a1", "a2"}));
  world_.now += 3min;
  world_.asleep += 8h;
  EXPECT_THAT(book_->times_of({"a1"}), ElementsAre(Charge{.instance = "a1", .began = 8h + 3min}));
  book_->see_gone("a1");
  world_.asleep += 1h;
  EXPECT_THAT(book_->times_of({"a1"}),
              ElementsAre(Charge{.instance = "a1", .began = 9h + 3min, .ended = 1h}));
  EXPECT_EQ(book_->age_of({.key = "t"}), 9h + 3min);
}

TEST_F(PoolBookTest, TheLedgerLearnsAMachinesOwnPrice) {
  EXPECT_TRUE(book_->made("t", {"a1", "a2"}));
  book_->note_price("a2", 2'500'000);
  const auto entries = ledger_->entries("pool", false);
  ASSERT_TRUE(entries);
  for (const LedgerEntry& entry : *entries) {
    EXPECT_EQ(entry.hourly_micro_dollars, entry.id == "a2" ? 2'500'000 : 0) << entry.id;
  }
}

TEST_F(PoolBookTest, AMachineThatIsTakenBackEarlyIsFreeInTheLedger) {
  using namespace std::chrono_literals;
  EXPECT_TRUE(book_->made("t", {"a1", "a2"}));
  world_.now += 30min;
  book_->see_gone("a1");
  world_.now += 30min;
  book_->see_gone("a2");
  for (const char* id : {"a1", "a2"}) book_->note_taken_back(id, 1h);
  const auto entries = ledger_->entries("pool", false);
  ASSERT_TRUE(entries);
  for (const LedgerEntry& entry : *entries) {
    EXPECT_EQ(entry.hourly_micro_dollars, entry.id == "a1" ? kTakenBackFree : 0) << entry.id;
  }
}

TEST_F(PoolBookTest, AnEndSoonAfterALookIsNoLatestOne) {
  using namespace std::chrono_literals;
  EXPECT_TRUE(book_->made("t", {"a1", "a2"}));
  world_.asleep += 5min;
  book_->see_gone("a1", {.unseen = true});
  world_.asleep += 1h;
  book_->see_gone("a2", {.unseen = true});
  book_->gone({"a1", "a2"});
  const auto entries = ledger_->entries("pool", false);
  ASSERT_TRUE(entries);
  for (const LedgerEntry& entry : *entries) EXPECT_EQ(entry.gone_late, entry.id == "a2");
}

// Where nobody looks at what stands, the pool notices an end within seconds.
TEST_F(PoolBookTest, AnEndWhileThisComputerIsAwakeIsNoLatestOne) {
  using namespace std::chrono_literals;
  EXPECT_TRUE(book_->made("t", {"a1", "a2"}));
  world_.now += 5h;
  book_->see_gone("a1", {.unseen = true});
  book_->set_longest_unseen(20min);
  book_->see_gone("a2", {.unseen = true});
  book_->gone({"a1", "a2"});
  const auto entries = ledger_->entries("pool", false);
  ASSERT_TRUE(entries);
  for (const LedgerEntry& entry : *entries) EXPECT_EQ(entry.gone_late, entry.id == "a2");
}

// Its link renews the lease, though the cloud answers no look.
TEST_F(PoolBookTest, AMachineThatMayHaveHeardFromThisComputerEndsWhenItIsMissed) {
  using namespace std::chrono_literals;
  EXPECT_TRUE(book_->made("t", {"a1", "a2"}));
  book_->set_longest_unseen(20min);
  world_.now += 3h;
  book_->see_gone("a1", {.unseen = true});
  EXPECT_EQ(book_->times_of({"a1"}).front().ended, 0s);
  book_->miss("a2");
  EXPECT_THAT(book_->standing({"a2"}), ElementsAre("a2")) << "one look may be wrong";
  world_.now += 5min;
  book_->miss("a2");
  EXPECT_THAT(book_->standing({"a2"}), IsEmpty());
  EXPECT_EQ(book_->times_of({"a2"}).front().ended, 0s);
}

TEST_F(PoolBookTest, AMachineThatIsMissingStandsUntilItMustHaveEndedItself) {
  using namespace std::chrono_literals;
  EXPECT_TRUE(book_->made("t", {"a1", "a2"}));
  book_->set_longest_unseen(20min);
  const std::vector<std::string> both = {"a1", "a2"};
  world_.now += 10min;
  book_->see_standing("a1");
  book_->see_standing("a2");
  world_.now += 20min;
  book_->miss("a1");
  EXPECT_EQ(book_->standing(both), both);
  world_.asleep += 1h;
  book_->miss("a1");
  EXPECT_THAT(book_->standing(both), ElementsAre("a2"));
  EXPECT_EQ(book_->times_of({"a1"}).front().ended, 1h);
  book_->see_standing("a1");
  EXPECT_EQ(book_->standing(both), both) << "it was not listed for a while";
}

TEST_F(PoolBookTest, AnAnswerThatCouldNotBeWrittenIsKnown) {
  trouble_ = full_;
  EXPECT_FALSE(book_->made("t", {"a1", "a2"}));
  trouble_ = {};
  EXPECT_THAT(open_in_ledger(), ElementsAre("t"));
  EXPECT_THAT(open(), ElementsAre("a1", "a2")) << "and nothing more of that request";
}

TEST_F(PoolBookTest, OfAnAnswerWithFewerMachinesTheRestIsOpen) {
  EXPECT_TRUE(book_->made("t", {"a1"}));
  EXPECT_THAT(open(), UnorderedElementsAre("a1", "t"));
  EXPECT_TRUE(book_->made("t", {"a1"}));
  EXPECT_THAT(open(), UnorderedElementsAre("a1", "t")) << "told twice";
  EXPECT_TRUE(book_->made("t", {"a1", "a2"}));
  EXPECT_THAT(open(), UnorderedElementsAre("a1", "a2"));
}

}  // namespace
}  // namespace skyward::provider

#include "skyward/provider/renting/side_resources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "skyward/io/machine.h"
#include "skyward/provider/world_fixture.h"

namespace skyward::provider {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Knows what it made after a while, and may lose its replies.
class Locksmith final : public SideResourceKind {
 public:
  explicit Locksmith(WorldFixture& world) : world_(world) {}

  std::string_view kind() const override { return "ssh_key"; }
  bool costs() const override { return is_costly; }
  ApiResult<std::string> create(const std::string& name, Time) override {
    if (refusal) {
      return std::unexpected(ApiError{.refusal = *refusal,
                                      .heard = Heard::answered,
                                      .message = "no keys today",
                                      .status = 422});
    }
    if (nameless) return std::string();
    if (deaf > 0) {
      --deaf;
      return std::unexpected(ApiError{.message = "cut off", .maybe_done = true});
    }
    const std::string id = "k" + std::to_string(++count_);
    keys[id] = {name, world_.now};
    if (loses_reply) return std::unexpected(ApiError{.message = "cut off", .maybe_done = true});
    return id;
  }
  ApiResult<std::vector<SideResource>> list(Time) override {
    if (blind) return std::unexpected(ApiError{.message = "you may not look"});
    std::vector<SideResource> out;
    for (const auto& [id, key] : keys) {
      if (world_.now - key.at >= lag) out.push_back({.id = id, .name = key.name});
    }
    return out;
  }
  ApiResult<void> remove(const std::string& id, Time) override {
    removed.push_back(id);
    const auto at = keys.find(id);
    const bool known = at != keys.end() && world_.now - at->second.at >= lag;
    if (!known) return std::unexpected(ApiError{.refusal = Refusal::not_found});
    if (used.contains(id)) return std::unexpected(ApiError{.refusal = Refusal::conflict});
    keys.erase(at);
    return {};
  }

  struct Key {
    std::string name;
    Time at{};
  };
  std::map<std::string, Key> keys;
  std::set<std::string> used;
  std::vector<std::string> removed;
  std::optional<Refusal> refusal;
  bool is_costly = false;
  bool loses_reply = false;
  bool nameless = false;  // its replies have no id, and nothing was made
  bool blind = false;
  int deaf = 0;  // it does not hear so many requests
  Duration lag{};

 private:
  WorldFixture& world_;
  int count_ = 0;
};

class SideResourcesTest : public ::testing::Test {
 protected:
  SideResourcesTest() {
    auto opened = Ledger::open(directory_ + "/ledger.db");
    EXPECT_TRUE(opened) << opened.error().message;
    ledger_ = *std::move(opened);
    EXPECT_TRUE(ledger_->open_pool({.id = mark_.pool, .provider = "cloud", .region = "here"}));
    book_.emplace(world_.world, *ledger_, mark_.pool);
  }
  ~SideResourcesTest() override { std::filesystem::remove_all(directory_); }

  Result<std::string> make() {
    return make_resource("the cloud", *book_, smith_, mark_, world_.now + 60s);
  }
  Result<std::vector<std::string>> remove() {
    const std::array<SideResourceKind*, 1> kinds = {&smith_};
    return remove_resources("the cloud", "cloud", *book_, kinds, world_.now + 120s);
  }
  std::vector<std::string> open_in_ledger() {
    std::vector<std::string> out;
    const auto entries = ledger_->entries(mark_.pool, true);
    for (const LedgerEntry& entry : *entries) {
      out.push_back(entry.id.empty() ? "unanswered" : entry.id);
    }
    return out;
  }

  const Mark mark_{.pool = "cloud-1a2b3c4d", .owner = "3f2a1b7c", .expires_s = 1'700'000'000};
  const std::string directory_ = ::testing::TempDir() + "skyward-side-" + io::random_hex(8);
  WorldFixture world_;
  std::unique_ptr<Ledger> ledger_;
  std::optional<PoolBook> book_;
  Locksmith smith_{world_};
};

TEST_F(SideResourcesTest, IsInTheLedgerUntilItIsRemoved) {
  const auto id = make();
  ASSERT_TRUE(id) << id.error().message;
  EXPECT_THAT(open_in_ledger(), ElementsAre(*id));
  EXPECT_EQ(smith_.keys[*id].name, "skyward-1a2b3c4d-3f2a1b7c-6553f100-ssh-key");
  EXPECT_THAT(*remove(), IsEmpty());
  EXPECT_THAT(smith_.keys, IsEmpty());
  EXPECT_THAT(open_in_ledger(), IsEmpty());
}

TEST_F(SideResourcesTest, WhatARequestWithoutAnAnswerMadeIsFound) {
  smith_.loses_reply = true;
  const auto id = make();
  ASSERT_TRUE(id) << id.error().message;
  EXPECT_EQ(*id, "k1");
  EXPECT_THAT(smith_.keys, SizeIs(1)) << "it was requested once";
}

TEST_F(SideResourcesTest, ARequestThatNobodyHeardIsMadeAgain) {
  smith_.deaf = 2;
  const auto id = make();
  ASSERT_TRUE(id) << id.error().message;
  EXPECT_THAT(smith_.keys, SizeIs(1));
}

TEST_F(SideResourcesTest, AnAccountThatNeverAnswersIsNotAskedForever) {
  smith_.deaf = 100;
  EXPECT_FALSE(make());
  EXPECT_GT(smith_.deaf, 90);
}

TEST_F(SideResourcesTest, RepliesWithoutAnIdAreNotAskedForForever) {
  smith_.nameless = true;
  const auto made = make();
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("no id"));
}

TEST_F(SideResourcesTest, WhatIsNotListedYetIsRemovedLater) {
  smith_.loses_reply = true;
  smith_.lag = 30s;
  EXPECT_FALSE(make());
  EXPECT_THAT(open_in_ledger(), ElementsAre("unanswered"));
  EXPECT_THAT(*remove(), IsEmpty());
  EXPECT_THAT(open_in_ledger(), ElementsAre("unanswered")) << "it may still appear";
  world_.now += 60s;
  EXPECT_THAT(*remove(), IsEmpty());
  EXPECT_THAT(smith_.keys, IsEmpty());
  EXPECT_THAT(open_in_ledger(), IsEmpty());
}

TEST_F(SideResourcesTest, WhatNeverAppearedIsStruckOff) {
  EXPECT_TRUE(book_->ask({.key = "skyward-1a2b3c4d-3f2a1b7c-6553f100-ssh-key", .kind = "ssh_key"}));
  world_.now += 61s;
  EXPECT_THAT(*remove(), IsEmpty());
  EXPECT_THAT(open_in_ledger(), IsEmpty());
}

TEST_F(SideResourcesTest, ARefusalLeavesNothingOpen) {
  smith_.refusal = Refusal::quota;
  const auto id = make();
  ASSERT_FALSE(id);
  EXPECT_THAT(id.error().message, HasSubstr("the cloud: creating the ssh key: no keys today"));
  EXPECT_THAT(open_in_ledger(), IsEmpty());
}

TEST_F(SideResourcesTest, OneThatIsMadeAMomentAgoIsNotGoneForBeingUnknown) {
  smith_.lag = 20s;
  ASSERT_TRUE(make());
  EXPECT_THAT(*remove(), IsEmpty());
  EXPECT_THAT(smith_.keys, IsEmpty());
}

TEST_F(SideResourcesTest, WhatIsNoLongerNeededAndIsGoneAlreadyIsStruckOff) {
  ASSERT_TRUE(make());
  const auto removed = [&] { return remove_early(*book_, smith_, "k1", world_.now + 10s); };
  smith_.keys.clear();
  EXPECT_FALSE(removed()) << "it may not be known yet";
  EXPECT_THAT(open_in_ledger(), ElementsAre("k1"));
  world_.now += 61s;
  EXPECT_TRUE(removed());
  EXPECT_THAT(open_in_ledger(), IsEmpty());
}

TEST_F(SideResourcesTest, WhatIsInUseStaysInTheBook) {
  ASSERT_TRUE(make());
  smith_.used = {"k1"};
  EXPECT_THAT(*remove(), ElementsAre("k1"));
  EXPECT_THAT(open_in_ledger(), ElementsAre("k1"));
}

TEST_F(SideResourcesTest, WhatIsInUseAndCostsIsWaitedForAndThenAFailure) {
  ASSERT_TRUE(make());
  smith_.used = {"k1"};
  const Time begin = world_.now;
  ASSERT_TRUE(remove());
  EXPECT_LT(world_.now - begin, 30s);
  smith_.is_costly = true;
  const Time again = world_.now;
  EXPECT_THAT(remove().error().message, HasSubstr("k1 is still in use"));
  EXPECT_GT(world_.now - again, 100s);
  EXPECT_THAT(open_in_ledger(), ElementsAre("k1"));
}

TEST_F(SideResourcesTest, WhatAnEarlierRequestMadeIsNoConflict) {
  smith_.keys["k7"] = {resource_name(smith_, mark_, 0), world_.now};
  smith_.refusal = Refusal::conflict;
  const auto id = make();
  ASSERT_TRUE(id) << id.error().message;
  EXPECT_EQ(*id, "k7");
  EXPECT_THAT(open_in_ledger(), ElementsAre("k7"));
}

TEST_F(SideResourcesTest, AnotherPoolsAndStrangersStay) {
  smith_.keys["k7"] = {"skyward-99999999-3f2a1b7c-6553f100-ssh-key", world_.now};
  smith_.keys["k8"] = {"my laptop", world_.now};
  ASSERT_TRUE(make());
  EXPECT_THAT(*remove(), IsEmpty());
  EXPECT_THAT(smith_.keys, SizeIs(2));
  EXPECT_THAT(smith_.removed, ElementsAre("k1"));
}

TEST_F(SideResourcesTest, AListThatCannotBeReadIsNotAnEmptyOne) {
  ASSERT_TRUE(make());
  smith_.blind = true;
  const auto kept = remove();
  ASSERT_FALSE(kept);
  EXPECT_THAT(kept.error().message, HasSubstr("you may not look"));
  EXPECT_THAT(open_in_ledger(), ElementsAre("k1"));
}

}  // namespace
}  // namespace skyward::provider

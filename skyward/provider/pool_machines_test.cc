#include "skyward/provider/pool_machines.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "skyward/io/machine.h"
#include "skyward/provider/watched_ledger_fixture.h"
#include "skyward/provider/world_fixture.h"

namespace skyward::provider {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Sells in "a" and "b", boots in no time, lists after a while, ends in 10 s.
class Shop final : public MachineApi {
 public:
  explicit Shop(WorldFixture& world) : world_(world) {}

  const MachineApiFacts& facts() const override { return facts_; }

  std::expected<std::vector<std::string>, LaunchRefusal> launch(const LaunchBatch& batch,
                                                                Time) override {
    counts.push_back(batch.count);
    if (on_launch) on_launch();
    if (deaf > 0) {
      --deaf;
      return std::unexpected(LaunchRefusal{{{silence, "no answer"}}});
    }
    const bool refused = full.contains(batch.place.type) ||
                         (sold_out_after > 0 && std::ssize(counts) > sold_out_after);
    if (refused && !loses_replies) return std::unexpected(no_room(!is_answered, is_answered));
    std::vector<std::string> ids;
    for (int i = 0; i < batch.count; ++i) {
      ids.push_back(fmt::format("{}{}", batch.place.type, sold.size() + 1));
      sold[ids.back()] = {.token = batch.token, .type = batch.place.type, .at = world_.now};
    }
    if (refused) return std::unexpected(no_room(false, is_answered));
    if (tells_too_few) ids.pop_back();
    if (is_silent) return std::unexpected(LaunchRefusal{{{silence, "no answer"}}});
    return ids;
  }

  Result<std::vector<MachineStatus>> find(std::string_view token, Time) override {
    if (blind) return fail(ErrorKind::denied, "you may not look");
    std::vector<MachineStatus> out;
    if (shows_nothing) return out;
    for (const auto& [id, one] : sold) {
      const bool listed = world_.now - one.at >= lag && world_.now < one.ended + 1h;
      if (vanished.contains(id)) continue;
      if (listed && (token.empty() || token == one.token)) out.push_back(status_of(id, one));
    }
    return out;
  }

  Result<std::vector<MachineStatus>> look_up(const std::vector<std::string>& ids,
                                             Time time) override {
    if (is_off && is_off()) return fail(ErrorKind::unavailable, "the shop does not answer");
    auto found = find("", time);
    if (!found) return found;
    std::erase_if(*found, [&](const MachineStatus& one) {
      return std::ranges::find(ids, one.instance.id) == ids.end();
    });
    return found;
  }

  Result<std::vector<std::string>> terminate(const std::vector<std::string>& ids, Time) override {
    std::vector<std::string> known;
    for (const std::string& id : ids) {
      const auto at = sold.find(id);
      if (at == sold.end() || world_.now - at->second.at < lag || vanished.contains(id)) continue;
      known.push_back(id);
      if (stubborn.contains(id)) continue;
      at->second.ended = std::min(at->second.ended, world_.now + 10s);
    }
    return known;
  }

  std::vector<std::string> standing_ids() const {
    std::vector<std::string> out;
    for (const auto& [id, one] : sold) {
      if (one.ended == kForever) out.push_back(id);
    }
    return out;
  }

  struct Sold {
    std::string token, type;
    Time at{};
    Time ended = kForever;  // or will have
  };
  static constexpr Time kForever = Time{} + 100'000h;

  Duration lag{};
  std::set<std::string> full;     // types
  std::set<std::string> dead;     // types whose machines end at once
  std::set<std::string> off;      // ... are stopped at once
  std::set<std::string> failing;  // machines that end at once
  bool is_hopeless = false;       // ... as all others would
  std::vector<int> counts;        // of the requests
  int sold_out_after = 0;         // requests; 0: never
  std::set<std::string> stubborn;
  std::set<std::string> slow;      // machines that never run
  std::set<std::string> vanished;  // machines that nobody knows any more
  bool loses_replies = false;      // "no" is said although there were machines
  bool is_answered = false;        // ... in the cloud's own words
  bool tells_too_few = false;
  bool is_silent = false;  // it obeys, and nobody answers
  int deaf = 0;            // it does not hear so many requests
  ErrorKind silence = ErrorKind::unavailable;
  bool blind = false;
  bool shows_nothing = false;         // its listings are empty, whatever stands
  Duration boot{};                    // how long a machine is pending
  std::optional<double> price;        // of a machine that is not stopped
  std::optional<std::int64_t> end_s;  // of each that has terminated, as it is told
  std::function<bool()> is_off;       // nobody can be asked about machines by their ids
  std::function<void()> on_launch;
  std::map<std::string, Sold> sold;

 private:
  static LaunchRefusal no_room(bool certain, bool doubtful = false) {
    return {.why = {.error = {ErrorKind::exhausted, "no room"}, .capacity = true},
            .code = "Full",
            .certain = certain,
            .doubtful = doubtful};
  }

  MachineStatus status_of(const std::string& id, const Sold& one) const {
    MachineStatus out{
        .instance = {.id = id}, .zone = "z", .stage = Stage::running, .capacity = true};
    out.instance.instance_type = one.type;
    if (world_.now - one.at < boot || slow.contains(id)) out.stage = Stage::pending;
    if (one.ended != kForever)
      out.stage = world_.now < one.ended ? Stage::terminating : Stage::terminated;
    if (dead.contains(one.type)) out.stage = Stage::terminated;
    if (failing.contains(id)) {
      out.stage = Stage::terminated;
      out.capacity = !is_hopeless;
    }
    if (off.contains(one.type) && out.stage == Stage::running) out.stage = Stage::stopped;
    if (out.stage == Stage::terminated) out.ended_s = end_s;
    if (price) out.instance.price_on_demand = out.stage < Stage::stopped ? *price : 0.1;
    return out;
  }

  WorldFixture& world_;

 public:
  MachineApiFacts facts_{.cloud = "the shop",
                         .region = "here",
                         .listing_lag = 60s,
                         .known_after = 300s,
                         .release_time = 300s,
                         .unanswered_limit_s = 900,
                         .doubt = 60s};
};

class StockTest : public ::testing::Test {
 protected:
  StockTest() {
    auto opened = Ledger::open(directory_ + "/ledger.db");
    EXPECT_TRUE(opened) << opened.error().message;
    ledger_ = std::make_unique<WatchedLedger>(
        *std::move(opened), [](bool) {}, [this] { return trouble_; });
    EXPECT_TRUE(ledger_->open_pool({.id = "pool", .provider = "shop", .region = "here"}));
    book_.emplace(world_.world, *ledger_, "pool");
    spec_.count = 2;
    spec_.spot = Spot::Never();
    spec_.spot.retries = 1;
    spec_.places = {{.type = "a", .zone = "z", .on_demand_price = 3.0},
                    {.type = "b", .zone = "z", .on_demand_price = 4.0}};
  }
  ~StockTest() override { std::filesystem::remove_all(directory_); }

  PoolMachines pool_machines() { return {*book_, shop_}; }
  Result<std::vector<std::string>> launch() {
    const auto machines = pool_machines().launch(spec_, world_.now + 600s);
    if (!machines) return fail(machines);
    std::vector<std::string> ids;
    for (const MachineStatus& one : *machines) ids.push_back(one.instance.id);
    return ids;
  }
  std::vector<std::string> open_in_ledger() {
    std::vector<std::string> out;
    const auto entries = ledger_->entries("pool", true);
    for (const LedgerEntry& entry : *entries) {
      out.push_back(entry.id.empty() ? "unanswered" : entry.id);
    }
    return out;
  }
  bool is_closed() { return ledger_->pools(true)->empty(); }

  const std::string directory_ = ::testing::TempDir() + "skyward-machines-" + io::random_hex(8);
  WorldFixture world_;
  Shop shop_{world_};
  Status trouble_;
  std::unique_ptr<Ledger> ledger_;
  std::optional<PoolBook> book_;
  LaunchSpec spec_;
};

TEST_F(StockTest, AnEndThatNobodySawIsALatestOne) {
  const auto ids = launch();
  ASSERT_TRUE(ids);
  shop_.vanished = {"a1"};
  world_.asleep += 1h;
  world_.wall_s += 3600;
  ASSERT_TRUE(pool_machines().terminate(*ids, world_.now + 60s));
  const auto entries = ledger_->entries("pool", false);
  ASSERT_TRUE(entries);
  for (const LedgerEntry& entry : *entries) {
    EXPECT_EQ(entry.gone_s, world_.wall_s);
    EXPECT_EQ(entry.gone_late, entry.id == "a1") << entry.id;
  }
}

TEST_F(StockTest, TheCloudsMomentOfTheEndIsTheLedgers) {
  const auto ids = launch();
  ASSERT_TRUE(ids);
  world_.now += 1h;
  world_.wall_s += 3600;
  shop_.end_s = world_.wall_s - 600;
  for (auto& [id, one] : shop_.sold) one.ended = world_.now;
  ASSERT_TRUE(pool_machines().terminate(*ids, world_.now + 60s));
  const auto entries = ledger_->entries("pool", false);
  ASSERT_TRUE(entries);
  for (const LedgerEntry& entry : *entries) {
    EXPECT_EQ(entry.gone_s, world_.wall_s - 600);
    EXPECT_FALSE(entry.gone_late);
  }
  for (const Charge& charge : book_->times_of(*ids)) EXPECT_EQ(charge.ended, 600s);
}

TEST_F(StockTest, MoreThanOneRequestCanCarryComesInBatches) {
  shop_.facts_.most_per_batch = 2;
  spec_.count = 5;
  const auto ids = launch();
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_THAT(shop_.counts, ElementsAre(2, 2, 1));
  EXPECT_THAT(*ids, ElementsAre("a1", "a2", "a3", "a4", "a5"));
  EXPECT_THAT(open_in_ledger(), SizeIs(5));
  EXPECT_NE(shop_.sold["a1"].token, shop_.sold["a3"].token) << "each is found by its own mark";
}

TEST_F(StockTest, WhenABatchIsRefusedThoseBeforeItAreReleased) {
  shop_.facts_.most_per_batch = 2;
  shop_.sold_out_after = 2;
  spec_.count = 5;
  EXPECT_FALSE(launch());
  EXPECT_THAT(shop_.sold, SizeIs(4));
  EXPECT_THAT(shop_.standing_ids(), IsEmpty());
  EXPECT_THAT(open_in_ledger(), IsEmpty());
}

TEST_F(StockTest, WhatIsPaidForIsNotLaunchedInVainTwice) {
  shop_.facts_.most_per_batch = 1;
  spec_.spot = Spot::Always(3);
  shop_.on_launch = [this] {
    const bool is_second = shop_.counts.size() % 2 == 0;
    shop_.full = is_second ? std::set<std::string>{"a", "b"} : std::set<std::string>{};
  };
  EXPECT_FALSE(launch());
  EXPECT_THAT(shop_.sold, SizeIs(6)) << "one of each type in each round";
  shop_.facts_.runs_first = true;
  EXPECT_FALSE(launch());
  EXPECT_THAT(shop_.sold, SizeIs(6 + 2));
  EXPECT_THAT(shop_.standing_ids(), IsEmpty());
}

TEST_F(StockTest, NoBatchIsRequestedForAPoolThatCloses) {
  shop_.facts_.most_per_batch = 1;
  shop_.on_launch = [this] { world_.world.launching.request_stop(); };
  EXPECT_EQ(launch().error().kind, ErrorKind::cancelled);
  EXPECT_THAT(shop_.counts, ElementsAre(1));
  EXPECT_THAT(shop_.standing_ids(), IsEmpty());
}

TEST_F(StockTest, WhatComesOfARequestWithoutAnAnswerIsReleasedWhenThePoolCloses) {
  shop_.is_silent = true;
  shop_.on_launch = [this] { world_.world.launching.request_stop(); };
  EXPECT_FALSE(launch());
  EXPECT_THAT(shop_.sold, SizeIs(2));
  EXPECT_THAT(shop_.standing_ids(), IsEmpty());
  EXPECT_THAT(open_in_ledger(), IsEmpty());
}

TEST_F(StockTest, ARefusalIsNotTriedAgainInTheSamePlace) {
  shop_.facts_.launch_tries = 2;
  shop_.full = {"a"};
  shop_.is_answered = true;  // it is not certain
  EXPECT_THAT(*launch(), ElementsAre("b1", "b2"));
  EXPECT_THAT(shop_.counts, ElementsAre(2, 2));
}

// The second request brings one of two, and the third, for the rest, nothing.
TEST_F(StockTest, APartThatIsReleasedCostsSomethingAllTheSame) {
  spec_.spot = Spot::Percent(0.5);
  spec_.spot.retries = 1;
  spec_.places.pop_back();
  shop_.on_launch = [this] {
    shop_.full = shop_.counts.size() == 2 ? std::set<std::string>() : std::set<std::string>{"a"};
  };
  EXPECT_FALSE(launch());
  EXPECT_THAT(shop_.counts, ElementsAre(2, 1, 1));
  EXPECT_THAT(shop_.standing_ids(), IsEmpty());
  EXPECT_THAT(book_->wasted(), SizeIs(1));
}

TEST_F(StockTest, MachinesThatStartAreWaitedForWhileACloudIsOffForAMoment) {
  shop_.facts_.patience = 60s;
  shop_.boot = 9min;
  const Time off = world_.now + 5min;
  shop_.is_off = [&] { return world_.now >= off && world_.now < off + 50s; };
  EXPECT_THAT(*launch(), SizeIs(2));
  EXPECT_GT(world_.now, off + 50s);

  const Time begin = world_.now;
  shop_.is_off = [&] {
    return world_.now >= begin + 5min && shop_.sold["a3"].ended == Shop::kForever;
  };
  EXPECT_THAT(launch().error().message, HasSubstr("the shop does not answer"));
  EXPECT_LT(world_.now - begin, 7min) << "not for ever";
  EXPECT_GT(world_.now - begin, 5min + 50s);
}

TEST_F(StockTest, ALaunchLeavesTheMachinesOfTheOneBefore) {
  ASSERT_TRUE(launch());
  ASSERT_TRUE(launch());
  EXPECT_THAT(shop_.standing_ids(), ElementsAre("a1", "a2", "a3", "a4"));
}

TEST_F(StockTest, ALaunchStrikesOffOnlyRequestsForMachines) {
  ASSERT_TRUE(book_->ask({.key = "key", .kind = "ssh_key"}));
  world_.now += 2h;
  ASSERT_TRUE(launch());
  EXPECT_THAT(open_in_ledger(), SizeIs(3)) << "the key may still appear";
}

TEST_F(StockTest, MachinesWithThePoolsMarkEndThoughNobodyKnowsThem) {
  ASSERT_TRUE(launch());
  shop_.sold["x1"] = {.token = "another process's", .type = "a"};
  EXPECT_TRUE(pool_machines().terminate_all(world_.now + 60s));
  EXPECT_THAT(shop_.standing_ids(), IsEmpty());
}

// The program was killed before the reply came.
TEST_F(StockTest, MachinesOfARequestThatNobodyAnsweredAreInTheLedgerWhenTheyEnd) {
  ASSERT_TRUE(book_->ask({.key = "token",
                          .kind = "instance",
                          .count = 2,
                          .instance_type = "a",
                          .hourly_micro_dollars = 3'000'000}));
  for (const char* id : {"x1", "x2"}) shop_.sold[id] = {.token = "token", .type = "a"};
  EXPECT_TRUE(pool_machines().terminate_all(world_.now + 60s));
  EXPECT_THAT(shop_.standing_ids(), IsEmpty());
  EXPECT_THAT(open_in_ledger(), IsEmpty());
  const auto entries = ledger_->entries("pool", false);
  ASSERT_THAT(*entries, SizeIs(2));
  for (const LedgerEntry& entry : *entries) {
    EXPECT_THAT(entry.id, ::testing::StartsWith("x"));
    EXPECT_EQ(entry.hourly_micro_dollars, 3'000'000);
    EXPECT_TRUE(entry.gone_s);
  }
}

// One of the two machines is never listed: those of another request would come on top of it.
TEST_F(StockTest, ARequestOfWhichAPartHasComeIsNotMadeAgain) {
  shop_.facts_.launch_tries = 2;
  shop_.is_silent = true;
  shop_.lag = 20s;
  const auto pause = world_.world.pause;
  world_.world.pause = [&](Duration duration, const std::stop_token& stop) {
    shop_.sold.erase("a2");
    pause(duration, stop);
  };
  EXPECT_FALSE(launch());
  EXPECT_THAT(shop_.counts, ElementsAre(2));
  EXPECT_THAT(shop_.standing_ids(), IsEmpty());
}

TEST_F(StockTest, ALaunchThatNobodyAnsweredIsKeptWhenItsMachinesAppear) {
  shop_.is_silent = true;
  shop_.lag = 20s;
  const auto ids = launch();
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_THAT(*ids, ElementsAre("a1", "a2"));
  EXPECT_THAT(shop_.counts, ElementsAre(2)) << "it was asked for once";
  EXPECT_THAT(open_in_ledger(), ElementsAre("a1", "a2"));
}

TEST_F(StockTest, AMachineOfARequestWithoutAnAnswerInTimeIsKept) {
  shop_.silence = ErrorKind::timeout;
  shop_.is_silent = true;
  shop_.lag = 20s;
  const auto ids = launch();
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_THAT(*ids, ElementsAre("a1", "a2"));
  EXPECT_THAT(shop_.counts, ElementsAre(2));

  shop_.is_silent = false;
  shop_.deaf = 1;
  shop_.facts_.launch_tries = 2;
  EXPECT_THAT(*launch(), ElementsAre("a3", "a4")) << "nothing came of it, so it is repeated";

  shop_.is_silent = true;
  shop_.on_launch = [this] { world_.now += 600s; };
  EXPECT_EQ(launch().error().kind, ErrorKind::timeout) << "no time is left";
  EXPECT_THAT(shop_.standing_ids(), ElementsAre("a1", "a2", "a3", "a4"));
}

TEST_F(StockTest, ALaunchThatNobodyHeardIsTriedAgainWhereItMayBe) {
  shop_.deaf = 2;
  EXPECT_FALSE(launch()) << "the cloud's requests are repeated by themselves";
  EXPECT_EQ(shop_.deaf, 1);
  shop_.facts_.launch_tries = 2;
  const auto ids = launch();
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_THAT(*ids, SizeIs(2));
  EXPECT_THAT(shop_.sold, SizeIs(2));
}

TEST_F(StockTest, ALaunchIsNotTriedAgainWhileNobodyCanLookForItsMachines) {
  shop_.facts_.launch_tries = 2;
  shop_.is_silent = shop_.blind = true;
  EXPECT_FALSE(launch());
  EXPECT_THAT(shop_.counts, ElementsAre(2)) << "its machines may stand";

  shop_.is_silent = shop_.blind = false;
  EXPECT_THAT(*launch(), ElementsAre("a3", "a4"));
  EXPECT_THAT(shop_.standing_ids(), ElementsAre("a3", "a4")) << "nobody wants the first two now";
  EXPECT_THAT(open_in_ledger(), ElementsAre("a3", "a4"));
  EXPECT_THAT(book_->wasted(), SizeIs(2)) << "they cost all the same";
}

TEST_F(StockTest, AMachineThatIsStoppedIsReleased) {
  shop_.off = {"a"};
  const auto ids = launch();
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_THAT(*ids, ElementsAre("b3", "b4"));
  EXPECT_THAT(shop_.standing_ids(), ElementsAre("b3", "b4"));
  EXPECT_THAT(open_in_ledger(), ElementsAre("b3", "b4"));
}

TEST_F(StockTest, WhatIsLaunchedIsInTheLedgerUntilItHasEnded) {
  const auto machines = pool_machines().launch(spec_, world_.now + 600s);
  ASSERT_TRUE(machines) << machines.error().message;
  EXPECT_EQ(machines->front().instance.price_on_demand, 3.0);
  EXPECT_THAT(open_in_ledger(), ElementsAre("a1", "a2"));
  EXPECT_TRUE(pool_machines().terminate({"a1"}, world_.now + 60s));
  EXPECT_GE(world_.now, shop_.sold["a1"].ended) << "it costs until then";
  EXPECT_THAT(open_in_ledger(), ElementsAre("a2"));
  EXPECT_TRUE(pool_machines().terminate_all(world_.now + 60s));
  EXPECT_THAT(open_in_ledger(), IsEmpty());
  EXPECT_TRUE(pool_machines().close_when_clear());
  EXPECT_TRUE(is_closed());
}

TEST_F(StockTest, ARefusalThatIsCertainGoesOnAtOnce) {
  shop_.full = {"a"};
  EXPECT_THAT(*launch(), ElementsAre("b1", "b2"));
  EXPECT_THAT(open_in_ledger(), ElementsAre("b1", "b2"));
  EXPECT_THAT(world_.pauses, IsEmpty());
}

TEST_F(StockTest, ARefusalThatIsNotCertainLeavesNothing) {
  shop_.full = {"a"};
  shop_.loses_replies = true;
  shop_.lag = 40s;
  EXPECT_THAT(*launch(), ElementsAre("b3", "b4"));
  EXPECT_THAT(shop_.standing_ids(), ElementsAre("b3", "b4"));
  EXPECT_THAT(open_in_ledger(), ElementsAre("b3", "b4"));
}

TEST_F(StockTest, ADoubtfulRefusalIsLookedAtOnceAndAgainWhenListingsMustHaveIt) {
  shop_.full = {"a"};
  shop_.is_answered = shop_.loses_replies = true;
  EXPECT_THAT(*launch(), ElementsAre("a1", "a2")) << "they are listed at once: no refusal";
  EXPECT_TRUE(pool_machines().terminate_all(world_.now + 60s));

  shop_.lag = 40s;
  const Time begin = world_.now;
  EXPECT_THAT(*launch(), ElementsAre("b5", "b6"));
  EXPECT_GE(world_.now - begin, 60s);
  EXPECT_THAT(shop_.standing_ids(), ElementsAre("b5", "b6")) << "a3 and a4 came late";
  EXPECT_THAT(open_in_ledger(), ElementsAre("b5", "b6"));
}

TEST_F(StockTest, DoubtfulRefusalsAreTrueWhenNothingIsListedInTime) {
  shop_.full = {"a", "b"};
  shop_.is_answered = true;
  const Time begin = world_.now;
  ASSERT_FALSE(launch());
  EXPECT_THAT(open_in_ledger(), IsEmpty());
  EXPECT_LT(world_.now - begin, 70s) << "both were waited for together";
  EXPECT_TRUE(pool_machines().close_when_clear());
  EXPECT_TRUE(is_closed());
}

TEST_F(StockTest, WhatCouldNotBeReleasedIsReleasedBeforeTheNextLaunch) {
  shop_.facts_.most_per_batch = 1;
  shop_.sold_out_after = 1;
  shop_.stubborn = {"a1"};
  EXPECT_FALSE(launch());
  EXPECT_THAT(shop_.standing_ids(), ElementsAre("a1")) << "its end was not reached in time";
  shop_.sold_out_after = 0;
  shop_.stubborn.clear();
  EXPECT_THAT(*launch(), SizeIs(2));
  EXPECT_THAT(shop_.standing_ids(), SizeIs(2)) << "without the first one";
}

// Other requests of the pool wait for this one.
TEST_F(StockTest, WhatDoesNotEndHoldsUpNobodyWhileThePoolIsOpen) {
  shop_.facts_.most_per_batch = 1;
  shop_.sold_out_after = 1;
  shop_.stubborn = {"a1"};
  EXPECT_FALSE(launch());
  const Time begin = world_.now;
  pool_machines().release_late(begin + 20s);
  EXPECT_EQ(world_.now, begin);
  shop_.stubborn.clear();
  pool_machines().release_late(begin + 20s);
  EXPECT_EQ(world_.now, begin);
  EXPECT_THAT(shop_.standing_ids(), IsEmpty());
  EXPECT_THAT(open_in_ledger(), ElementsAre("a1")) << "it has not been seen to be gone";
  world_.now += 60s;
  pool_machines().release_late(world_.now + 20s);
  EXPECT_THAT(open_in_ledger(), IsEmpty());
}

TEST_F(StockTest, DoubtsOfALaunchThatIsStoppedStayInTheLedger) {
  shop_.full = {"a", "b"};
  shop_.is_answered = true;
  shop_.on_launch = [this] { world_.world.launching.request_stop(); };
  const Time begin = world_.now;
  ASSERT_FALSE(launch());
  EXPECT_EQ(world_.now, begin) << "nobody waits for a look";
  EXPECT_THAT(open_in_ledger(), ElementsAre("unanswered"));
}

TEST_F(StockTest, WhatWasNeverListedStaysOpenUntilNothingCanComeOfIt) {
  shop_.full = {"a", "b"};
  shop_.loses_replies = true;
  shop_.lag = 10h;
  ASSERT_FALSE(launch());
  EXPECT_THAT(shop_.standing_ids(), SizeIs(4)) << "nobody can know of them";
  EXPECT_TRUE(pool_machines().close_when_clear());
  EXPECT_FALSE(is_closed());
  world_.wall_s += 900;
  EXPECT_TRUE(pool_machines().close_when_clear());
  EXPECT_FALSE(is_closed()) << "a clock that is set ahead is no time that passes";
  world_.now += 900s;
  EXPECT_TRUE(pool_machines().close_when_clear());
  EXPECT_TRUE(is_closed());
}

TEST_F(StockTest, TheNextLaunchDoesNotForgetWhatMayStillAppear) {
  shop_.full = {"a", "b"};
  shop_.loses_replies = true;
  shop_.lag = 10h;
  ASSERT_FALSE(launch());
  ASSERT_FALSE(launch());
  EXPECT_THAT(shop_.standing_ids(), SizeIs(8));
  EXPECT_THAT(open_in_ledger(), SizeIs(4)) << "of all four requests";
}

// Two machines were launched, and the reply named one. The other is not listed in time.
TEST_F(StockTest, WhatIsNotKnownOfALotStaysOpenBesideWhatIs) {
  shop_.tells_too_few = true;
  shop_.lag = 10h;
  spec_.places.pop_back();
  ASSERT_FALSE(launch());
  EXPECT_THAT(open_in_ledger(), ElementsAre("unanswered", "a1"));
  EXPECT_TRUE(pool_machines().close_when_clear());
  EXPECT_FALSE(is_closed()) << "a machine may stand";
  world_.now += 10h;
  EXPECT_TRUE(pool_machines().terminate_all(world_.now + 60s));
  EXPECT_THAT(shop_.standing_ids(), IsEmpty());
  EXPECT_TRUE(pool_machines().close_when_clear());
  EXPECT_TRUE(is_closed());
}

// A laptop's clock is set, or it slept.
TEST_F(StockTest, AClockThatIsSetMakesNoMachineGone) {
  ASSERT_TRUE(launch());
  for (auto& [id, one] : shop_.sold) one.at = world_.now;
  shop_.lag = 200s;
  world_.wall_s += 3600;
  EXPECT_FALSE(pool_machines().terminate({"a1"}, world_.now + 60s))
      << "it is a minute old, and not listed yet";
  EXPECT_THAT(open_in_ledger(), ElementsAre("a1", "a2"));
  EXPECT_TRUE(pool_machines().terminate_all(world_.now + 400s));
  EXPECT_THAT(shop_.standing_ids(), IsEmpty());
}

TEST_F(StockTest, MachinesThatDoNotStartAreGivenBackAndSoughtElsewhere) {
  shop_.dead = {"a"};
  EXPECT_THAT(*launch(), ElementsAre("b3", "b4"));
  ASSERT_EQ(book_->wasted().size(), 2U) << "they cost all the same";
  for (const LedgerEntry& entry : book_->wasted()) {
    const Charge charge = wasted_charge(entry, world_.wall_s + 100);
    EXPECT_EQ(charge.hourly, 3.0);
    EXPECT_EQ(charge.began, std::chrono::seconds(world_.wall_s + 100 - entry.asked_s));
    EXPECT_EQ(charge.ended, std::chrono::seconds(world_.wall_s + 100 - *entry.gone_s));
    EXPECT_TRUE(charge.failed_launch);
  }
  shop_.tells_too_few = true;
  spec_.places.erase(spec_.places.begin());
  EXPECT_THAT(launch().error().message,
              HasSubstr("the shop, here: the reply lists 1 machines instead of 2"));
  EXPECT_THAT(shop_.standing_ids(), ElementsAre("a1", "a2", "b3", "b4"))
      << "the one that was not told of has ended, too";
}

TEST_F(StockTest, OthersAreLaunchedForMachinesThatDoNotStart) {
  spec_.count = 4;
  shop_.failing = {"a2", "a3"};
  EXPECT_THAT(*launch(), ElementsAre("a1", "a4", "a5", "a6"));
  EXPECT_THAT(shop_.counts, ElementsAre(4, 2));
  EXPECT_THAT(book_->wasted(), SizeIs(2)) << "they may have cost something";
  EXPECT_THAT(open_in_ledger(), ElementsAre("a1", "a4", "a5", "a6"));
}

TEST_F(StockTest, AnotherIsLaunchedForAMachineThatStartsTooSlowly) {
  shop_.facts_.start_limit = 100s;
  shop_.boot = 60s;
  shop_.slow = {"a2"};
  spec_.count = 3;
  const Time begin = world_.now;
  EXPECT_THAT(*launch(), ElementsAre("a1", "a3", "a4"));
  EXPECT_THAT(shop_.counts, ElementsAre(3, 1));
  EXPECT_LT(world_.now - begin, 200s);
  EXPECT_THAT(open_in_ledger(), ElementsAre("a1", "a3", "a4"));
}

TEST_F(StockTest, WhereMachinesStartTooSlowlyTheyAreSoughtElsewhere) {
  shop_.facts_.start_limit = 100s;
  shop_.slow = {"a1", "a2"};
  EXPECT_THAT(*launch(), ElementsAre("b3", "b4"));
  EXPECT_THAT(open_in_ledger(), ElementsAre("b3", "b4"));
  spec_.places.pop_back();
  shop_.slow = {"a5", "a6"};
  const auto none = launch();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::exhausted) << "another region may have faster ones";
  EXPECT_THAT(none.error().message, HasSubstr("did not start (still starting after 100 s)"));
}

TEST_F(StockTest, AnotherIsLaunchedForAMachineThatVanishesWhileItStarts) {
  shop_.facts_.known_after = 60s;
  shop_.boot = 4min;
  shop_.vanished = {"a2"};
  const Time begin = world_.now;
  EXPECT_THAT(*launch(), ElementsAre("a1", "a3"));
  EXPECT_LT(world_.now - begin, 6min) << "it is not waited for until the launch is over";
  EXPECT_THAT(open_in_ledger(), ElementsAre("a1", "a3"));
}

TEST_F(StockTest, AMachineThatOnlySomeLooksLeaveOutHasNotVanished) {
  shop_.facts_.known_after = 60s;
  shop_.boot = 4min;
  const Time begin = world_.now;
  shop_.is_off = [&] { return world_.now >= begin + 60s && world_.now < begin + 130s; };
  int pauses = 0;
  const auto pause = world_.world.pause;
  world_.world.pause = [&](Duration duration, const std::stop_token& stop) {
    shop_.shows_nothing = ++pauses % 2 == 1;
    pause(duration, stop);
  };
  EXPECT_THAT(*launch(), ElementsAre("a1", "a2"));
  EXPECT_THAT(shop_.counts, ElementsAre(2));
}

TEST_F(StockTest, WhereTooManyDoNotStartTheyAreSoughtElsewhere) {
  shop_.failing = {"a1", "a3", "a4"};
  EXPECT_THAT(*launch(), ElementsAre("b5", "b6"));
  EXPECT_THAT(shop_.counts, ElementsAre(2, 1, 1, 2));
  EXPECT_THAT(open_in_ledger(), ElementsAre("b5", "b6"));
}

TEST_F(StockTest, WhereHostsDifferAnotherOneIsTriedInTheSamePlace) {
  shop_.facts_.hosts_differ = true;
  spec_.count = 1;
  shop_.failing = {"a1", "a2"};
  EXPECT_THAT(*launch(), ElementsAre("a3"));
  shop_.failing = {"a4", "a5", "a6"};
  EXPECT_THAT(*launch(), ElementsAre("b7")) << "three bad hosts in a row are enough";
  EXPECT_THAT(open_in_ledger(), ElementsAre("a3", "b7"));
  shop_.facts_.hosts_differ = false;
  shop_.failing = {"a8"};
  EXPECT_THAT(*launch(), ElementsAre("b9"));
}

TEST_F(StockTest, WhereNoOtherIsLeftAllAreReleased) {
  shop_.failing = {"a2"};
  shop_.sold_out_after = 1;
  EXPECT_THAT(launch().error().message,
              AllOf(HasSubstr("a in z did not start"), HasSubstr("a in z: Full")));
  world_.now += 10s;
  EXPECT_THAT(shop_.standing_ids(), ElementsAre("a2")) << "which has ended by itself";
  EXPECT_THAT(open_in_ledger(), IsEmpty());
}

TEST_F(StockTest, NoOtherIsLaunchedForOneWhoseFaultTheyWouldShare) {
  shop_.failing = {"a2"};
  shop_.is_hopeless = true;
  EXPECT_EQ(launch().error().kind, ErrorKind::invalid);
  EXPECT_THAT(shop_.counts, ElementsAre(2));
  EXPECT_THAT(open_in_ledger(), IsEmpty());
}

TEST_F(StockTest, NothingIsLaunchedThatCannotBeWrittenDown) {
  trouble_ = fail(ErrorKind::unavailable, "the disk is full");
  EXPECT_THAT(launch().error().message, HasSubstr("the disk is full"));
  EXPECT_THAT(shop_.sold, IsEmpty());
}

TEST_F(StockTest, MachinesEndWhetherOrNotTheLedgerCanBeUsed) {
  shop_.lag = 20s;
  ASSERT_TRUE(launch());
  for (auto& [id, one] : shop_.sold) one.at = world_.now;  // not listed yet
  trouble_ = fail(ErrorKind::unavailable, "the disk is full");
  EXPECT_TRUE(pool_machines().terminate_all(world_.now + 60s));
  EXPECT_THAT(shop_.standing_ids(), IsEmpty());
  EXPECT_THAT(pool_machines().close_when_clear().error().message, HasSubstr("the disk is full"));
  trouble_ = {};
  EXPECT_THAT(open_in_ledger(), SizeIs(2));
  EXPECT_TRUE(pool_machines().close_when_clear());
  EXPECT_THAT(open_in_ledger(), IsEmpty());
  EXPECT_TRUE(is_closed());
}

TEST_F(StockTest, MachinesThatCannotBeSeenAreAskedToEnd) {
  ASSERT_TRUE(launch());
  shop_.blind = true;
  EXPECT_THAT(pool_machines().terminate_all(world_.now + 60s).error().message,
              HasSubstr("you may not look"));
  EXPECT_THAT(shop_.standing_ids(), IsEmpty());
  EXPECT_THAT(open_in_ledger(), ElementsAre("a1", "a2")) << "nobody has seen them go";
}

TEST_F(StockTest, OneThatDoesNotEndIsNamedAndTheOthersAreStruckOff) {
  ASSERT_TRUE(launch());
  shop_.stubborn = {"a1"};
  const Status ended = pool_machines().terminate({"a1", "a2"}, world_.now + 60s);
  EXPECT_EQ(ended.error().message, "the shop, here: a1 did not terminate in time");
  EXPECT_THAT(open_in_ledger(), ElementsAre("a1"));
}

TEST_F(StockTest, WhatIsNotKnownIsGoneOnlyAfterItsTime) {
  world_.world.wall_s = [this] { return world_.now.time_since_epoch() / 1s; };
  ASSERT_TRUE(launch());
  shop_.lag = 10h;
  const Time begin = world_.now;
  EXPECT_TRUE(pool_machines().terminate({"of nobody"}, world_.now + 60s))
      << "the book does not have it";
  EXPECT_FALSE(pool_machines().terminate({"a1"}, begin + 200s));
  EXPECT_THAT(open_in_ledger(), ElementsAre("a1", "a2"));
  EXPECT_TRUE(pool_machines().terminate({"a1"}, begin + 600s));
  EXPECT_GE(world_.now - begin, 300s);
}

// A listing that has nothing in it is no proof: the machine may be as old as you like.
TEST_F(StockTest, NothingIsGoneThatWasNotAskedToEnd) {
  ASSERT_TRUE(launch());
  world_.now += 10h;
  shop_.shows_nothing = true;
  EXPECT_TRUE(pool_machines().terminate({"a1"}, world_.now + 60s));
  EXPECT_THAT(shop_.standing_ids(), ElementsAre("a2"));
  EXPECT_TRUE(pool_machines().terminate_all(world_.now + 60s));
  EXPECT_THAT(shop_.standing_ids(), IsEmpty());
}

// Its machines cost something until they were seen to be gone.
TEST_F(StockTest, TheCostOfAFailedLaunchIsKnown) {
  ASSERT_TRUE(launch());
  book_->note_wasted({"a1"});
  world_.wall_s += 100;
  book_->gone({"a1"});
  world_.wall_s += 100;
  book_->gone({"a1"});
  ASSERT_THAT(book_->wasted(), SizeIs(1));
  LedgerEntry entry = book_->wasted().front();
  EXPECT_EQ(entry.count, 1) << "of two that were requested together";
  EXPECT_EQ(entry.gone_s, world_.wall_s - 100);
  entry.spot = true;
  const auto age = std::chrono::seconds(world_.wall_s - entry.asked_s);
  EXPECT_EQ(wasted_charge(entry, world_.wall_s), (Charge{.instance = "a1",
                                                         .hourly = 3.0,
                                                         .since = age,
                                                         .began = age,
                                                         .ended = 100s,
                                                         .failed_launch = true,
                                                         .spot = true}));
  entry.hourly_micro_dollars = 0;
  entry.gone_s.reset();
  EXPECT_EQ(wasted_charge(entry, world_.wall_s).hourly, std::nullopt);
  EXPECT_EQ(wasted_charge(entry, world_.wall_s).ended, std::nullopt);
}

TEST_F(StockTest, AMachineOfAFailedLaunchCostsWhatTheCloudSaysAndNotTheOffer) {
  shop_.price = 2.5;
  shop_.failing = {"a1"};
  shop_.is_hopeless = true;
  ASSERT_FALSE(launch());
  ASSERT_THAT(book_->wasted(), SizeIs(2));
  for (const LedgerEntry& entry : book_->wasted()) {
    EXPECT_EQ(entry.hourly_micro_dollars, entry.id == "a1" ? 3'000'000 : 2'500'000) << entry.id;
  }
}

TEST_F(StockTest, AMachineThatOneListingLeavesOutIsNotGone) {
  ASSERT_TRUE(launch());
  shop_.stubborn = {"a1"};
  int pauses = 0;
  const auto pause = world_.world.pause;
  world_.world.pause = [&](Duration duration, const std::stop_token& stop) {
    shop_.shows_nothing = ++pauses % 2 == 1;
    pause(duration, stop);
  };
  EXPECT_FALSE(pool_machines().terminate({"a1"}, world_.now + 60s));
  world_.world.pause = pause;
  EXPECT_THAT(open_in_ledger(), ElementsAre("a1", "a2"));
}

// A cloud may not know for minutes what it has just sold: that is no word of its end.
TEST_F(StockTest, WhatIsNotKnownYetIsAskedToEndUntilTheCloudHearsIt) {
  world_.world.wall_s = [this] { return world_.now.time_since_epoch() / 1s; };
  ASSERT_TRUE(launch());
  for (auto& [id, one] : shop_.sold) one.at = world_.now;
  shop_.lag = 200s;
  EXPECT_THAT(pool_machines().terminate({"a1"}, world_.now + 90s).error().message,
              HasSubstr("a1 did not terminate"));
  EXPECT_THAT(open_in_ledger(), ElementsAre("a1", "a2")) << "gc ends what could not be ended";
  EXPECT_TRUE(pool_machines().terminate_all(world_.now + 290s));
  EXPECT_THAT(shop_.standing_ids(), IsEmpty());
  EXPECT_THAT(open_in_ledger(), IsEmpty());
}

}  // namespace
}  // namespace skyward::provider

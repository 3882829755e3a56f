// Which price counts, when the cloud is asked for its bills, and what machines that are still on
// order leave of a budget.

#include "skyward/engine/core_money_fixture.h"

namespace skyward::engine {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

class SpendTest : public MoneyTest {
 protected:
  // A pool whose provider sells spot machines, too, at a tenth of the price.
  void open_beside_spot(std::optional<double> budget, const Instance& like) {
    make();
    state.spec.budget = budget;
    on_open(state, effects, now);
    offer({.instance_type = "big", .price_on_demand = kHourly, .price_spot = kHourly / 10});
    on_prepared(state, effects, now, Cluster{.id = "cloud-1"});
    asked = now;
    buy(1, like);
    ready(0);
    effects.drop_all();
  }
  // With a budget of $1; the task takes 200 s.
  void open_and_run_a_long_task() {
    open(1, 1.0);
    const TaskId task = submit_to(0);
    now += 200s;
    complete(0, task, 200s);
  }
  void preempt(std::uint32_t node, std::uint64_t left_ms = 120'000) {
    receive(node, wire::Preempted{.left_ms = left_ms, .reason = "soon"});
    effects.drop_events();
  }
};

// ------------------------------------------------------------------------------------- prices

TEST_F(SpendTest, AMachineOnDemandIsNotBilledAtTheSpotPrice) {
  open_beside_spot(std::nullopt, {.spot = false});
  now += 100s;
  EXPECT_DOUBLE_EQ(close().total_cost, 0.1);

  open_beside_spot(std::nullopt, {.spot = true});
  now += 100s;
  const CostFinal bill = close();
  EXPECT_DOUBLE_EQ(bill.total_cost, 0.01);
  EXPECT_DOUBLE_EQ(bill.savings_vs_ondemand, 0.09);
}

TEST_F(SpendTest, ABudgetExpectsThePriceOnDemandUntilThereIsAMachine) {
  make();
  state.spec.spot.kind = SpotKind::if_available;
  state.spec.budget = 0.05;  // 50 s on demand, 500 s as spot machines
  on_open(state, effects, now);
  offer({.instance_type = "big", .price_on_demand = kHourly, .price_spot = kHourly / 10});
  ASSERT_TRUE(state.open_error);
  EXPECT_EQ(state.open_error->kind, ErrorKind::over_budget);
  effects.drop_all();
  on_torn_down(state, effects, now, {});
  effects.drop_all();
}

// Spot machines of another type may cost half as much again.
TEST_F(SpendTest, ABudgetOfSpotMachinesAloneNeedsTheirPriceAlone) {
  const auto fits = [&](double price_spot, Spot spot, bool prices_change = false) {
    make({.nodes = 2});
    state.spec.spot = spot;
    state.spec.budget = 0.05;  // 70 s need at most 1.28 dollars an hour for each
    state.options.billing.prices_change = prices_change;
    on_open(state, effects, now);
    offer({.instance_type = "big", .price_on_demand = kHourly, .price_spot = price_spot});
    const bool opens = state.phase == Phase::preparing;
    effects.drop_all();
    return opens;
  };
  EXPECT_TRUE(fits(0.8, Spot::Always()));
  EXPECT_FALSE(fits(0.9, Spot::Always())) << "of another type, $1.35";
  EXPECT_TRUE(fits(0.8, Spot::Percent(1)));
  EXPECT_FALSE(fits(0.8, Spot::IfAvailable()));
  EXPECT_FALSE(fits(0.8, Spot::Always(), true)) << "it may rise";
}

// While it launches, and for a replacement.
TEST_F(SpendTest, SpotMachinesOnOrderCountAtTheirPrice) {
  make();
  state.spec.spot = Spot::Always();
  state.spec.budget = 0.15;  // 1000 s at one and a half times the spot price, 150 s on demand
  on_open(state, effects, now);
  offer({.instance_type = "big", .price_on_demand = kHourly, .price_spot = kHourly / 10});
  on_prepared(state, effects, now, Cluster{.id = "cloud-1"});
  asked = now;
  while (now < asked + 400s && state.phase == Phase::provisioning) advance();
  EXPECT_EQ(state.phase, Phase::provisioning);
  buy(1, {.spot = true});
  ready(0);
  effects.drop_all();
  ASSERT_EQ(state.phase, Phase::running);
  live_until(1000s);  // a third of it is left
  effects.drop_all();
  lose(0);
  effects.drop_events();
  effects.take<Terminate>();
  EXPECT_EQ(effects.take<Provision>().first_node, kFirst);
  Instance another = machine(0, 2);
  another.spot = true;
  on_provisioned(state, effects, now, kFirst, 1, std::vector{another});
  ready(0);
  effects.drop_all();
  on_terminated(state, effects, now, {});
  close();
}

TEST_F(SpendTest, ABudgetCoversTheDearestMachineThatAnOfferMayBring) {
  for (const bool vary : {false, true}) {
    make();
    state.spec.budget = 0.1;  // 100 s; opening and closing may take 70 s
    on_open(state, effects, now);
    offer({.instance_type = "big", .price_on_demand = kHourly, .prices_vary = vary});
    EXPECT_EQ(state.phase == Phase::preparing, !vary);
    effects.drop_all();
  }
}

TEST_F(SpendTest, WhatIsSoldByTheHourIsBilledByTheHour) {
  make();
  on_open(state, effects, now);
  offer({.instance_type = "big", .price_on_demand = kHourly, .billing_increment_minutes = 60});
  on_prepared(state, effects, now, Cluster{.id = "cloud-1"});
  buy(1);
  ready(0);
  now += 10min;
  EXPECT_DOUBLE_EQ(close().total_cost, kHourly);
}

TEST_F(SpendTest, MachinesWithoutAPriceAreSaidToCountAsFree) {
  for (const Duration charges_interval : {300s, 0s}) {
    make({.nodes = 2});
    state.options.charges_interval = charges_interval;
    on_open(state, effects, now);
    offer({.instance_type = "big"});
    on_prepared(state, effects, now, Cluster{.id = "cloud-1"});
    std::vector<Instance> machines = {machine(0), machine(1)};
    machines[1].price_on_demand = kHourly;
    on_provisioned(state, effects, now, kFirst, 2, machines);
    ready(0);
    ready(1);
    on_close(state, effects, now);
    lose(0);
    lose(1);
    while (state.releases.requests() > 0) on_terminated(state, effects, now, {});
    effects.drop_all();
    on_torn_down(state, effects, now, {});
    if (charges_interval > Duration{}) {
      EXPECT_THAT(effects.take_event<Notice>().message,
                  HasSubstr("did not say what 1 of 2 machines cost"));
    }
    effects.take_event<CostFinal>();
    effects.drop_all();
  }
}

// A spot machine beside others costs what the offer asks for one.
TEST_F(SpendTest, AnotherSpotMachineIsWithinTheRateAtItsOwnPrice) {
  open_beside_spot(std::nullopt, {.spot = true});
  state.spec.spot.kind = SpotKind::always;
  state.spec.max_hourly_cost = kHourly / 5;
  preempt(0);
  EXPECT_EQ(effects.take<Provision>().first_node, kFirst);
  on_provisioned(state, effects, now, kFirst, 1, fail(ErrorKind::exhausted, "sold out"));
  effects.drop_all();
  close();
}

TEST_F(SpendTest, AMachineThatIsLeftToItsCloudMakesRoomForAReplacement) {
  make({.nodes = 2});
  state.options.billing.free_when_taken_back = 1h;
  state.spec.spot.kind = SpotKind::never;
  state.spec.max_hourly_cost = 3 * kHourly;
  on_open(state, effects, now);
  offer({.instance_type = "big", .price_on_demand = kHourly});
  on_prepared(state, effects, now, Cluster{.id = "cloud-1"});
  buy(2);
  ready(0);
  ready(1);
  effects.drop_all();
  preempt(1);
  EXPECT_EQ(effects.take<Provision>().first_node, kSecond);
  on_provisioned(state, effects, now, kSecond, 1, std::vector{machine(1, 2)});
  ready(1);
  effects.drop_all();
  EXPECT_EQ(state.releases.requests(), 0);
  lose(0);
  effects.drop_events();
  EXPECT_THAT(effects.take<Terminate>().instances, ElementsAre("i-0-1"));
  EXPECT_THAT(effects.take<Terminate>().instances, ElementsAre("i-1-1"));
  effects.expect_nothing_else();
  on_terminated(state, effects, now, {});
  effects.drop_events();
  EXPECT_EQ(effects.take<Provision>().first_node, kFirst);
  on_terminated(state, effects, now, {});
  on_provisioned(state, effects, now, kFirst, 1, std::vector{machine(0, 2)});
  ready(0);
  effects.drop_all();
  close();
}

// ---------------------------------------------------------------------------------- the clock

TEST_F(SpendTest, AReplacementAndASuccessorCostFromTheirRequestsOn) {
  open(1, std::nullopt);
  lose(0);
  on_terminated(state, effects, now, {});
  now += 100s;  // while it is launched
  on_provisioned(state, effects, now, kFirst, 1, std::vector{machine(0, 2)});
  ready(0);
  effects.drop_all();
  const double with_replacement = to_dollars(state.costs.now(now).total);
  EXPECT_DOUBLE_EQ(with_replacement, 0.06 + 0.1) << "a minute of the lost one, at least";
  preempt(0);
  now += 200s;
  on_provisioned(state, effects, now, kFirst, 1, std::vector{machine(0, 3)});
  effects.drop_all();
  EXPECT_DOUBLE_EQ(to_dollars(state.costs.now(now).total), with_replacement + 2 * 0.2);
  on_terminated(state, effects, now, {});
  close();
}

TEST_F(SpendTest, WorkBeforeASuccessorTookOverWasUseful) {
  open(1, std::nullopt);
  const TaskId task = submit_to(0);
  now += 100s;
  preempt(0);
  effects.drop_all();
  on_provisioned(state, effects, now, kFirst, 1, std::vector{machine(0, 2)});
  effects.drop_all();
  complete(0, task);
  effects.drop_all();
  on_terminated(state, effects, now, {});
  const CostFinal bill = close();
  EXPECT_DOUBLE_EQ(bill.useful_cost, 0.1);
  EXPECT_DOUBLE_EQ(bill.lost_cost, 0);
}

// One of two tasks was answered in time.
TEST_F(SpendTest, WorkIsLostOnlySinceTheLastAnswer) {
  make({.concurrency = 2});
  on_open(state, effects, now);
  offer({.instance_type = "big", .price_on_demand = kHourly});
  on_prepared(state, effects, now, Cluster{.id = "cloud-1"});
  buy(1);
  ready(0);
  effects.drop_all();
  const TaskId first = submit_to(0);
  submit_to(0);
  now += 100s;
  complete(0, first);
  now += 60s;
  lose(0);
  effects.drop_all();
  on_terminated(state, effects, now, {});
  on_provisioned(state, effects, now, kFirst, 1, fail(ErrorKind::denied, "you may not"));
  effects.drop_all();
  const CostFinal bill = close();
  EXPECT_DOUBLE_EQ(bill.useful_cost, 0.1);
  EXPECT_DOUBLE_EQ(bill.lost_cost, 0.06);
}

TEST_F(SpendTest, AskingWhatAPoolCostsChangesNothing) {
  open(1, std::nullopt);
  const TaskId task = submit_to(0);
  now += 100s;
  for (int times = 0; times < 3; ++times) {
    const PoolCost cost = cost_until(state, now, state.costs.clock().at(now));
    EXPECT_DOUBLE_EQ(cost.useful, 0.1);
    EXPECT_DOUBLE_EQ(cost.idle, 0);
  }
  complete(0, task);
  now += 100s;
  const CostFinal bill = close();
  EXPECT_DOUBLE_EQ(bill.useful_cost, 0.1);
  EXPECT_DOUBLE_EQ(bill.idle_cost, 0.1);
}

// ---------------------------------------------------------------------------------- the bills

TEST_F(SpendTest, TheCloudIsAskedAgainWhenItHasAnswered) {
  open(1, std::nullopt, 60s);
  live_until(60s);
  effects.take<AskCharges>();
  live_until(125s);
  effects.expect_nothing_else();  // one request at a time
  on_charges(state, effects, now, fail(ErrorKind::unavailable, "no answer"));
  live_until(185s);
  EXPECT_THAT(effects.take<AskCharges>().instances, ElementsAre("i-0-1"));
  on_charges(state, effects, now, std::vector<Charge>{});
  close();
}

TEST_F(SpendTest, ReplacementsDoNotPutOffTheNextBill) {
  open(2, std::nullopt, 60s);
  live_until(50s);
  lose(1);
  on_terminated(state, effects, now, {});
  on_provisioned(state, effects, now, kSecond, 1, std::vector{machine(1, 2)});
  effects.drop_all();
  live_until(60s);
  EXPECT_EQ(effects.take<AskCharges>().instances.size(), 2U + 1U) << "of the lost one, too";
  on_charges(state, effects, now, std::vector<Charge>{});
  close();
}

// Some machines may have been launched, and cost something.
TEST_F(SpendTest, ALaunchThatFailedIsAskedFor) {
  open(1, std::nullopt, 60s);
  lose(0);
  on_terminated(state, effects, now, {});
  effects.drop_all();
  on_provisioned(state, effects, now, kFirst, 1, fail(ErrorKind::exhausted, "sold out"));
  effects.take<AskCharges>();
  effects.drop_all();
  close();
}

// A price that may have changed is asked for as often as the budget is looked at.
TEST_F(SpendTest, ABudgetThatIsNearlySpentIsHeldAgainstNewBills) {
  open(1, 1.0, 300s);
  submit_to(0);
  live_until(915s);
  effects.drop_all();
  on_charges(state, effects, now, std::vector<Charge>{});
  EXPECT_LE(state.bills.ask_at(), now + kBudgetLook) << "15 s before the end";
  while (!state.budget.is_draining()) advance_alive();
  effects.drop_all();
  close();
}

TEST_F(SpendTest, ABillAboveTheBudgetEndsThePoolAtOnce) {
  open(1, 1.0, 300s);
  submit_to(0);
  live_until(300s);
  effects.drop_all();
  on_charges(state, effects, now,
             std::vector<Charge>{{.instance = "i-0-1", .hourly = 3 * kHourly, .since = 300s}});
  EXPECT_EQ(state.phase, Phase::closing);
  effects.drop_events();
  EXPECT_EQ(effects.take<Complete>().outcome.error.kind, ErrorKind::over_budget);
  close();
}

// --------------------------------------------------------------------------------- the budget

// Its request delays the one that ends the others.
TEST_F(SpendTest, MachinesOnOrderAreEndedLaterAndMustBePaidForMeanwhile) {
  open(1, 1.0);
  submit_to(0);
  live_until(800s);
  effects.drop_all();
  const auto stop_at = [&] {
    return state.budget.judge(effects, budget_facts(state, now)).stop_at;
  };
  const Time before = stop_at();
  state.orders.request(effects, kFirst, 1);
  EXPECT_EQ(stop_at(), before - kBudgetVerb);
  state.orders.on_answered(kFirst);
  effects.drop_all();
  close();
}

TEST_F(SpendTest, WhereTasksTakeLongNoneBeginsThatWouldNotEnd) {
  open_and_run_a_long_task();
  live_until(755s);
  effects.drop_all();
  EXPECT_FALSE(state.budget.is_draining());
  live_until(765s);  // 40 s to stop, 200 s for a task
  EXPECT_TRUE(state.budget.is_draining());
  effects.drop_all();
  finish();
}

TEST_F(SpendTest, NoMachineIsReplacedThatWouldRunNoTask) {
  open_and_run_a_long_task();
  live_until(700s);
  effects.drop_all();
  lose(0);  // another one would last for 150 s
  effects.drop_events();
  effects.take<Terminate>();
  effects.expect_nothing_else();
  EXPECT_EQ(state.nodes[kFirst].state, NodeState::gone);
  on_terminated(state, effects, now, {});
  close();
}

TEST_F(SpendTest, TheLastMoneyBuysNoSuccessor) {
  open(1, 1.0);
  live_until(800s);
  effects.drop_all();
  preempt(0);  // two of them would last for 100 s
  EXPECT_EQ(effects.take<Provision>().first_node, kFirst);
  on_provisioned(state, effects, now, kFirst, 1, fail(ErrorKind::exhausted, "sold out"));
  effects.drop_all();
  close();

  open(1, 1.0);
  live_until(900s);
  effects.drop_all();
  preempt(0);
  effects.expect_nothing_else();
  close();
}

// What runs may go on: only launches end.
TEST_F(SpendTest, LaunchesEndWhenTheBudgetIsNearlySpent) {
  open(1, 1.0);
  const TaskId task = submit_to(0);
  while (!state.budget.is_draining()) advance_alive();
  EXPECT_EQ(state.phase, Phase::running);
  EXPECT_FALSE(effects.launching);
  effects.drop_all();
  answer(0, task);
  effects.drop_all();
  finish();
}

TEST_F(SpendTest, ASuccessorIsReleasedWhenTheBudgetIsNearlySpent) {
  open(1, 2.0);
  submit_to(0);
  preempt(0, 3'600'000);
  effects.drop_all();
  on_provisioned(state, effects, now, kFirst, 1, std::vector{machine(0, 2)});
  effects.drop_all();
  while (state.releases.requests() == 0) {
    effects.drop_all();
    advance_alive();
  }
  EXPECT_TRUE(state.budget.is_draining());
  effects.drop_events();
  EXPECT_THAT(effects.take<Terminate>().instances, ElementsAre("i-0-2"));
  on_terminated(state, effects, now, {});
  close();
}

TEST_F(SpendTest, IdleMachinesUnmountTheirVolumesBeforeTheyAreReleased) {
  open(2, 3.0);
  state.spec.volumes = {Volume{.mount_path = "/data", .bucket = "data"}};
  const TaskId task = submit_to(0);
  while (!state.budget.is_draining()) advance_alive();
  EXPECT_EQ(state.nodes[kSecond].state, NodeState::stopping);
  EXPECT_EQ(state.releases.requests(), 0U);
  effects.drop_all();
  lose(1, "it has ended");
  effects.drop_events();
  EXPECT_THAT(effects.take<Terminate>().instances, ElementsAre("i-1-1"));
  on_terminated(state, effects, now, {});
  effects.drop_all();
  answer(0, task);
  EXPECT_EQ(state.nodes[kFirst].state, NodeState::stopping);
  effects.drop_all();
  lose(0, "it has ended");
  EXPECT_EQ(state.phase, Phase::terminating);
  effects.drop_all();
  finish();
}

TEST_F(SpendTest, AMachineThatUnmountsItsVolumesIsNotCutOffByTheBudget) {
  open(1, 1.0);
  state.spec.volumes = {Volume{.mount_path = "/data", .bucket = "data"}};
  while (state.nodes[kFirst].state != NodeState::stopping) advance_alive();
  effects.drop_all();
  while (state.nodes[kFirst].state == NodeState::stopping) advance();
  EXPECT_EQ(state.phase, Phase::terminating) << "when the time for closing is over, too";
  EXPECT_EQ(effects.count_events<ErrorEvent>(), 1) << "that it did not unmount them in time";
  effects.drop_all();
  finish();
}

// Whoever opens a pool again after its timeout would spend the budget again.
TEST_F(SpendTest, ATimeoutWhileTheLastMoneyIsSpentDoesNotHideThatItIs) {
  open(1, 1.0);
  const TaskId endless = submit_to(0);
  live_until(935s);
  ASSERT_TRUE(state.budget.is_draining());
  effects.drop_all();
  receive(0, wire::Recalled{});
  state.lifetime_ends = now;
  on_timer(state, effects, now);
  EXPECT_EQ(state.phase, Phase::closing);
  EXPECT_FALSE(state.expired);
  effects.drop_events();
  EXPECT_EQ(take_outcome(endless).error.kind, ErrorKind::over_budget);
  effects.drop_all();
  close();
}

TEST_F(SpendTest, AMachineThatComesWhenTheBudgetIsNearlySpentIsReleased) {
  open(2, 2.0);
  submit_to(0);
  lose(1);
  effects.drop_all();
  on_terminated(state, effects, now, {});
  while (!state.budget.is_draining()) advance_alive();
  effects.drop_all();
  on_provisioned(state, effects, now, kSecond, 1, std::vector{machine(1, 2)});
  EXPECT_THAT(effects.take<Terminate>().instances, ElementsAre("i-1-2"));
  on_terminated(state, effects, now, {});
  effects.drop_all();
  close();
}

TEST_F(SpendTest, WhatHasNotBegunWhenTheBudgetIsNearlySpentDoesNot) {
  open(1, 1.0);
  const TaskId free = submit_to(0);
  wire::Call call = task();
  call.options.node = kFirst;
  call.options.worker = 0;  // it waits there
  const TaskId pinned = submit_to(0, std::move(call));
  while (!state.budget.is_draining()) advance_alive();
  effects.drop_all();
  receive(0, wire::Recalled{{free, pinned}});
  EXPECT_EQ(take_outcome(free).error.kind, ErrorKind::over_budget);
  EXPECT_EQ(take_outcome(pinned).error.kind, ErrorKind::over_budget);
  EXPECT_EQ(effects.take<Disconnect>().node, kFirst) << "it has nothing to do any more";
  effects.drop_all();
  finish();
}

TEST_F(SpendTest, APoolWhoseBudgetIsSpentWhileItOpensSaysSo) {
  ask(1, 0.2);
  buy(1);
  join(0);
  effects.drop_all();
  while (state.phase == Phase::starting) advance();
  ASSERT_TRUE(state.open_error);
  EXPECT_EQ(state.open_error->kind, ErrorKind::over_budget);
  EXPECT_LE(now - asked, 131s) << "with as much left as a running pool";
  effects.drop_all();
  lose(0);
  finish();
}

// Nobody knows which machines of it are there.
TEST_F(SpendTest, ALaunchThatOutlastsTheBudgetIsGivenUp) {
  ask(1, 0.2);
  while (state.phase == Phase::provisioning) advance();
  EXPECT_FALSE(effects.launching);
  ASSERT_TRUE(state.open_error);
  EXPECT_EQ(state.open_error->kind, ErrorKind::over_budget);
  EXPECT_THAT(state.open_error->message, HasSubstr("is still launching 1 × big"));
  EXPECT_NEAR(seconds(now - asked), 150, 1) << "the rest pays for its end";
  effects.drop_all();
  buy(1);
  effects.drop_all();
  finish();
}

TEST_F(SpendTest, AnotherRegionGetsWhatIsLeftOfTheBudget) {
  const auto phase_there = [&](Duration stood) {
    ask(1, 0.2, 60s);  // for 200 s
    on_provisioned(state, effects, now, kFirst, 1, fail(ErrorKind::exhausted, "none left"));
    offer({.instance_type = "big", .region = "there", .price_on_demand = kHourly});
    EXPECT_EQ(state.phase, Phase::moving);
    on_charges(state, effects, now,
               std::vector{Charge{.instance = "i-9",
                                  .hourly = kHourly,
                                  .began = stood,
                                  .ended = 0s,
                                  .failed_launch = true}});
    on_torn_down(state, effects, now, {});
    on_prepared(state, effects, now, Cluster{.id = "cloud-2"});
    effects.drop_all();
    return state.phase;
  };
  EXPECT_EQ(phase_there(100s), Phase::provisioning);
  EXPECT_EQ(phase_there(150s), Phase::removing);
  ASSERT_TRUE(state.open_error);
  EXPECT_THAT(state.open_error->message, HasSubstr("what is left of budget=$0.20"));
}

TEST_F(SpendTest, WhatOtherProvidersCostIsOfTheBudget) {
  make();
  state.spec.budget = 0.5;
  state.options.spent_before = to_micro_dollars(0.4);
  on_open(state, effects, now);
  offer({.instance_type = "big", .price_on_demand = kHourly * 10});
  ASSERT_TRUE(state.open_error);
  EXPECT_THAT(state.open_error->message, HasSubstr("what is left of budget=$0.50"));
  effects.drop_all();
  on_torn_down(state, effects, now, {});
  effects.drop_all();

  make();
  state.spec.budget = 1.0;
  state.options.spent_before = to_micro_dollars(0.5);  // the rest is for 500 s
  on_open(state, effects, now);
  offer({.instance_type = "big", .price_on_demand = kHourly});
  on_prepared(state, effects, now, Cluster{.id = "cloud-1"});
  asked = now;
  buy(1);
  ready(0);
  effects.drop_all();
  live_until(320s);
  const auto warning = effects.take_event<BudgetWarning>();
  EXPECT_DOUBLE_EQ(warning.budget, 1);
  EXPECT_GE(warning.spent, 0.8);
  EXPECT_LE(warning.spent, 0.82);
  effects.drop_all();
  EXPECT_DOUBLE_EQ(close().total_cost, 0.32) << "of this provider";
}

// While spot prices may have changed, the worst is expected: a warning comes of new bills alone.
TEST_F(SpendTest, BeforeItWarnsABudgetIsHeldAgainstNewBills) {
  ask(1, 1.0, 300s);  // 10,000 s at the spot price, 1,000 on demand
  state.options.billing.prices_change = true;
  buy(1, {.spot = true, .price_on_demand = kHourly, .price_spot = kHourly / 10});
  ready(0);
  effects.drop_all();
  const auto answer_bills = [&] {
    if (state.bills.is_asking()) on_charges(state, effects, now, std::vector<Charge>{});
  };
  while (now < asked + 7000s) {
    advance_alive();
    answer_bills();
  }
  EXPECT_EQ(effects.count_events<BudgetWarning>(), 0);
  effects.drop_all();
  while (!state.budget.is_draining() && state.phase == Phase::running) {
    advance_alive();
    answer_bills();
  }
  EXPECT_GT(now, asked + 8000s);
  EXPECT_EQ(effects.count_events<BudgetWarning>(), 1);
  effects.drop_all();
  close();
}

// -------------------------------------------------------------------------------- the rate

TEST_F(SpendTest, ANodeDoesNotWaitForARateThatNothingWillLower) {
  open(2, std::nullopt);
  state.spec.max_hourly_cost = 1.5 * kHourly;
  lose(0);
  on_terminated(state, effects, now, {});  // another one beside the second is too much
  EXPECT_EQ(state.nodes[kFirst].state, NodeState::gone);
  effects.drop_all();
  close();
}

TEST_F(SpendTest, ANodeWaitsForARateThatLaunchesElsewhereMayLower) {
  for (const bool cheaper : {true, false}) {
    open(3, std::nullopt);
    state.spec.max_hourly_cost = 2 * kHourly;
    lose(0);
    lose(1);
    on_terminated(state, effects, now, {});
    on_terminated(state, effects, now, {});
    effects.drop_events();
    effects.take<Terminate>();
    effects.take<Terminate>();
    EXPECT_EQ(effects.take<Provision>().first_node, kFirst);
    effects.expect_nothing_else();  // the second one waits for what comes of the first
    if (cheaper) {
      Instance bargain = machine(0, 2);
      bargain.price_on_demand = 0.0;
      on_provisioned(state, effects, now, kFirst, 1, std::vector{bargain});
      effects.drop_events();
      effects.take<Connect>();
    } else {
      on_provisioned(state, effects, now, kFirst, 1, fail(ErrorKind::denied, "you may not"));
      effects.drop_events();
    }
    EXPECT_EQ(effects.take<Provision>().first_node, kSecond);
    on_provisioned(state, effects, now, kSecond, 1, fail(ErrorKind::denied, "you may not"));
    effects.drop_all();
    close();
  }
}

}  // namespace
}  // namespace skyward::engine

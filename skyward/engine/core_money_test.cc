// What pools cost, to the micro-dollar, and how they end when the money does. A machine costs a
// tenth of a cent a second.

#include "skyward/engine/core_money_fixture.h"

namespace skyward::engine {
namespace {

using namespace std::chrono_literals;

TEST_F(MoneyTest, TheBillRunsFromTheRequestToTheConfirmedEndAndIsSplit) {
  ask(2, std::nullopt);
  now += 10s;
  buy(2);
  now += 90s;
  ready(0);
  ready(1);
  effects.drop_all();
  const TaskId task = submit_to(0);
  now += 200s;
  complete(0, task);
  now += 100s;
  on_close(state, effects, now);
  lose(0);
  lose(1);
  now += 20s;  // until the cloud confirms
  const CostFinal bill = finish();
  EXPECT_DOUBLE_EQ(bill.total_cost, 0.84);
  EXPECT_DOUBLE_EQ(bill.total_seconds, 420);
  EXPECT_DOUBLE_EQ(bill.setup_cost, 0.2);
  EXPECT_DOUBLE_EQ(bill.useful_cost, 0.2);
  EXPECT_DOUBLE_EQ(bill.idle_cost, 0.44);
  EXPECT_DOUBLE_EQ(bill.lost_cost, 0);
  EXPECT_EQ(bill.ondemand_count, 2);
  EXPECT_DOUBLE_EQ(bill.hourly_rate, 7.2);
  EXPECT_DOUBLE_EQ(stopped.nodes.at(0).cost, 0.42);
  EXPECT_DOUBLE_EQ(stopped.nodes.at(1).cost, 0.42);
}

TEST_F(MoneyTest, TheBillGoesByTheCloudsClock) {
  ask(1, std::nullopt);
  state.costs.clock().rate = 60;
  buy(1);
  ready(0);
  effects.drop_all();
  const TaskId task = submit_to(0);
  now += 10s;
  state.costs.clock().ahead += 590s;
  complete(0, task);
  // This computer sleeps, or nothing is done for as long.
  state.costs.clock().ahead += 600s;
  const PoolCost cost = cost_until(state, now, state.costs.clock().at(now));
  EXPECT_DOUBLE_EQ(cost.total, 1.2);
  EXPECT_DOUBLE_EQ(cost.useful, 0.6);
  EXPECT_DOUBLE_EQ(cost.idle, 0.6);
  EXPECT_DOUBLE_EQ(close().total_cost, 1.2);
}

TEST_F(MoneyTest, ABudgetIsSpentAsTheCloudsClockGoes) {
  const auto began_to_drain = [&](double rate) {
    open(1, 3.6);  // an hour there
    state.costs.clock().rate = rate;
    const Time began = now;
    while (!state.budget.is_draining() && now < began + 2h) {
      state.costs.clock().ahead += from_seconds(seconds(next_deadline(state) - now) * (rate - 1));
      advance_alive();
    }
    EXPECT_FALSE(effects.launching);
    const Duration took = now - began;
    close();
    return seconds(took);
  };
  EXPECT_NEAR(began_to_drain(1), 3600 - 70, 2);
  // What is set aside for opening and closing is of the cloud's time, too.
  EXPECT_NEAR(began_to_drain(10), 360 - 7, 1);
  EXPECT_NEAR(began_to_drain(60), 60 - 70.0 / 60, 1);
}

// A simulated cloud is set forward, or this computer sleeps: nothing else happens meanwhile.
TEST_F(MoneyTest, ABudgetThatIsSpentInAJumpOfTheClockIsSeenAtOnce) {
  open(1, 3.6);  // an hour
  on_clocks(state, effects, now, now + 5min);
  on_clocks(state, effects, now + 10s, now + 10s + 5min);
  now += 20s;
  on_clocks(state, effects, now, now + 5min + 900ms);
  EXPECT_FALSE(state.budget.is_draining());
  on_clocks(state, effects, now, now + 30min);
  EXPECT_EQ(state.phase, Phase::running) << "half of it";
  on_clocks(state, effects, now, now + 2h);
  EXPECT_EQ(state.phase, Phase::closing);
  EXPECT_FALSE(state.expired);
  close();
}

// Their lease expired soon after this computer had fallen asleep.
TEST_F(MoneyTest, MachinesThatEndedInAJumpOfTheClockHaveCostNothingSince) {
  const auto phase_after = [&](Result<std::vector<Charge>> told) {
    open(1, 3.6, 300s);  // an hour
    state.options.billing.tells_ends = true;
    on_clocks(state, effects, now, now);
    effects.drop_all();
    on_clocks(state, effects, now, now + 10h);
    EXPECT_EQ(effects.take<AskCharges>().instances.size(), 1U);
    EXPECT_EQ(state.phase, Phase::running) << "nobody knows whether the machine still runs";
    on_charges(state, effects, now, std::move(told));
    const Phase phase = state.phase;
    close();
    return phase;
  };
  EXPECT_EQ(phase_after(std::vector<Charge>{{.instance = machine(0).id, .ended = 9h + 50min}}),
            Phase::running);
  EXPECT_EQ(phase_after(std::vector<Charge>{}), Phase::closing);
  EXPECT_EQ(phase_after(fail(ErrorKind::unavailable, "no network")), Phase::closing);
}

// The question waits behind a launch.
TEST_F(MoneyTest, ABudgetWaitsForNoAnswerThatDoesNotCome) {
  open(1, 3.6, 300s);
  state.options.billing.tells_ends = true;
  on_clocks(state, effects, now, now);
  effects.drop_all();
  on_clocks(state, effects, now, now + 10h);
  effects.take<AskCharges>();
  const Time woken = now;
  while (state.phase == Phase::running && now < woken + 10min) advance_alive();
  EXPECT_EQ(state.phase, Phase::closing);
  EXPECT_LE(now, woken + 2 * kChargesTimeout);
  effects.drop_all();
}

// The timers of its machines go on while this computer sleeps.
TEST_F(MoneyTest, TimeAsleepCountsTowardsTheTimeoutOfRentedMachines) {
  const auto left_after_sleep = [&](const char* provider) {
    open(1, std::nullopt);
    state.spec.provider.name = provider;
    state.lifetime_ends = now + 5h;
    on_clocks(state, effects, now, now);
    on_clocks(state, effects, now, now + 1h);
    const Duration left = state.lifetime_ends - now;
    close();
    return left;
  };
  EXPECT_EQ(left_after_sleep("aws"), 4h);
  EXPECT_EQ(left_after_sleep("local"), 5h) << "its nodes slept, too";
}

TEST_F(MoneyTest, WhatChangingPricesCameToInAJumpIsAskedFirst) {
  ask(1, 3.6, 300s);
  state.options.billing.prices_change = true;
  buy(1, {.spot = true, .price_on_demand = 10 * kHourly, .price_spot = kHourly});
  ready(0);
  ASSERT_EQ(state.phase, Phase::running);
  on_clocks(state, effects, now, now);
  effects.drop_all();
  on_clocks(state, effects, now, now + 30min);
  EXPECT_EQ(effects.take<AskCharges>().instances.size(), 1U);
  EXPECT_EQ(state.phase, Phase::running) << "at the price on demand it would be spent";
  now += 2s;
  receive(0, wire::Heartbeat{});
  act_on_budget(state, effects, now);
  EXPECT_EQ(state.phase, Phase::running) << "the answer may take a while";
  on_charges(state, effects, now, std::vector<Charge>{});
  EXPECT_EQ(state.phase, Phase::running);
  close();
}

TEST_F(MoneyTest, TheWarningComesAMinuteBeforeOfTheCloudsTime) {
  open(1, 0.36);  // six minutes there, six seconds here
  state.costs.clock().rate = 60;
  act_on_budget(state, effects, now);
  while (!state.budget.is_draining()) {
    ASSERT_EQ(state.phase, Phase::running);
    state.costs.clock().ahead += from_seconds(seconds(next_deadline(state) - now) * 59);
    advance_alive();
  }
  EXPECT_NEAR(effects.take_event<BudgetWarning>().seconds_left, 1, 0.01);
  close();
}

TEST_F(MoneyTest, LaunchesThatCameToNothingAreInTheBill) {
  ask(2, std::nullopt, 60s);
  now += 100s;
  on_provisioned(state, effects, now, NodeId{0}, 2, fail(ErrorKind::denied, "you may not"));
  ASSERT_EQ(state.phase, Phase::removing);
  effects.drop_events();
  EXPECT_TRUE(effects.take<AskCharges>().instances.empty());
  on_charges(state, effects, now,
             std::vector{Charge{.instance = "i-9",
                                .hourly = kHourly,
                                .began = 90s,
                                .ended = 30s,
                                .failed_launch = true}});
  EXPECT_DOUBLE_EQ(finish().total_cost, 0.06);
}

// They are to end with what they shared.
TEST_F(MoneyTest, WhatEndedWithItsRegionCostsNothingMore) {
  ask(1, std::nullopt, 60s);
  on_provisioned(state, effects, now, NodeId{0}, 1, fail(ErrorKind::exhausted, "none left"));
  effects.drop_all();
  offer({.instance_type = "big", .region = "there", .price_on_demand = kHourly});
  on_charges(state, effects, now,
             std::vector{Charge{
                 .instance = "i-9", .hourly = kHourly, .began = 90s, .failed_launch = true}});
  now += 10s;
  on_torn_down(state, effects, now, {});
  effects.drop_all();
  now += 1h;
  on_close(state, effects, now);
  on_prepared(state, effects, now, Cluster{.id = "cloud-2"});
  effects.drop_all();
  on_torn_down(state, effects, now, {});
  EXPECT_DOUBLE_EQ(effects.take_event<CostFinal>().total_cost, 0.1);
  effects.drop_all();
}

TEST_F(MoneyTest, ARegionIsAskedForItsBillsWhileThereIsSomethingOfIt) {
  ask(1, std::nullopt, 60s);
  on_provisioned(state, effects, now, NodeId{0}, 1, fail(ErrorKind::exhausted, "none left"));
  effects.drop_all();
  offer({.instance_type = "big", .region = "there", .price_on_demand = kHourly});
  effects.take<AskCharges>();
  effects.take<Teardown>();
  on_close(state, effects, now);
  effects.drop_events();
  on_torn_down(state, effects, now, {});
  effects.take<Teardown>();  // once more is no mistake
  effects.expect_nothing_else();
  on_torn_down(state, effects, now, {});
  effects.drop_all();
}

TEST_F(MoneyTest, WorkThatIsLostWithItsMachineIsSaidToBeSo) {
  open(1, std::nullopt);
  const TaskId first = submit_to(0);
  now += 100s;
  complete(0, first);
  const TaskId second = submit_to(0);
  now += 60s;
  lose(0);
  effects.drop_all();
  on_terminated(state, effects, now, {});
  replace(0, 2);
  effects.take_message<wire::RunTask>(NodeId{0});
  now += 60s;
  complete(0, second);
  const CostFinal bill = close();
  EXPECT_DOUBLE_EQ(bill.total_cost, 0.22);
  EXPECT_DOUBLE_EQ(bill.useful_cost, 0.16);
  EXPECT_DOUBLE_EQ(bill.lost_cost, 0.06);
  EXPECT_DOUBLE_EQ(stopped.nodes.at(0).cost, 0.22) << "of both machines";
}

TEST_F(MoneyTest, WhatCostsNothingIsNotSpokenOf) {
  open_to_running();
  receive(0, wire::MetricsSample{});
  effects.take_event<Metrics>();
  on_close(state, effects, now);
  lose(0);
  effects.drop_all();
  on_terminated(state, effects, now, {});
  effects.take<Teardown>();
  on_torn_down(state, effects, now, {});
  effects.take_event<PoolStopped>();
  effects.drop_all();
}

TEST_F(MoneyTest, CostsAreToldWithMetricsAndAtMostOnceASecond) {
  open(1, std::nullopt);
  now += 100s;
  receive(0, wire::MetricsSample{});
  effects.take_event<Metrics>();
  const auto update = effects.take_event<CostUpdate>();
  EXPECT_DOUBLE_EQ(update.accumulated_cost, 0.1);
  EXPECT_DOUBLE_EQ(update.hourly_rate, kHourly);
  EXPECT_EQ(update.ondemand_count, 1);
  receive(0, wire::MetricsSample{});
  effects.take_event<Metrics>();
  effects.expect_nothing_else();
  close();
}

TEST_F(MoneyTest, CostsAreToldWithoutMetricsToo) {
  ask(1, std::nullopt);
  state.options.cost_interval = 5s;
  buy(1);
  effects.drop_all();
  now += 95s;  // more than the least that is billed
  on_timer(state, effects, now);
  EXPECT_DOUBLE_EQ(effects.take_event<CostUpdate>().accumulated_cost, 0.095) << "while it starts";
  ready(0);
  effects.drop_all();
  now += 3s;
  receive(0, wire::MetricsSample{});
  effects.drop_all();
  advance_to(now + 2s);
  effects.expect_nothing_else();
  advance_to(now + 3s);
  EXPECT_DOUBLE_EQ(effects.take_event<CostUpdate>().accumulated_cost, 0.103);
  effects.expect_nothing_else();
  on_close(state, effects, now);
  effects.drop_all();
  now += 5s;
  on_timer(state, effects, now);
  EXPECT_EQ(effects.count_events<CostUpdate>(), 0) << "its cost is final soon";
  EXPECT_EQ(state.tell_cost_at, kNever);
  close();
}

TEST_F(MoneyTest, ABudgetNeedsAPrice) {
  make();
  state.spec.budget = 5;
  on_open(state, effects, now);
  effects.drop_all();
  offer({.instance_type = "big"});
  effects.drop_events();
  effects.take<Teardown>();
  on_torn_down(state, effects, now, {});
  effects.drop_events();
  const Status opened = effects.take<Opened>().status;
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().kind, ErrorKind::invalid);
  EXPECT_THAT(opened.error().message, testing::HasSubstr("does not report what its machines cost"));
  effects.take<Closed>();
}

TEST_F(MoneyTest, AnHourlyLimitNeedsAPrice) {
  make();
  state.spec.max_hourly_cost = 5;
  on_open(state, effects, now);
  effects.drop_all();
  offer({.instance_type = "big"});
  effects.drop_all();
  ASSERT_TRUE(state.open_error);
  EXPECT_EQ(state.open_error->kind, ErrorKind::invalid);
  EXPECT_THAT(state.open_error->message, testing::HasSubstr("cannot enforce max_hourly_cost"));
  EXPECT_EQ(state.open_error->hint, "leave max_hourly_cost out, or use another provider");
  on_torn_down(state, effects, now, {});
  effects.drop_all();
}

TEST_F(MoneyTest, ABudgetThatPaysForNothingIsRefusedBeforeAnythingIsLaunched) {
  make({.nodes = 2});
  state.spec.budget = 0.10;
  on_open(state, effects, now);
  effects.drop_all();
  offer({.instance_type = "big", .price_on_demand = kHourly});
  effects.drop_events();
  effects.take<Teardown>();
  on_torn_down(state, effects, now, {});
  effects.drop_events();
  const Status opened = effects.take<Opened>().status;
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().kind, ErrorKind::over_budget);
  EXPECT_THAT(opened.error().message, testing::HasSubstr("budget=$0.10 does not cover 70 s of"));
  // More than 130 s of two machines for 3.60 an hour each.
  EXPECT_THAT(opened.error().hint, testing::HasSubstr("budget=$0.27 would leave a minute of work"));
  effects.take<Closed>();
}

TEST_F(MoneyTest, ABudgetTakesTheFirstMachineThatItCovers) {
  make({.nodes = 2});
  state.spec.budget = 0.14;
  on_open(state, effects, now);
  effects.drop_all();
  // A machine with burstable processors ranks behind dearer ones.
  on_offers(state, effects, now,
            std::vector<Offer>{{.instance_type = "full", .price_on_demand = 2 * kHourly},
                               {.instance_type = "burst", .price_on_demand = kHourly / 2}});
  EXPECT_EQ(state.placement.offer().instance_type, "burst");
  EXPECT_EQ(state.phase, Phase::preparing);
  effects.drop_all();

  make({.nodes = 2});
  state.spec.budget = 0.01;
  on_open(state, effects, now);
  effects.drop_all();
  on_offers(state, effects, now,
            std::vector<Offer>{{.instance_type = "full", .price_on_demand = 2 * kHourly},
                               {.instance_type = "burst", .price_on_demand = kHourly / 2}});
  ASSERT_TRUE(state.open_error);
  EXPECT_THAT(state.open_error->message, testing::HasSubstr("× burst")) << "the cheapest";
  effects.drop_all();
}

TEST_F(MoneyTest, ABudgetIsAsGoodAtACloudWhoseTimeIsFaster) {
  for (const double rate : {1.0, 60.0}) {
    for (const bool enough : {false, true}) {
      make({.nodes = 2});
      state.costs.clock().rate = rate;
      state.spec.budget = enough ? 0.15 : 0.135;
      on_open(state, effects, now);
      effects.drop_all();
      offer({.instance_type = "big", .price_on_demand = kHourly});
      EXPECT_EQ(state.phase == Phase::preparing, enough) << rate;
      effects.drop_all();
    }
  }
}

TEST_F(MoneyTest, MachinesThatCostMoreAnHourThanAllAreAllowedToAreGivenBack) {
  ask(2, std::nullopt);
  state.spec.max_hourly_cost = 2 * kHourly;
  buy(2, {.price_on_demand = kHourly + 0.5});
  effects.drop_all();
  ASSERT_EQ(state.phase, Phase::terminating);
  EXPECT_EQ(state.open_error->kind, ErrorKind::over_budget);
  EXPECT_THAT(state.open_error->message, testing::HasSubstr("cost $8.20 an hour together"));
  finish();

  ask(2, std::nullopt);
  state.spec.max_hourly_cost = 2 * kHourly;
  buy(2);
  EXPECT_EQ(state.phase, Phase::starting);
  effects.drop_all();
}

// The sum is that of all machines which are not seen to be gone, at every time.
TEST_F(MoneyTest, AReplacementWaitsUntilWhatItReplacesCostsNothingMore) {
  open(2, std::nullopt);
  state.spec.max_hourly_cost = 2 * kHourly;
  lose(0);
  lose(1);
  effects.drop_events();
  EXPECT_EQ(effects.take<Terminate>().instances, (std::vector<InstanceId>{"i-0-1"}));
  EXPECT_EQ(effects.take<Terminate>().instances, (std::vector<InstanceId>{"i-1-1"}));
  effects.expect_nothing_else();
  now += 30s;
  on_terminated(state, effects, now, {});
  EXPECT_EQ(effects.take<Provision>().first_node, NodeId{0});
  effects.expect_nothing_else();
  on_terminated(state, effects, now, {});
  EXPECT_EQ(effects.take<Provision>().first_node, NodeId{1});
  on_provisioned(state, effects, now, NodeId{0}, 1, std::vector{machine(0, 2)});
  on_provisioned(state, effects, now, NodeId{1}, 1, std::vector{machine(1, 2)});
  ready(0);
  ready(1);
  effects.drop_all();
  EXPECT_DOUBLE_EQ(close().hourly_rate, 2 * kHourly) << "never more";
}

TEST_F(MoneyTest, AMachineThatWillBeTakenBackGetsASuccessorBesideItOnlyWithinTheRate) {
  for (const double limit : {2 * kHourly, 3 * kHourly}) {
    open(2, std::nullopt);
    state.spec.max_hourly_cost = limit;
    receive(1, wire::Preempted{.left_ms = 120'000, .reason = "soon"});
    effects.drop_events();
    if (limit > 2 * kHourly) {
      EXPECT_EQ(effects.take<Provision>().first_node, NodeId{1});
      on_provisioned(state, effects, now, NodeId{1}, 1, std::vector{machine(1, 2)});
      effects.drop_all();
      on_terminated(state, effects, now, {});
    } else {
      lose(1);
      effects.drop_events();
      effects.take<Terminate>();
      on_terminated(state, effects, now, {});
      EXPECT_EQ(effects.take<Provision>().first_node, NodeId{1}) << "when it is gone";
      on_provisioned(state, effects, now, NodeId{1}, 1, std::vector{machine(1, 2)});
      effects.drop_all();
    }
    EXPECT_LE(close().hourly_rate, limit);
  }
}

TEST_F(MoneyTest, AReplacementThatCostsMoreThanAllowedIsGivenBack) {
  open(1, std::nullopt);
  state.spec.max_hourly_cost = kHourly;
  const TaskId task = submit_to(0);
  lose(0);
  effects.drop_all();
  on_terminated(state, effects, now, {});
  effects.take<Provision>();
  Instance dear = machine(0, 2);
  dear.price_on_demand = 2 * kHourly;
  on_provisioned(state, effects, now, NodeId{0}, 1, std::vector{dear});
  EXPECT_EQ(effects.take<Terminate>().instances, (std::vector<InstanceId>{"i-0-2"}));
  effects.drop_events();
  const wire::Outcome failed = take_outcome(task);
  EXPECT_EQ(failed.error.kind, ErrorKind::over_budget);
  EXPECT_THAT(failed.error.message, testing::HasSubstr("$7.20 an hour together, more than"));
  on_terminated(state, effects, now, {});
  close();
}

TEST_F(MoneyTest, AMachineThatDoesNotEndLeavesNoRoomForItsReplacement) {
  open(1, std::nullopt);
  state.spec.max_hourly_cost = kHourly;
  const TaskId task = submit_to(0);
  lose(0);
  effects.drop_events();
  for (int tries = 0; tries < 5; ++tries) {
    effects.take<Terminate>();
    effects.expect_nothing_else();
    on_terminated(state, effects, now, fail(ErrorKind::unavailable, "no answer"));
    effects.drop_events();
    if (tries < 4) advance_to(state.releases.again_at());
  }
  const wire::Outcome failed = take_outcome(task);
  EXPECT_EQ(failed.error.kind, ErrorKind::over_budget);
  EXPECT_THAT(failed.error.message, testing::HasSubstr("with another machine"));
  close();
}

TEST_F(MoneyTest, BeforeTheBudgetIsSpentNothingIsBegunAndWhatRunsMayFinish) {
  open(2, 2.0);  // 1000 s
  live_until(740s);
  effects.expect_nothing_else();
  live_until(810s);
  const auto warning = effects.take_event<BudgetWarning>();
  EXPECT_DOUBLE_EQ(warning.budget, 2.0);
  EXPECT_GE(warning.spent, 1.6);
  EXPECT_NEAR(warning.seconds_left, 125, 10);
  live_until(925s);
  const TaskId runs = submit_to(0);
  effects.expect_nothing_else();

  live_until(931s);
  const auto told = effects.take_event<ErrorEvent>();
  EXPECT_THAT(told.message, testing::HasSubstr("the pool's budget of $2.00 is spent"));
  EXPECT_EQ(effects.take_message<wire::RecallTasks>(NodeId{0}).count, 1U);
  EXPECT_EQ(effects.take<Disconnect>().node, NodeId{1});
  effects.take_event<InstanceStopping>();
  EXPECT_EQ(effects.take<Terminate>().instances, (std::vector<InstanceId>{"i-1-1"}));
  const TaskId late = submit();
  const wire::Outcome refused = take_outcome(late);
  EXPECT_EQ(refused.error.kind, ErrorKind::over_budget);
  EXPECT_THAT(refused.error.hint, testing::HasSubstr("larger budget="));

  on_terminated(state, effects, now, {});  // what is left pays for the other for 100 s
  receive(0, wire::Recalled{});
  live_until(965s);
  effects.expect_nothing_else();
  live_until(975s);
  const auto ahead = effects.take_message<wire::EndAhead>(NodeId{0});
  EXPECT_NEAR(static_cast<double>(ahead.left_ms), 60'000, 1000);
  EXPECT_EQ(ahead.reason, "the pool's budget is spent");
  live_until(985s);
  effects.expect_nothing_else();
  answer(0, runs);
  EXPECT_EQ(take_outcome(runs).status, wire::OutcomeStatus::ok);
  EXPECT_EQ(effects.take<Disconnect>().node, NodeId{0});
  const CostFinal bill = finish();
  EXPECT_LE(bill.total_cost, 2.0);
  EXPECT_GE(bill.total_cost, 1.85);
}

TEST_F(MoneyTest, IdleMachinesAreReleasedTogetherAndTheRestGoesOn) {
  open(8, 8.0);
  const TaskId task = submit_to(0);
  while (!state.budget.is_draining()) advance_alive();
  effects.drop_events();
  effects.take_message<wire::RecallTasks>(NodeId{0});
  for (std::uint32_t i = 1; i < 8; ++i) EXPECT_EQ(effects.take<Disconnect>().node, NodeId{i});
  effects.drop_events();
  EXPECT_EQ(effects.take<Terminate>().instances.size(), 7U);
  receive(0, wire::Recalled{});
  on_timer(state, effects, now);
  effects.expect_nothing_else();
  on_terminated(state, effects, now, {});
  const Time drained = now;
  while (!state.budget.has_given_notice()) advance_alive();
  EXPECT_GT(now, drained + 300s) << "the rest pays for one";
  EXPECT_NEAR(static_cast<double>(effects.take_message<wire::EndAhead>(NodeId{0}).left_ms), 60'000,
              1000);
  complete(0, task);
  effects.take<Disconnect>();
  finish();
}

TEST_F(MoneyTest, NoticeDoesNotWaitForMachinesThatDoNotEnd) {
  open(2, 2.0);
  submit_to(0);
  live_until(931s);
  effects.drop_all();
  receive(0, wire::Recalled{});
  live_until(939s);
  effects.expect_nothing_else();
  live_until(941s);  // the end of the budget has come nearer: the next request waits for that one
  EXPECT_NEAR(static_cast<double>(effects.take_message<wire::EndAhead>(NodeId{0}).left_ms), 10'000,
              1000);
  close();
}

// When their end is known, there is money for the rest to go on.
TEST_F(MoneyTest, WhileMachinesAreBeingReleasedNoticeIsShort) {
  open(2, 2.0);
  submit_to(0);
  live_until(931s);
  effects.drop_all();
  receive(0, wire::Recalled{});
  live_until(933s);
  on_charges(state, effects, now, std::vector<Charge>());  // a look at the budget
  effects.expect_nothing_else();
  live_until(937s);
  EXPECT_NEAR(static_cast<double>(effects.take_message<wire::EndAhead>(NodeId{0}).left_ms), 15'000,
              1000);
  close();
}

TEST_F(MoneyTest, WhatStillRunsAtTheEndOfTheBudgetEndsWithIt) {
  open(1, 1.0);
  const TaskId endless = submit_to(0);
  live_until(935s);
  effects.drop_all();
  receive(0, wire::Recalled{});
  live_until(965s);
  effects.take_event<PoolStopping>();
  EXPECT_EQ(take_outcome(endless).error.kind, ErrorKind::over_budget);
  effects.take_event<InstanceStopping>();
  effects.take_message<wire::Shutdown>(NodeId{0});
  live_until(975s);  // it does not answer
  effects.take_event<Notice>();
  effects.take<Disconnect>();
  effects.take<Terminate>();
  now += 20s;
  EXPECT_LE(finish().total_cost, 1.0);
}

TEST_F(MoneyTest, TheLastMoneyLaunchesNoOtherMachine) {
  open(1, 1.0);
  live_until(900s);
  effects.drop_all();
  const TaskId task = submit_to(0);
  lose(0);
  effects.drop_events();
  effects.take<Terminate>();
  const wire::Outcome failed = take_outcome(task);
  EXPECT_EQ(failed.error.kind, ErrorKind::over_budget);
  EXPECT_THAT(failed.error.message, testing::HasSubstr("does not cover another machine"));
  on_terminated(state, effects, now, {});
  EXPECT_LE(close().total_cost, 1.0);
}

TEST_F(MoneyTest, AQuantumThatIsBegunMustBePaidFor) {
  make();
  state.options.billing = {.quantum = 10min, .minimum = 10min};
  state.spec.budget = 1.3;  // two tens of minutes
  on_open(state, effects, now);
  offer({.instance_type = "big", .price_on_demand = kHourly});
  on_prepared(state, effects, now, Cluster{.id = "cloud-1"});
  asked = now;
  buy(1);
  ready(0);
  live_until(1125s);
  effects.drop_all();
  EXPECT_FALSE(state.budget.is_draining());
  live_until(1135s);  // 20 minutes less 70 seconds
  effects.drop_all();
  EXPECT_EQ(state.releases.requests(), 1) << "idle: it goes at once";
  EXPECT_DOUBLE_EQ(finish().total_cost, 1.2);
}

TEST_F(MoneyTest, TheCloudIsAskedAndItsWordCounts) {
  open(1, std::nullopt, 60s);
  live_until(60s);
  EXPECT_EQ(effects.take<AskCharges>().instances, (std::vector<InstanceId>{"i-0-1"}));
  on_charges(state, effects, now,
             std::vector<Charge>{{.instance = "i-0-1", .began = 50s},
                                 {.instance = "i-0-1", .hourly = 2 * kHourly, .since = 10s}});
  live_until(70s);
  EXPECT_EQ(state.costs.book().now(now).total, 40'000 + 2 * 20'000);
  on_close(state, effects, now);
  lose(0);
  now += 50s;
  effects.drop_all();
  on_terminated(state, effects, now, {});
  EXPECT_EQ(effects.take<AskCharges>().instances, (std::vector<InstanceId>{"i-0-1"}))
      << "once more, before the end";
  effects.take<Teardown>();
  on_charges(state, effects, now, std::vector<Charge>{{.instance = "i-0-1", .ended = 40s}});
  on_torn_down(state, effects, now, {});
  EXPECT_DOUBLE_EQ(effects.take_event<CostFinal>().total_cost, 0.04 + 2 * 0.03);
  effects.drop_all();
}

TEST_F(MoneyTest, ASpotPriceIsExpectedToRiseUntilTheCloudSaysOtherwise) {
  make();
  state.options.charges_interval = 100s;
  state.options.billing.prices_change = true;
  state.spec.budget = 1.0;
  on_open(state, effects, now);
  offer({.instance_type = "big", .price_on_demand = 7.2, .price_spot = kHourly});
  on_prepared(state, effects, now, Cluster{.id = "cloud-1"});
  asked = now;
  buy(1, {.spot = true});
  ready(0);
  effects.drop_all();
  // A tenth of a cent a second until now, twice that from now on.
  const auto lasts = [&] { return state.costs.book().lasts_until(1'000'000, now) - now; };
  EXPECT_EQ(std::chrono::round<std::chrono::seconds>(lasts()), 500s);
  live_until(100s);
  effects.take<AskCharges>();
  EXPECT_EQ(std::chrono::round<std::chrono::seconds>(lasts()), 400s);
  on_charges(state, effects, now, std::vector<Charge>{{.instance = "i-0-1", .hourly = kHourly}});
  EXPECT_EQ(std::chrono::round<std::chrono::seconds>(lasts()), 450s);
  effects.drop_all();
  close();
}

}  // namespace
}  // namespace skyward::engine

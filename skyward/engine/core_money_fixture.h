#pragma once

// For the tests of what pools cost: a pool whose machines cost a tenth of a cent a second, and its
// bill at the end.

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "skyward/engine/core_fixture.h"
#include "skyward/engine/core_spend.h"

namespace skyward::engine {

inline constexpr double kHourly = 3.6;

class MoneyTest : public CoreTest {
 protected:
  // Up to the request for machines, which is when the clock begins to run.
  void ask(int nodes, std::optional<double> budget, Duration charges_interval = {}) {
    make({.nodes = nodes});
    state.spec.budget = budget;
    state.spec.spot.kind = SpotKind::never;
    state.options.charges_interval = charges_interval;
    on_open(state, effects, now);
    offer({.instance_type = "big", .price_on_demand = kHourly});
    on_prepared(state, effects, now, Cluster{.id = "cloud-1"});
    effects.drop_all();
    asked = now;
  }
  void offer(const Offer& offer) { on_offers(state, effects, now, std::vector{offer}); }

  // ... and on to a running pool, all at the same moment.
  void open(int nodes, std::optional<double> budget, Duration charges_interval = {}) {
    ask(nodes, budget, charges_interval);
    buy(nodes);
    for (int i = 0; i < nodes; ++i) ready(static_cast<std::uint32_t>(i));
    effects.drop_all();
    ASSERT_EQ(state.phase, Phase::running);
  }
  void buy(int nodes, const Instance& like = {}) {
    std::vector<Instance> machines;
    for (int i = 0; i < nodes; ++i) {
      Instance one = like;
      one.id = machine(static_cast<std::uint32_t>(i)).id;
      machines.push_back(std::move(one));
    }
    on_provisioned(state, effects, now, NodeId{0}, nodes, machines);
  }
  void ready(std::uint32_t node) {
    join(node);
    receive(node, wire::Ready{});
  }

  // Time passes, and all nodes are well, until then.
  void live_until(Duration since_asked) {
    const Time end = asked + since_asked;
    while (next_deadline(state) < end) advance_alive();
    now = end;
    for (const Node& node : state.nodes) {
      if (node.state == NodeState::ready) receive(node.id.value, wire::Heartbeat{});
    }
    on_timer(state, effects, now);
  }

  CostFinal close() {
    on_close(state, effects, now);
    for (std::uint32_t i = 0; i < state.nodes.size(); ++i) {
      if (state.nodes[NodeId{i}].state == NodeState::stopping) lose(i);
    }
    return finish();
  }
  // Everything is released at this moment.
  CostFinal finish() {
    while (state.releases.requests() > 0) on_terminated(state, effects, now, {});
    EXPECT_EQ(state.phase, Phase::removing);
    effects.drop_all();
    on_torn_down(state, effects, now, {});
    CostFinal bill = effects.take_event<CostFinal>();
    stopped = effects.take_event<PoolStopped>();
    effects.drop_all();
    return bill;
  }

  Time asked{};
  PoolStopped stopped;
};

}  // namespace skyward::engine

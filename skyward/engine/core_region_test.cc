#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "skyward/engine/core.h"

namespace skyward::engine {
namespace {

// Writes events down, and does nothing.
class Listener final : public EngineEffects {
 public:
  void list_offers() override {}
  void prepare(const Offer&) override {}
  void provision(int, NodeId) override {}
  void terminate(std::vector<InstanceId>) override {}
  void teardown() override {}
  void stop_launching() override {}
  void ask_charges(std::vector<InstanceId>) override {}
  void connect(NodeId, const Instance&) override {}
  void disconnect(NodeId) override {}
  void send(NodeId, wire::Message) override {}
  void complete(TaskId, wire::Outcome) override {}
  void deliver_item(TaskId, wire::Payload) override {}
  void retain_blob(const wire::Blob&) override {}
  void emit(Event event) override { events.push_back(std::move(event)); }
  void opened(Status) override {}
  void closed(Status) override {}

  std::vector<Event> events;
};

// Opens a pool up to the launch of its machines; gives what is told on the way.
std::vector<Event> events_of_opening(const std::string& asked, const std::string& got,
                                     const Instance& instance) {
  PoolSpec spec;
  spec.provider = {.name = "aws", .settings = {{"region", asked}}};
  EngineState state = make_state(std::move(spec), {});
  Listener effects;
  const Time now = Time{} + std::chrono::hours(1);
  on_open(state, effects, now);
  on_offers(state, effects, now,
            std::vector<Offer>{{.instance_type = "m5.large",
                                .region = got,
                                .price_on_demand = 0.096,
                                .price_spot = 0.03}});
  on_prepared(state, effects, now, Cluster{.id = "aws-1", .region = got});
  on_provisioned(state, effects, now, NodeId{0}, 1, std::vector<Instance>{instance});
  return std::move(effects.events);
}

template <typename E>
const E* find(const std::vector<Event>& events) {
  for (const Event& event : events) {
    if (const E* found = std::get_if<E>(&event)) return found;
  }
  return nullptr;
}

TEST(CoreRegion, AnotherRegionIsToldOfAfterItsThingsAreThere) {
  const std::vector<Event> events = events_of_opening("eu-west-1", "us-east-1", {.id = "i-1"});
  const auto* told = find<RegionAutoSelected>(events);
  ASSERT_NE(told, nullptr);
  EXPECT_EQ(*told, (RegionAutoSelected{"eu-west-1", "us-east-1", "m5.large", "AWS"}));
  EXPECT_EQ(find<RegionAutoSelected>(events_of_opening("r", "r", {.id = "i-1"})), nullptr);
  EXPECT_EQ(find<RegionAutoSelected>(events_of_opening("", "r", {.id = "i-1"})), nullptr);
}

TEST(CoreRegion, AMachineTellsItsOwnTypeAndPrice) {
  const std::vector<Event> as_offered = events_of_opening("r", "r", {.id = "i-1"});
  ASSERT_NE(find<InstanceProvisioned>(as_offered), nullptr);
  EXPECT_EQ(find<InstanceProvisioned>(as_offered)->instance_type, "m5.large");
  EXPECT_EQ(find<InstanceProvisioned>(as_offered)->price_spot, 0.03);
  const std::vector<Event> other =
      events_of_opening("r", "r", {.id = "i-1", .instance_type = "m6i.large", .price_spot = 0.04});
  ASSERT_NE(find<InstanceProvisioned>(other), nullptr);
  EXPECT_EQ(find<InstanceProvisioned>(other)->instance_type, "m6i.large");
  EXPECT_EQ(find<InstanceProvisioned>(other)->price_spot, 0.04);
  EXPECT_EQ(find<InstanceProvisioned>(other)->price_on_demand, 0.096);
}

}  // namespace
}  // namespace skyward::engine

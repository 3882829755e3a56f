#pragma once

// EngineEffects that write everything down, for the tests of the core: a test calls on_*, and takes
// the effects that it expects, in order.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "skyward/engine/core.h"

namespace skyward::engine {

// One struct for each call of EngineEffects.
struct ListOffers {};
struct Prepare {
  Offer offer;
};
struct Provision {
  int count;
  NodeId first_node;
};
struct Terminate {
  std::vector<InstanceId> instances;
};
struct Teardown {};
struct AskCharges {
  std::vector<InstanceId> instances;
};
struct Connect {
  NodeId node;
  Instance instance;
};
struct Disconnect {
  NodeId node;
};
struct Send {
  NodeId node;
  wire::Message message;
};
struct Complete {
  TaskId task;
  wire::Outcome outcome;
};
struct DeliverItem {
  TaskId task;
  wire::Payload item;
};
struct RetainBlob {
  wire::Blob blob;
};
struct Emit {
  Event event;
};
struct Opened {
  Status status;
};
struct Closed : Opened {};

using Effect =
    std::variant<ListOffers, Prepare, Provision, Terminate, Teardown, AskCharges, Connect,
                 Disconnect, Send, Complete, DeliverItem, RetainBlob, Emit, Opened, Closed>;

// "send RunTask to node 1", for the messages of failing tests.
std::string to_string(const Effect& effect);

class RecordingEffects final : public EngineEffects {
 public:
  void list_offers() override { add(ListOffers{}); }
  void prepare(const Offer& offer) override { add(Prepare{offer}); }
  void provision(int count, NodeId first_node) override { add(Provision{count, first_node}); }
  void terminate(std::vector<InstanceId> ids) override { add(Terminate{std::move(ids)}); }
  void teardown() override { add(Teardown{}); }
  void stop_launching() override { launching = false; }
  void ask_charges(std::vector<InstanceId> ids) override { add(AskCharges{std::move(ids)}); }
  void connect(NodeId node, const Instance& instance) override { add(Connect{node, instance}); }
  void disconnect(NodeId node) override { add(Disconnect{node}); }
  void send(NodeId node, wire::Message message) override { add(Send{node, std::move(message)}); }
  void complete(TaskId task, wire::Outcome outcome) override {
    add(Complete{task, std::move(outcome)});
  }
  void deliver_item(TaskId task, wire::Payload item) override {
    add(DeliverItem{task, std::move(item)});
  }
  void retain_blob(const wire::Blob& blob) override { add(RetainBlob{blob}); }
  void emit(Event event) override { add(Emit{std::move(event)}); }
  void opened(Status status) override { add(Opened{std::move(status)}); }
  void closed(Status left) override { add(Closed{{std::move(left)}}); }

  // The oldest effect that was not taken yet must be a T, an event E, a message M to this node.
  template <typename T>
  T take() {
    if (calls_.empty()) {
      ADD_FAILURE() << "expected " << to_string(Effect(T{})) << ", nothing was asked";
      return T{};
    }
    Effect effect = std::move(calls_.front());
    calls_.pop_front();
    if (T* found = std::get_if<T>(&effect)) return std::move(*found);
    ADD_FAILURE() << "expected " << to_string(Effect(T{})) << ", got " << to_string(effect);
    return T{};
  }

  template <typename E>
  E take_event() {
    Event event = take<Emit>().event;
    if (E* found = std::get_if<E>(&event)) return std::move(*found);
    ADD_FAILURE() << "expected event " << event_name(E{}) << ", got " << event_name(event);
    return E{};
  }

  template <typename M>
  M take_message(NodeId node) {
    Send send = take<Send>();
    EXPECT_EQ(send.node, node);
    if (M* found = std::get_if<M>(&send.message)) return std::move(*found);
    ADD_FAILURE() << "got " << to_string(Effect(send));
    return M{};
  }

  // Forgets the events that were not taken, for tests that are about something else.
  void drop_events();
  template <typename E>
  void drop_events_of() {
    std::erase_if(calls_, [](const Effect& effect) {
      const auto* emit = std::get_if<Emit>(&effect);
      return emit != nullptr && std::holds_alternative<E>(emit->event);
    });
  }
  template <typename E>
  std::ptrdiff_t count_events() const {
    return std::ranges::count_if(calls_, [](const Effect& effect) {
      const auto* emit = std::get_if<Emit>(&effect);
      return emit != nullptr && std::holds_alternative<E>(emit->event);
    });
  }
  void drop_all() { calls_.clear(); }
  void expect_nothing_else();
  bool launching = true;  // until stop_launching()

 private:
  void add(Effect effect) { calls_.push_back(std::move(effect)); }

  std::deque<Effect> calls_;
};

}  // namespace skyward::engine

#include "skyward/engine/spreads.h"
#include "skyward/spec/link_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "skyward/engine/core_fixture.h"

namespace skyward::engine {
namespace {

using ::testing::HasSubstr;
using wire::FetchEnd;

class SpreadTest : public CoreTest {
 protected:
  // A running pool whose agents can talk to each other.
  void open(int nodes, const std::string& key = "secret") {
    const auto shape = PoolShape{.nodes = nodes, .concurrency = 4};  // no task waits for another
    make(shape);
    open_to_bootstrapping(shape);
    state.options.peer_key = key;
    for (int i = 0; i < nodes; ++i) ready(static_cast<unsigned>(i));
    effects.drop_all();
    ASSERT_EQ(state.phase, Phase::running);
  }
  void ready(std::uint32_t node) {
    const auto port = static_cast<std::uint16_t>(4000 + node);
    receive(node, wire::Ready{.peer_port = node == without_port ? std::uint16_t{0} : port});
  }
  std::uint32_t without_port = 1000;
  static wire::Blob blob(std::uint64_t id, std::uint8_t content,
                         std::uint64_t size = kMinSpreadBytes) {
    wire::Blob made{.id = BlobId{id}, .size = size};
    made.content[0] = content;
    return made;
  }
  wire::Call task_with(const wire::Blob& large, std::uint32_t node) {
    wire::Call call = task();
    call.options.node = NodeId{node};
    call.arguments.buffers.push_back(wire::blob_buffer(large, 0, large.size));
    return call;
  }
  // The node gets a task with the blob, sent by the engine.
  TaskId upload(std::uint32_t node, const wire::Blob& large) {
    return submit_to(node, task_with(large, node));
  }
  // ... which it is told to read from another node.
  wire::FetchBlob fetch(std::uint32_t node, const wire::Blob& large) {
    const TaskId id = submit(task_with(large, node));
    auto ask = effects.take_message<wire::FetchBlob>(NodeId{node});
    EXPECT_EQ(effects.take_message<wire::RunTask>(NodeId{node}).task, id);
    return ask;
  }
  wire::FetchBlob take_fetch(std::uint32_t node) {
    return effects.take_message<wire::FetchBlob>(NodeId{node});
  }
  void fetched(std::uint32_t node, const wire::FetchBlob& ask, FetchEnd end,
               std::string detail = {}) {
    receive(node, wire::BlobFetched{.blob = ask.blob,
                                    .content = ask.content,
                                    .attempt = ask.attempt,
                                    .end = end,
                                    .detail = std::move(detail)});
  }
  // A node that ran one task with a blob.
  void lose_node(std::uint32_t node) {
    lose(node);
    effects.drop_events();
    effects.take<RetainBlob>();
  }
};

TEST_F(SpreadTest, TheFirstIsSentItAndEachLaterOneReadsFromTheOneBeforeIt) {
  open(4);
  const wire::Blob large = blob(1, 9);
  upload(2, large);
  std::uint32_t before = 2;
  for (const std::uint32_t node : {0U, 3U, 1U}) {
    const auto ask = fetch(node, large);
    EXPECT_EQ(ask.peer, NodeId{before});
    EXPECT_EQ(ask.address, machine(before).private_ip);
    EXPECT_EQ(ask.port, 4000 + before);
    EXPECT_EQ(ask.blob, large.id);
    EXPECT_EQ(ask.content, large.content);
    EXPECT_EQ(ask.size, large.size);
    before = node;
  }
  upload(1, large);  // the second task with it on a node asks for nothing
}

TEST_F(SpreadTest, ABroadcastIsAChain) {
  open(3);
  const wire::Blob large = blob(1, 9);
  for (std::uint32_t node = 0; node < 3; ++node) submit(task_with(large, node));
  effects.take_message<wire::RunTask>(NodeId{0});
  EXPECT_EQ(take_fetch(1).peer, NodeId{0});
  effects.take_message<wire::RunTask>(NodeId{1});
  EXPECT_EQ(take_fetch(2).peer, NodeId{1});
  effects.take_message<wire::RunTask>(NodeId{2});
}

TEST_F(SpreadTest, WhatIsSmallOrWithoutAContentGoesToEachNode) {
  open(2);
  for (const wire::Blob& each : {blob(1, 9, kMinSpreadBytes - 1), blob(2, 0)}) {
    upload(0, each);
    upload(1, each);
  }
  EXPECT_TRUE(state.tasks.blobs().spreads().all().empty());
}

TEST_F(SpreadTest, AgentsThatDoNotTalkAreSentEverything) {
  open(2, "");
  upload(0, blob(1, 9));
  upload(1, blob(1, 9));
}

TEST_F(SpreadTest, ANodeWithoutAPortNeitherGivesNorTakes) {
  without_port = 1;
  open(3);
  const wire::Blob large = blob(1, 9);
  upload(1, large);
  upload(0, large);
  EXPECT_EQ(fetch(2, large).peer, NodeId{0});
}

TEST_F(SpreadTest, AFunctionsLargeBodyGoesAlongTheChainToo) {
  open(2);
  wire::FunctionBody body = *function;
  body.id.value[0] = 8;
  body.bytes = wire::blob_buffer(blob(5, 7), 0, kMinSpreadBytes);
  function = std::make_shared<const wire::FunctionBody>(std::move(body));
  for (const std::uint32_t node : {0U, 1U}) {
    wire::Call call = task();
    call.options.node = NodeId{node};
    submit(std::move(call));
    if (node == 1) {
      EXPECT_EQ(take_fetch(1).blob, BlobId{5});
    }
    effects.take_message<wire::RunTask>(NodeId{node});
  }
}

TEST_F(SpreadTest, WhoReadFromALostNodeGoesOnFromTheOneBeforeThat) {
  open(4);
  const wire::Blob large = blob(1, 9);
  upload(0, large);
  const auto first = fetch(1, large);
  const auto second = fetch(2, large);
  fetch(3, large);
  lose_node(1);
  const auto again = take_fetch(2);
  EXPECT_EQ(again.peer, NodeId{0});
  EXPECT_NE(again.attempt, second.attempt);
  effects.take<Terminate>();
  effects.take<Provision>();
  fetched(2, again, FetchEnd::whole);
  EXPECT_TRUE(state.tasks.blobs().spreads().all().at(large.content).copies.at(NodeId{2}).whole);
}

TEST_F(SpreadTest, WhoReadFromTheLostFirstIsSentTheRest) {
  open(3);
  const wire::Blob large = blob(1, 9);
  upload(0, large);
  fetch(1, large);
  fetch(2, large);
  lose_node(0);
  const auto again = take_fetch(1);
  EXPECT_EQ(again.port, 0) << "not from node 2, which reads from node 1";
  effects.take<Terminate>();
  effects.take<Provision>();
}

TEST_F(SpreadTest, AReplacementReadsFromTheEndOfTheChain) {
  open(3);
  const wire::Blob large = blob(1, 9);
  upload(0, large);
  fetch(1, large);
  fetch(2, large);
  lose_node(1);
  EXPECT_EQ(take_fetch(2).peer, NodeId{0});
  effects.drop_all();
  on_provisioned(state, effects, now, NodeId{1}, 1, std::vector{machine(1, 2)});
  join(1);
  effects.drop_all();
  ready(1);
  effects.drop_events();
  const auto ask = take_fetch(1);
  EXPECT_EQ(ask.peer, NodeId{2});
  EXPECT_EQ(effects.take_message<wire::RunTask>(NodeId{1}).attempt, 2U);
}

TEST_F(SpreadTest, ASourceThatFailsIsNotAskedAgain) {
  open(4);
  const wire::Blob large = blob(1, 9);
  upload(0, large);
  fetch(1, large);
  auto ask = fetch(2, large);
  EXPECT_EQ(ask.peer, NodeId{1});
  fetched(2, ask, FetchEnd::broken, "connection reset");
  ask = take_fetch(2);
  EXPECT_EQ(ask.peer, NodeId{0});
  fetched(2, ask, FetchEnd::broken, "connection reset");
  ask = take_fetch(2);
  EXPECT_EQ(ask.port, 0) << "nobody else has it";
}

TEST_F(SpreadTest, AfterAFewSourcesTheEngineSendsTheRest) {
  open(6);
  const wire::Blob large = blob(1, 9);
  upload(0, large);
  for (const std::uint32_t node : {1U, 2U, 3U, 4U})
    fetched(node, fetch(node, large), FetchEnd::whole);
  auto ask = fetch(5, large);
  for (int i = 0; i < 2; ++i) {
    EXPECT_NE(ask.port, 0);
    fetched(5, ask, FetchEnd::broken);
    ask = take_fetch(5);
  }
  EXPECT_NE(ask.port, 0);
  fetched(5, ask, FetchEnd::broken);
  EXPECT_EQ(take_fetch(5).port, 0);
}

TEST_F(SpreadTest, ANodeThatReachesNobodyIsToldOfOnceAndSentEverything) {
  open(3);
  const wire::Blob large = blob(1, 9);
  upload(0, large);
  fetch(1, large);
  const auto ask = fetch(2, large);
  fetched(2, ask, FetchEnd::unreached, "timed out");
  const auto second = take_fetch(2);
  EXPECT_EQ(second.peer, NodeId{0});
  fetched(2, second, FetchEnd::unreached, "timed out");
  const auto event = effects.take_event<ErrorEvent>();
  EXPECT_THAT(event.message, HasSubstr("node 2 cannot reach node 0 at 10.0.1.0:4000: timed out"));
  EXPECT_EQ(take_fetch(2).port, 0);
  // The next one comes from here at once.
  upload(0, blob(2, 8));
  upload(2, blob(2, 8));
}

TEST_F(SpreadTest, ANodeThatHasForgottenTheBytesIsForgottenAsASource) {
  open(3);
  const wire::Blob large = blob(1, 9);
  const TaskId first = upload(0, large);
  answer(0, first);
  effects.take_message<wire::DropBlobs>(NodeId{0});
  take_outcome(first);
  EXPECT_EQ(state.tasks.blobs().spreads().all().size(), 1U) << "its agent may have kept it";
  const auto ask = fetch(1, blob(2, 9));
  EXPECT_EQ(ask.peer, NodeId{0});
  fetched(1, ask, FetchEnd::missing);
  EXPECT_EQ(take_fetch(1).port, 0);
  EXPECT_FALSE(state.tasks.blobs().spreads().all().at(large.content).copies.contains(NodeId{0}));
}

TEST_F(SpreadTest, HalfACopyIsForgottenWithTheLastTaskThatNeedsIt) {
  open(2);
  const wire::Blob large = blob(1, 9);
  const TaskId first = upload(0, large);
  const TaskId second = submit(task_with(large, 1));
  take_fetch(1);
  effects.take_message<wire::RunTask>(NodeId{1});
  complete(0, first);
  on_cancel(state, effects, now, second);
  effects.take_message<wire::CancelTask>(NodeId{1});
  answer_with(1, second, wire::TaskStatus::cancelled);
  effects.take_message<wire::DropBlobs>(NodeId{0});
  effects.take_message<wire::DropBlobs>(NodeId{1});
  take_outcome(second);
  const Spread& spread = state.tasks.blobs().spreads().all().at(large.content);
  EXPECT_TRUE(spread.copies.contains(NodeId{0}));
  EXPECT_FALSE(spread.copies.contains(NodeId{1}));
  EXPECT_EQ(fetch(1, blob(2, 9)).peer, NodeId{0});
}

TEST_F(SpreadTest, AFetchOfATaskThatIsOverEndsWithTheBytesFromHere) {
  open(2);
  const wire::Blob large = blob(1, 9);
  const wire::FetchBlob old{.blob = large.id, .content = large.content, .attempt = 77};
  fetched(1, old, FetchEnd::broken);
  EXPECT_EQ(take_fetch(1).port, 0);
  upload(1, large);
  fetched(1, old, FetchEnd::broken);
  const auto rest = take_fetch(1);
  EXPECT_EQ(rest.port, 0);
  EXPECT_EQ(rest.content, large.content);
  fetched(1, old, FetchEnd::whole);
}

TEST_F(SpreadTest, AMachineThatIsTakenBackGivesNothingMore) {
  open(2);
  const wire::Blob large = blob(1, 9);
  upload(0, large);
  receive(0, wire::Preempted{.left_ms = 120'000, .reason = "terminate"});
  effects.drop_all();
  upload(1, large);
}

TEST_F(SpreadTest, OnlySoManyIdleContentsAreRemembered) {
  open(2);
  for (std::uint64_t i = 1; i <= 300; ++i) {
    wire::Blob large = blob(i, 1);
    large.content[1] = static_cast<std::uint8_t>(i);
    large.content[2] = static_cast<std::uint8_t>(i >> 8);
    const TaskId id = upload(0, large);
    answer(0, id);
    effects.take_message<wire::DropBlobs>(NodeId{0});
    take_outcome(id);
  }
  EXPECT_LE(state.tasks.blobs().spreads().all().size(), 256U);
  EXPECT_GT(state.tasks.blobs().spreads().all().size(), 200U);
}

}  // namespace
}  // namespace skyward::engine

// Which nodes hold a task's blobs, and until when.

#include <vector>

#include "skyward/engine/core_fixture.h"

namespace skyward::engine {
namespace {

using CoreBlobTest = CoreTest;

TEST_F(CoreBlobTest, BlobIsDroppedWhereverItIsWhenItsLastTaskHasEnded) {
  open_to_running({.nodes = 2});
  const TaskId first = submit_to(0, with_blobs(task(), {5, 5, 6}));
  const TaskId second = submit_to(1, with_blobs(task(), {5}));
  answer(0, first);
  EXPECT_EQ(effects.take_message<wire::DropBlobs>(kFirst).blobs, std::vector{BlobId{6}});
  take_outcome(first);
  answer(1, second);
  EXPECT_EQ(effects.take_message<wire::DropBlobs>(kFirst).blobs, std::vector{BlobId{5}});
  EXPECT_EQ(effects.take_message<wire::DropBlobs>(kSecond).blobs, std::vector{BlobId{5}});
  take_outcome(second);
  EXPECT_TRUE(state.tasks.blobs().uses().empty());
}

TEST_F(CoreBlobTest, KeptBlobStaysBetweenTasks) {
  open_to_running({.nodes = 2});
  on_keep_blob(state, effects, BlobId{5}, true);
  const TaskId first = submit_to(0, with_blobs(task(), {5}));
  complete(0, first);
  submit_to(0);
  const TaskId second = submit_to(1, with_blobs(task(), {5}));
  on_keep_blob(state, effects, BlobId{5}, false);
  EXPECT_FALSE(state.tasks.blobs().uses().empty());  // the second task needs it still
  answer(1, second);
  EXPECT_EQ(effects.take_message<wire::DropBlobs>(kFirst).blobs, std::vector{BlobId{5}});
  EXPECT_EQ(effects.take_message<wire::DropBlobs>(kSecond).blobs, std::vector{BlobId{5}});
  take_outcome(second);
  EXPECT_TRUE(state.tasks.blobs().uses().empty());
}

TEST_F(CoreBlobTest, KeptBlobIsDroppedWhenItIsForgotten) {
  open_to_running();
  on_keep_blob(state, effects, BlobId{5}, true);
  const TaskId id = submit_to(0, with_blobs(task(), {5}));
  complete(0, id);
  on_keep_blob(state, effects, BlobId{5}, false);
  EXPECT_EQ(effects.take_message<wire::DropBlobs>(kFirst).blobs, std::vector{BlobId{5}});
  EXPECT_TRUE(state.tasks.blobs().uses().empty());
}

TEST_F(CoreBlobTest, ABlobIsForgottenAsOftenAsItWasKept) {
  open_to_running();
  on_keep_blob(state, effects, BlobId{5}, false);
  on_keep_blob(state, effects, BlobId{5}, true);
  const TaskId id = submit_to(0, with_blobs(task(), {5}));
  on_keep_blob(state, effects, BlobId{5}, false);
  on_keep_blob(state, effects, BlobId{5}, false);  // the task's own use is not the caller's
  effects.expect_nothing_else();
  answer(0, id);
  EXPECT_EQ(effects.take_message<wire::DropBlobs>(kFirst).blobs, std::vector{BlobId{5}});
  take_outcome(id);
}

TEST_F(CoreBlobTest, ANodeListsTheBlobsThatItHolds) {
  open_to_running({.nodes = 2});
  const TaskId first = submit_to(0, with_blobs(task(), {5, 6}));
  submit_to(1, with_blobs(task(), {5}));
  const auto& uses = state.tasks.blobs().uses();
  EXPECT_THAT(uses.at(BlobId{5}).holders, testing::UnorderedElementsAre(NodeId{0}, NodeId{1}));
  EXPECT_THAT(uses.at(BlobId{6}).holders, testing::ElementsAre(NodeId{0}));
  answer(0, first);
  EXPECT_THAT(uses.at(BlobId{5}).holders, testing::UnorderedElementsAre(NodeId{0}, NodeId{1}));
  EXPECT_FALSE(uses.contains(BlobId{6}));
  lose(0);
  EXPECT_THAT(uses.at(BlobId{5}).holders, testing::ElementsAre(NodeId{1}));
  effects.drop_all();
}

TEST_F(CoreBlobTest, BlobOfAWaitingTaskIsHeldByNobody) {
  open_to_running();
  submit_to(0);
  const TaskId waiting = submit(with_blobs(task(), {5}));
  on_cancel(state, effects, now, waiting);
  take_outcome(waiting);
  EXPECT_TRUE(state.tasks.blobs().uses().empty());
}

TEST_F(CoreBlobTest, LostNodeHoldsNoBlobs) {
  open_to_running({.nodes = 2});
  const TaskId id = submit_to(0, with_blobs(task(), {5}));
  lose(0);
  EXPECT_EQ(effects.take<RetainBlob>().blob.id, BlobId{5});
  EXPECT_EQ(effects.take_message<wire::RunTask>(kSecond).task, id);
  effects.drop_all();
  answer(1, id);
  effects.take_message<wire::DropBlobs>(kSecond);
  take_outcome(id);
}

TEST_F(CoreBlobTest, BlobsThatMayStillBeMappedAreRetained) {
  open_to_running();
  const TaskId died = submit_to(0, with_blobs(task(), {5, 6}));
  answer_with(0, died, wire::TaskStatus::worker_died);
  EXPECT_EQ(effects.take<RetainBlob>().blob.id, BlobId{5});
  EXPECT_EQ(effects.take<RetainBlob>().blob.id, BlobId{6});
  effects.take<Send>();
  effects.take<Send>();
  take_outcome(died);
  const TaskId kept = submit_to(0, with_blobs(task(), {7, 8}));
  answer_with(0, kept, wire::TaskStatus::ok, {BlobId{8}, BlobId{99}});
  EXPECT_EQ(effects.take<RetainBlob>().blob.id, BlobId{8});
  effects.take<Send>();
  effects.take<Send>();
  take_outcome(kept);
}

TEST_F(CoreBlobTest, BlobsOfRunningTasksAreRetainedWhenThePoolCloses) {
  open_to_running();
  submit_to(0, with_blobs(task(), {5}));
  on_close(state, effects, now);
  effects.drop_events();
  EXPECT_EQ(effects.take<RetainBlob>().blob.id, BlobId{5});
  effects.take_message<wire::DropBlobs>(kFirst);
  effects.take<Complete>();
  effects.take_message<wire::Shutdown>(kFirst);
}

}  // namespace
}  // namespace skyward::engine

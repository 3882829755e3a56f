#include "skyward/wire/batch.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "skyward/wire/test_messages.h"

namespace skyward::wire {
namespace {

RunTask plain_run(std::uint64_t task, std::string arguments = "x") {
  RunTask run;
  run.task = TaskId{task};
  run.attempt = 2;
  run.function = FunctionId{{1, 2}};
  run.timeout_ms = 5000;
  run.arguments.buffers = {small_buffer(shared_text(std::move(arguments)))};
  return run;
}

TaskResult plain_result(std::uint64_t task, TaskStatus status = TaskStatus::ok) {
  TaskResult result;
  result.task = TaskId{task};
  result.attempt = 3;
  result.status = status;
  result.worker = 1;
  result.run_ns = 77;
  result.payload.buffers = {small_buffer(shared_text("result"))};
  return result;
}

TEST(OutgoingBatch, TasksComeOutAsTheyWentIn) {
  OutgoingBatch batch;
  const std::vector<RunTask> runs{plain_run(1, "one"), plain_run(7, ""), plain_run(2, "three")};
  for (const RunTask& run : runs) EXPECT_TRUE(batch.add(run));
  EXPECT_FALSE(batch.empty());
  EXPECT_EQ(std::get<RunTasks>(batch.take()).tasks(), runs);
  EXPECT_TRUE(batch.empty());
}

TEST(OutgoingBatch, ResultsComeOutAsTheyWentIn) {
  OutgoingBatch batch;
  const std::vector<TaskResult> results{plain_result(1), plain_result(9, TaskStatus::raised)};
  for (const TaskResult& result : results) EXPECT_TRUE(batch.add(result));
  EXPECT_EQ(std::get<TaskResults>(batch.take()).results(), results);
}

TEST(OutgoingBatch, WhatIsNotPlainGoesAlone) {
  const auto changed = [](const std::function<void(RunTask&)>& change) {
    RunTask run = plain_run(1);
    change(run);
    return OutgoingBatch().add(run);
  };
  EXPECT_TRUE(changed([](RunTask&) {}));
  EXPECT_FALSE(changed([](RunTask& run) { run.worker = 0; }));
  EXPECT_FALSE(changed([](RunTask& run) { run.stream_window = 1; }));
  EXPECT_FALSE(changed([](RunTask& run) { run.body = run.arguments.buffers[0]; }));
  EXPECT_FALSE(changed([](RunTask& run) { run.arguments = rich_payload(); }));
  EXPECT_FALSE(changed([](RunTask& run) { run.arguments = {}; }));
  EXPECT_FALSE(OutgoingBatch().add(plain_run(1, std::string(kMaxBatchedBufferBytes + 1, 'x'))));

  const auto altered = [](const std::function<void(TaskResult&)>& change) {
    TaskResult result = plain_result(1);
    change(result);
    return OutgoingBatch().add(result);
  };
  EXPECT_TRUE(altered([](TaskResult&) {}));
  EXPECT_FALSE(altered([](TaskResult& result) { result.status = TaskStatus::cancelled; }));
  EXPECT_FALSE(altered([](TaskResult& result) { result.detail = "killed"; }));
  EXPECT_FALSE(altered([](TaskResult& result) { result.tail = {"line"}; }));
  EXPECT_FALSE(altered([](TaskResult& result) { result.retained = {BlobId{1}}; }));
  EXPECT_FALSE(altered([](TaskResult& result) { result.payload = rich_payload(); }));
}

TEST(OutgoingBatch, HoldsOneKindOfOneFunctionAndLimit) {
  OutgoingBatch batch;
  EXPECT_TRUE(batch.add(plain_run(1)));
  EXPECT_FALSE(batch.add(plain_result(1)));
  RunTask other = plain_run(2);
  other.function = FunctionId{{3}};
  EXPECT_FALSE(batch.add(other));
  other = plain_run(2);
  other.timeout_ms = 1;
  EXPECT_FALSE(batch.add(other));
  EXPECT_EQ(std::get<RunTasks>(batch.take()).rows.size(), 1U);
}

TEST(OutgoingBatch, IsFullAtItsLimits) {
  OutgoingBatch rows;
  for (std::uint64_t task = 1; task <= kMaxBatchRows; ++task)
    EXPECT_TRUE(rows.add(plain_run(task)));
  EXPECT_FALSE(rows.add(plain_run(0)));

  OutgoingBatch bytes;
  const std::string large(kMaxBatchedBufferBytes, 'x');
  for (std::size_t size = 0; size < kMaxBatchBytes; size += large.size()) {
    EXPECT_TRUE(bytes.add(plain_run(size, large)));
  }
  EXPECT_FALSE(bytes.add(plain_run(0)));
  EXPECT_EQ(std::get<RunTasks>(bytes.take()).bytes.size(), kMaxBatchBytes);
}

}  // namespace
}  // namespace skyward::wire

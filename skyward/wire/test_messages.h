#pragma once

// For tests and for the seeds of the fuzzer: at least one message of every kind, with every field
// set and with every kind of buffer, so that a field forgotten in the codec is a failing
// comparison.

#include <memory>
#include <string>
#include <vector>

#include "skyward/wire/message.h"

namespace skyward::wire {

inline SharedBytes shared_text(std::string text) { return SharedBytes(std::move(text)); }

// Small buffers (one of them empty) among windows into two blobs.
inline Payload rich_payload() {
  const auto storage = std::make_shared<const int>(0);
  const Blob first{.id = BlobId{71}, .size = 100'000, .descriptor = 30, .storage = storage};
  const Blob second{.id = BlobId{72}, .size = 65'536, .descriptor = 31, .storage = storage};
  return {{small_buffer(shared_text("the stream")), blob_buffer(first, 0, 70'000), small_buffer({}),
           blob_buffer(second, 0, 65'536), small_buffer(shared_text("small")),
           blob_buffer(first, 70'000, 30'000)}};
}

inline Configure rich_configure() {
  return {.worker_command = {"python", "-m", "skyward._worker", ""},
          .directory = "work",
          .workers = {{{{"RANK", "0"}, {"EMPTY", ""}}}, {}, {{{"RANK", "2"}}}},
          .concurrency = 2,
          .bootstrap = "set -e\necho hello\n",
          .bootstrap_environment = {{"TOKEN", "secret"}},
          .heartbeat_ms = 500,
          .metrics_ms = 0,
          .lease_ms = 600'000,
          .lifetime_ms = 86'400'000,
          .end_command = {"shutdown", "-h", "now"},
          .end_script = "umount /data\n",
          .preemption = "ec2",
          .peer_key = "only for this pool",
          .peer_address = "10.0.0.5"};
}

inline RunTask rich_run_task() {
  RunTask run;
  run.task = TaskId{0x1122334455667788};
  run.attempt = 2;
  run.worker = 3;
  for (std::size_t i = 0; i < run.function.value.size(); ++i) {
    run.function.value[i] = static_cast<std::uint8_t>(0xa0 + i);
  }
  run.body = small_buffer(shared_text("the function"));
  run.arguments = rich_payload();
  run.timeout_ms = 60'000;
  run.stream_window = 16;
  run.group = true;
  return run;
}

inline TaskResult rich_task_result() {
  TaskResult result;
  result.task = TaskId{12};
  result.attempt = 3;
  result.status = TaskStatus::worker_died;
  result.worker = 1;
  result.payload = rich_payload();
  result.run_ns = 1'234'567'890'123;
  result.detail = "killed by signal 9 (SIGKILL)";
  result.tail = {"first line", "", "last line \xc3\xa9"};
  result.retained = {BlobId{71}, BlobId{72}};
  return result;
}

inline RunTasks rich_run_tasks() {
  return {.function = FunctionId{{1, 2}},
          .timeout_ms = 5000,
          .rows = {{TaskId{3}, 2, 4}, {TaskId{4}, 1, 0}, {TaskId{9}, 1, 5}},
          .bytes = shared_text("argsother")};
}

inline TaskResults rich_task_results() {
  return {.rows = {{TaskId{3}, 1'234'567'890'123, 2, 1, 6, TaskStatus::ok},
                   {TaskId{4}, 5, 1, 0, 0, TaskStatus::raised}},
          .bytes = shared_text("result")};
}

inline FetchBlob rich_fetch_blob() {
  return {.blob = BlobId{9},
          .content = {1, 2, 3},
          .size = 1 << 20,
          .attempt = 2,
          .peer = NodeId{3},
          .address = "10.0.0.4",
          .port = 41233};
}

inline BlobFetched rich_blob_fetched() {
  return {.blob = BlobId{9},
          .content = {1, 2, 3},
          .attempt = 2,
          .end = FetchEnd::broken,
          .received = 70'000,
          .detail = "connection reset"};
}

inline std::vector<Message> every_kind() {
  return {
      Hello{.protocol = 1,
            .version = "0.1.0",
            .pool = "job-1",
            .node = NodeId{4},
            .descriptors = true,
            .last_received = 99,
            .token = "sesame"},
      rich_configure(),
      rich_run_task(),
      RunTask{},
      CancelTask{TaskId{5}},
      RecallTasks{7},
      StreamCredit{TaskId{6}, 3},
      DropBlobs{{BlobId{1}, BlobId{2}, BlobId{~std::uint64_t{0}}}},
      DropBlobs{},
      Shutdown{2000},
      Welcome{.protocol = 1,
              .version = "0.1.0",
              .process = 4321,
              .hostname = "node-4",
              .last_received = 17,
              .refusal = "protocol 2 is not mine",
              .blob_bytes = 1 << 30},
      BootstrapStep{"uv", 1500},
      Ready{.accelerators = {"A100", "A100"},
            .elapsed_ms = 9000,
            .peer_port = 41234,
            .memory_bytes = std::uint64_t{96} << 30,
            .device_error = "Failed to initialize NVML",
            .devices_unknown = true},
      Failed{.step = "deps",
             .command = "uv pip install torch",
             .reason = "exit code 1",
             .lines = {"no space left", "on device"}},
      rich_task_result(),
      TaskResult{},
      StreamItem{TaskId{8}, 1, rich_payload()},
      StreamItem{TaskId{9}, 2, {}, "it cannot be sent: no memory"},
      Output{{{TaskId{8}, 1, OutputStream::out, 1'700'000'000'000'000, "epoch 1"},
              {TaskId{0}, 0, OutputStream::err, -5, ""}}},
      Recalled{{TaskId{3}, TaskId{2}}},
      MetricsSample{.cpu_percent = 12.5,
                    .memory_percent = 50,
                    .memory_used_mb = 1024,
                    .memory_total_mb = 2048,
                    .gpu_utilization = 99.5,
                    .gpu_memory_used_mb = 40'000,
                    .gpu_memory_total_mb = 80'000,
                    .gpu_temperature = 71},
      MetricsSample{},
      Farewell{"the pool was closed"},
      BlobChunk{BlobId{9}, 20, 6, shared_text("part"), {1, 2, 3}},
      Heartbeat{},
      Preempted{.left_ms = 119'000, .reason = "terminate"},
      rich_fetch_blob(),
      rich_blob_fetched(),
      DropFunctions{{FunctionId{{1, 2}}, FunctionId{{3}}}},
      DropFunctions{},
      PeerMoved{NodeId{3}, "10.0.0.4"},
      EndAhead{30'000, "the pool's budget is spent"},
      rich_run_tasks(),
      RunTasks{},
      rich_task_results(),
      TaskResults{},
  };
}

}  // namespace skyward::wire

#pragma once

// Everything engine and agent say to each other, in one file. Plain values: the cores make and read
// these; wire/codec.h turns them into frames (a FlatBuffers header from message.fbs, then raw
// buffers) and back.
//
// Every message is delivered exactly once and in order for as long as the agent lives, whatever
// happens to the connection: wire/session.h numbers, acknowledges and re-sends.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "skyward/spec/id.h"
#include "skyward/wire/payload.h"

namespace skyward::wire {

using KeyValues = std::vector<std::pair<std::string, std::string>>;

// ------------------------------------------------------------------------------- engine → agent

// First word on every connection. `last_received` is the sequence number up to which the engine has
// the agent's messages (0 on the first connection), so that the agent re-sends from there.
struct Hello {
  std::uint32_t protocol = 0;
  std::string version;  // of the program, for the message when protocols differ
  std::string pool;     // job id
  NodeId node;
  bool descriptors = false;  // the connection is a Unix socket: blobs go by descriptor
  std::uint64_t last_received = 0;
  bool operator==(const Hello&) const = default;
};

// How to run one worker: `environment` is set over the agent's own (COMPUTE_POOL, rank variables,
// user's env).
struct WorkerSpec {
  KeyValues environment;
  bool operator==(const WorkerSpec&) const = default;
};

// What this node is. Sent once, after Welcome; the agent bootstraps, starts the workers and answers
// Ready or Failed.
struct Configure {
  // argv of a worker process; it speaks worker_protocol.h on descriptor 3.
  std::vector<std::string> worker_command;
  std::string directory;            // working directory of the workers; made if missing
  std::vector<WorkerSpec> workers;  // one per worker (MIG partition), by index
  std::uint32_t concurrency = 1;    // slots per worker; each slot is a process of its own
  std::string bootstrap;            // bash script run before the workers; empty: nothing to do
  KeyValues bootstrap_environment;  // values that must not stand in the script (indexes, tokens)
  std::uint32_t heartbeat_ms = 1000;
  std::uint32_t metrics_ms = 2000;  // 0: no metrics
  bool operator==(const Configure&) const = default;
};

struct RunTask {
  TaskId task;
  std::uint32_t attempt = 1;
  std::optional<std::uint32_t> worker;  // this worker only (broadcast); else any free slot
  FunctionId function;
  SharedBytes body;  // the function, when this node does not have it yet; else empty
  Payload arguments;
  std::uint64_t timeout_ms = 0;     // run time allowed on the worker; 0: none
  std::uint32_t stream_window = 0;  // > 0: send a generator's items one by one, this many ahead
  bool operator==(const RunTask&) const = default;
};

// Interrupt the task (SIGINT in its worker, SIGKILL after kCancelGrace) or take it from the queue.
// Answered by its TaskResult.
struct CancelTask {
  TaskId task;
  bool operator==(const CancelTask&) const = default;
};

// Give back up to `count` tasks that no worker has seen, newest first: another node is idle.
// Answered by Recalled.
struct RecallTasks {
  std::uint32_t count = 0;
  bool operator==(const RecallTasks&) const = default;
};

// The reader has taken `count` items of a stream.
struct StreamCredit {
  TaskId task;
  std::uint32_t count = 0;
  bool operator==(const StreamCredit&) const = default;
};

// No task refers to these any more: close the descriptors.
struct DropBlobs {
  std::vector<BlobId> blobs;
  bool operator==(const DropBlobs&) const = default;
};

// End all workers (running tasks are interrupted; SIGKILL after `grace_ms`) and the agent itself.
struct Shutdown {
  std::uint32_t grace_ms = 0;
  bool operator==(const Shutdown&) const = default;
};

// ------------------------------------------------------------------------------- agent → engine

// Answer to Hello, or the refusal of another protocol (`refusal` says why, and the connection
// ends).
struct Welcome {
  std::uint32_t protocol = 0;
  std::string version;
  std::uint64_t process = 0;  // pid, for people
  std::string hostname;
  std::uint64_t last_received = 0;
  std::string refusal;
  bool operator==(const Welcome&) const = default;
};

// A step of the bootstrap is done: "uv", "apt", "deps", "volumes", "skyward", "server".
struct BootstrapStep {
  std::string step;
  std::uint64_t elapsed_ms = 0;  // since Configure
  bool operator==(const BootstrapStep&) const = default;
};

// All workers have greeted. `accelerators`: model name of each device found, empty without.
struct Ready {
  std::vector<std::string> accelerators;
  std::uint64_t elapsed_ms = 0;
  bool operator==(const Ready&) const = default;
};

// This node cannot work: the failed step ("server" when the workers do not start), the command, how
// it ended, its last lines.
struct Failed {
  std::string step;
  std::string command;
  std::string reason;  // "exit code 1", "killed by signal 9 (SIGKILL)", "timed out after 600 s"
  std::vector<std::string> lines;
  bool operator==(const Failed&) const = default;
};

enum class TaskStatus : std::uint8_t {
  ok,           // the payload is the result; for a stream: it ended
  raised,       // the payload describes the function's own exception
  worker_died,  // `detail` says how: signal, exit code, memory
  cancelled,    // by CancelTask
  timed_out,    // ran longer than RunTask.timeout_ms
};

struct TaskResult {
  TaskId task;
  std::uint32_t attempt = 1;
  TaskStatus status = TaskStatus::ok;
  std::uint32_t worker = 0;
  Payload payload;
  std::uint64_t run_ns = 0;       // time inside the worker
  std::string detail;             // for worker_died and timed_out
  std::vector<std::string> tail;  // last lines of output, unless status is ok
  std::vector<BlobId> retained;  // argument blobs the worker still has mapped: never to be recycled
  bool operator==(const TaskResult&) const = default;
};

struct StreamItem {
  TaskId task;
  std::uint32_t attempt = 1;
  Payload payload;
  bool operator==(const StreamItem&) const = default;
};

enum class OutputStream : std::uint8_t { out = 1, err = 2 };

// One line of a task's output, without its newline. task 0: written while no task ran.
struct OutputLine {
  TaskId task;
  std::uint32_t worker = 0;
  OutputStream stream = OutputStream::out;
  std::int64_t wall_us = 0;  // microseconds since 1970, node's clock
  std::string text;
  bool operator==(const OutputLine&) const = default;
};

struct Output {
  std::vector<OutputLine> lines;
  bool operator==(const Output&) const = default;
};

struct Recalled {
  std::vector<TaskId> tasks;
  bool operator==(const Recalled&) const = default;
};

// Memory in MiB. GPU values: utilization averaged over devices, memory summed, temperature maximum;
// nothing without a GPU.
struct MetricsSample {
  double cpu_percent = 0;
  double memory_percent = 0;
  double memory_used_mb = 0;
  double memory_total_mb = 0;
  std::optional<double> gpu_utilization;
  std::optional<double> gpu_memory_used_mb;
  std::optional<double> gpu_memory_total_mb;
  std::optional<double> gpu_temperature;
  bool operator==(const MetricsSample&) const = default;
};

// ------------------------------------------------------------------------------- both ways

// Proof of life; also carries the acknowledgement when nothing else does.
struct Heartbeat {
  bool operator==(const Heartbeat&) const = default;
};

using Message = std::variant<Hello, Configure, RunTask, CancelTask, RecallTasks, StreamCredit,
                             DropBlobs, Shutdown,  //
                             Welcome, BootstrapStep, Ready, Failed, TaskResult, StreamItem, Output,
                             Recalled, MetricsSample, Heartbeat>;

}  // namespace skyward::wire

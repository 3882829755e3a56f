#pragma once

// Messages from an agent to the engine. See message.h.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "skyward/spec/id.h"
#include "skyward/wire/payload.h"

namespace skyward::wire {

// The answer to Hello, or the refusal of another protocol version: `refusal` says why, and the
// connection ends.
struct Welcome {
  std::uint32_t protocol = 0;
  std::string version;
  std::uint64_t process = 0;  // pid, for people
  std::string hostname;
  std::uint64_t last_received = 0;
  std::string refusal;
  std::uint64_t blob_bytes = 0;  // limit of the blobs that stay here without a task
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
  std::uint16_t peer_port = 0;     // where other agents of the pool connect; 0: nowhere
  std::uint64_t memory_bytes = 0;  // that the node may use
  std::string device_error{};      // what nvidia-smi says if it fails
  bool devices_unknown = false;    // what names the devices has not answered yet
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
  not_begun,    // `detail` says why: no process starts, an argument is missing
  undelivered,  // it has ended; `detail` says why its result cannot be sent, or stored here
};

// A longer run counts as this long: two weeks.
inline constexpr std::uint64_t kMaxRunNs = std::uint64_t{1} << 50;

struct TaskResult {
  TaskId task;
  std::uint32_t attempt = 1;
  TaskStatus status = TaskStatus::ok;
  std::uint32_t worker = 0;
  Payload payload;
  std::uint64_t run_ns = 0;       // time inside the worker
  std::string detail;             // unless status is ok, raised or cancelled
  std::vector<std::string> tail;  // last lines of output, unless status is ok
  std::vector<BlobId> retained;  // argument blobs the worker still has mapped: never to be recycled
  bool operator==(const TaskResult&) const = default;
};

struct StreamItem {
  TaskId task;
  std::uint32_t attempt = 1;
  Payload payload;
  std::string undelivered;  // why the payload could not be sent, or stored here; empty: it is here
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

// The cloud has announced the preemption of this machine: it is gone about `left_ms` from now. Sent
// once.
struct Preempted {
  std::uint64_t left_ms = 0;
  std::string reason;  // what the cloud said, for people
  bool operator==(const Preempted&) const = default;
};

enum class FetchEnd : std::uint8_t {
  whole,      // all bytes are here
  unreached,  // no connection to the peer could be made
  missing,    // the peer does not have the bytes, or has dropped them
  broken,     // the connection ended, or was silent for too long
  stopped,    // by request of the engine
};

// The attempt of a BlobFetched without a FetchBlob: the node had no memory for this blob, and a
// task needed it. `end` is `missing`.
inline constexpr std::uint32_t kNotAsked = 0;

// How the fetch of a blob from another node ended, with the engine's id of the blob.
struct BlobFetched {
  BlobId blob;
  ContentId content{};
  std::uint32_t attempt = 0;
  FetchEnd end = FetchEnd::whole;
  std::uint64_t received = 0;  // bytes that have arrived, from the first on
  std::string detail;          // for people
  bool operator==(const BlobFetched&) const = default;
};

// The last message of an agent that exits; it will not accept another connection.
struct Farewell {
  std::string reason;
  bool operator==(const Farewell&) const = default;
};

}  // namespace skyward::wire
